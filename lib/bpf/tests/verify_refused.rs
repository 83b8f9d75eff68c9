//! Programs that the verifier must refuse (`refused.txt`), and what it says: instruction, register, what was known of
//! it, why. `BLESS=1` writes down what it says.

mod support;

use mote_bpf::environment::{Environment, STEPS_MAX};
use mote_bpf::op::{Op, decode};
use mote_bpf::verify::{Known, Reason, View, WORK_MAX, Watch, verify_traced, verify_watched};
use mote_bpf::{Entry, Insn, MapKind, MapShape, Reg};
use support::{CONTEXT, MEMORY, TRACED, assemble, check, heavy, with_workspace};

fn said(env: &Environment<'_>, text: &str) -> String {
    match check(&assemble(text), env) {
        Ok(_) => "accepted".to_owned(),
        Err(why) => why.to_string(),
    }
}

#[test]
fn programs_are_refused_for_a_reason() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/refused.txt");
    let table = std::fs::read_to_string(file).expect("the table is there");
    let (mut env, mut count) = (&CONTEXT, 0);
    let mut now = Vec::new();
    for entry in table.trim_end().split("\n\n") {
        let Some((text, _)) = entry.split_once("\n=> ") else {
            env = match entry {
                "## memory" => &MEMORY,
                "## traced" => &TRACED,
                _ => env,
            };
            now.push(entry.to_owned());
            continue;
        };
        now.push(format!("{text}\n=> {}", said(env, text)));
        count += 1;
    }
    let now = now.join("\n\n") + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, &now).expect("the table can be written");
    }
    for (then, now) in table.lines().zip(now.lines()) {
        assert_eq!(now, then);
    }
    assert!(count > 140 && !now.contains("=> accepted"), "{count}");
}

#[test]
fn a_rejection_says_what_was_known() {
    let why = check(&assemble("r2 = *(u8 *)(r1 + 0); r0 = *(u8 *)(r2 + 0); exit"), &CONTEXT).unwrap_err();
    assert_eq!((why.insn, why.reg, why.known), (1, Reg::new(2), Known::Unsigned(0, 255)));
    assert_eq!(why.reason, Reason::NeedsPointer);
}

#[test]
fn what_is_not_there_cannot_be_used() {
    let none = Environment { entry: Entry::Memory { len: 0 }, ..CONTEXT };
    assert!(said(&none, "r0 = *(u8 *)(r1 + 0); exit").contains("there are 0"));
    let zero =
        [MapShape { kind: MapKind::Array, key_bytes: 4, value_bytes: 0, entries: 1, read_only: false }];
    let shapeless = Environment { maps: &zero, ..CONTEXT };
    let why = check(&assemble("r1 = map[idx:0] ll; r0 = 0; exit"), &shapeless).unwrap_err();
    assert_eq!(why.reason, Reason::MapShape(0));
}

#[test]
fn lengths_and_steps_are_bounded() {
    let turns = assemble("r0 = 0; loop: r0 += 1; if r0 != 50 goto loop; exit");
    assert_eq!(check(&turns, &Environment { steps_max: 102, ..CONTEXT }), Ok(102));
    let why = check(&turns, &Environment { steps_max: 101, ..CONTEXT }).unwrap_err();
    assert_eq!((why.insn, why.reason), (3, Reason::Steps(101)));
    assert_eq!(check(&[], &CONTEXT).map_err(|why| why.reason), Err(Reason::Length(0)));
    let mut long = vec![Insn::new(0xb7, 0, 0, 0, 0); 1 << 16];
    long.push(Insn::new(0x95, 0, 0, 0, 0));
    assert_eq!(check(&long, &CONTEXT).map_err(|why| why.reason), Err(Reason::Length((1 << 16) + 1)));
    assert_eq!(check(&long[1..], &CONTEXT), Ok(1 << 16));
    assert_eq!(STEPS_MAX, 1 << 20);
}

/// Counts what is met at branches with all frames there.
struct Branches<'a> {
    insns: &'a [Insn],
    frames: usize,
    met: u64,
}

impl Watch for Branches<'_> {
    fn at(&mut self, insn: usize, view: &View<'_>) {
        let branch = matches!(decode(&self.insns[insn..]), Ok(Op::Branch { .. }));
        self.met += u64::from(branch && view.frames() == self.frames);
    }
}

/// At each branch the verifier goes through all that is known: every slot of every frame. That is bounded, too, not
/// only the steps.
#[test]
fn work_at_branches_is_bounded() {
    for frames in [1, 2, 8] {
        for (name, body) in heavy::BODIES {
            let insns = assemble(&heavy::program(frames, body));
            let mut branches = Branches { insns: &insns, frames, met: 0 };
            let work = with_workspace(|workspace| {
                let result = verify_watched(&insns, &CONTEXT, workspace, &mut branches);
                let why = result.expect_err(name).reason;
                assert!(matches!(why, Reason::Work | Reason::Steps(_)), "{frames} {name}: {why:?}");
                workspace.work()
            });
            assert!(work <= WORK_MAX + (1 << 20), "{frames} {name}: {work}");
            // In all but the last program one at least of a turn's three branches is followed both ways: what is
            // counted is what was done.
            let known = if body == heavy::BODIES[4].1 { 0 } else { (frames * heavy::SLOTS) as u64 };
            assert!(branches.met / 4 * known <= work, "{frames} {name}: {} branches, {work}", branches.met);
        }
    }
}

/// A second look, at a program that reads its thread's state, has what the first one has left.
#[test]
fn work_of_both_looks_is_bounded_together() {
    // The way to `late` is taken last: it waits while the loop is walked.
    let program = |turns: u32, late: &str| {
        let body = format!(
            "r8 = 0; if r6 == 77 goto late; loop: r8 += 1; if r6 != r8 goto more; r0 = 0; exit
            more: if r8 < {turns} goto loop; r0 = 0; exit; late: {late}; exit"
        );
        assemble(&heavy::program(1, &body))
    };
    let verify = |insns: &[Insn]| {
        with_workspace(|workspace| {
            let result = verify_traced(insns, &CONTEXT, 64, workspace).map(|(_, state)| state);
            assert!(workspace.work() <= WORK_MAX + (1 << 20));
            result.map_err(|why| why.reason)
        })
    };
    assert_eq!(verify(&program(2_000, "r0 = *(u64 *)(r2 + 0)")), Ok(true));
    assert_eq!(verify(&program(12_000, "r0 = 0")), Ok(false));
    assert_eq!(verify(&program(12_000, "r0 = *(u64 *)(r2 + 0)")), Err(Reason::Work));
}

/// A program that asks for as much work as it can takes bounded time and memory: it is refused, and nothing panics.
#[test]
fn costly_programs_are_refused_in_bounded_time() {
    let few = Environment { steps_max: 1 << 15, ..CONTEXT };
    let mut branches = String::from("r6 = r1\n");
    for at in 0..400 {
        // Each way leaves another number, which is used in the end.
        branches +=
            &format!("r2 = *(u64 *)(r6 + 0); if r2 & 1 goto l{at}; r7 += {}; l{at}:\n", 1u64 << (at % 30));
    }
    let text = branches.replacen("r6 = r1\n", "r6 = r1; r7 = 0\n", 1) + "if r7 == 5 goto +0; r0 = 0; exit";
    let why = check(&assemble(&text), &few).unwrap_err();
    assert_eq!(why.reason, Reason::Steps(1 << 15));
    let waiting = "r6 = *(u64 *)(r1 + 0); r2 = 0; loop: r2 += 1; r6 = *(u64 *)(r1 + 0); if r6 == r2 goto out
        if r2 < 100000 goto loop; out: r0 = r2; exit";
    let why = check(&assemble(waiting), &CONTEXT).unwrap_err();
    assert!(matches!(why.reason, Reason::Branches | Reason::Steps(_)), "{why}");
}
