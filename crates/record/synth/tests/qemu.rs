//! The engine qemu says of small programs what the engine step says.

mod support;

use mote_synth::{Exit, Note, qemu, step};
use support::{Program, Seen, Step};

/// What qemu makes of a program; `None`, said loudly, where there is no qemu.
fn emulated(program: &Program) -> Option<(Seen, i32)> {
    if let Err(why) = qemu::check() {
        mote_skip::skip(why);
        return None;
    }
    let mut seen = Seen::default();
    let status = qemu::run(&program.words(), qemu::Code::Executed, &mut seen).expect("emulated");
    Some((seen, status))
}

#[track_caller]
fn check(name: &str, threads: usize) {
    let Some(program) = Program::compile(name) else { return };
    let Some((emulated, status)) = emulated(&program) else { return };
    let mut stepped = Seen::default();
    assert_eq!(step::run(&program.words(), &mut stepped).expect("stepped"), status);
    assert_eq!(stepped.order.len(), emulated.order.len());
    for thread in threads.min(1)..=threads {
        let (left, right) = (stepped.marked(&program, thread), emulated.marked(&program, thread));
        let differs = left.iter().zip(right).position(|(left, right)| left != right);
        let about = differs.map(|at| at.saturating_sub(3)..(at + 3).min(left.len()).min(right.len()));
        if let Some(about) = about {
            panic!("{name}, thread {thread}: step {:x?}\nqemu {:x?}", &left[about.clone()], &right[about]);
        }
        assert_eq!(left.len(), right.len());
    }
}

#[test]
fn loops_and_calls() {
    check("loops", 0);
}

#[test]
fn handlers_and_faults() {
    check("signals", 0);
}

#[test]
fn code_that_changes() {
    check("jit", 0);
}

#[test]
fn code_that_changes_is_noted() {
    let Some(program) = Program::compile("jit") else { return };
    let Some((emulated, _)) = emulated(&program) else { return };
    let mut stepped = Seen::default();
    step::run(&program.words(), &mut stepped).expect("stepped");
    for seen in [emulated, stepped] {
        let starts_with = |code: &[u8]| {
            let is_so = |note: &Note| matches!(note, Note::Code { bytes, .. } if bytes.starts_with(code));
            seen.notes.iter().any(|(_, note)| is_so(note))
        };
        assert!((0..3).all(|number| starts_with(&[0xb8, number])));
        assert!(!starts_with(&[0xb8, 3]));
    }
}

#[test]
fn threads_and_children() {
    check("threads", 3);
}

#[test]
fn a_fault_that_ends_a_program_leaves_out_its_block() {
    let Some(program) = Program::compile("killed") else { return };
    let Some((seen, status)) = emulated(&program) else { return };
    assert_eq!(status, -libc::SIGSEGV);
    let steps = &seen.steps[&seen.order[0]];
    let main = program.symbol("main");
    let [.., Step::Interrupt(at), Step::End] = steps.as_slice() else {
        panic!("{:?}", steps.last_chunk::<4>())
    };
    assert!((main..main + 16).contains(at) && !steps.contains(&Step::At(*at)), "{at:#x}");
}

#[test]
fn code_has_its_file() {
    let Some(program) = Program::compile("loops") else { return };
    let Some((seen, _)) = emulated(&program) else { return };
    let main = program.symbol("main");
    let images = seen.notes.iter().filter_map(|(_, note)| match note {
        Note::Image(image) => Some(image),
        _ => None,
    });
    let mut of_main = images.filter(|image| (image.start..image.start + image.bytes).contains(&main));
    assert!(of_main.all(|image| image.path == program.path));
    let steps = &seen.steps[&seen.order[0]];
    assert!(matches!(steps.as_slice(), [Step::Enter(_), .., Step::Left(Exit::System, 0), Step::End]));
}

#[test]
fn programs_that_processes_become_are_followed() {
    let Some(program) = Program::compile("exec") else { return };
    let Some((emulated, status)) = emulated(&program) else { return };
    assert_eq!(status, 6);
    let mut stepped = Seen::default();
    assert_eq!(step::run(&program.words(), &mut stepped).expect("stepped"), 6);
    for seen in [emulated, stepped] {
        let child = seen.order[1];
        let is_exec = |note: &Note| matches!(note, Note::Exec { path, .. } if *path == program.path);
        assert!(seen.notes.iter().any(|(tid, note)| *tid == child && is_exec(note)));
        let steps = &seen.steps[&child];
        assert!(steps.contains(&Step::At(program.symbol("reached"))));
        assert_eq!(steps.iter().filter(|step| **step == Step::End).count(), 1);
    }
}
