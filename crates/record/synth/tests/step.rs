//! What the engine step says of small programs.

mod support;

use mote_synth::{Exit, Note, step};
use support::{Program, Seen, Step};

fn stepped(name: &str) -> Option<(Program, Seen, i32)> {
    let program = Program::compile(name)?;
    let mut seen = Seen::default();
    let status = step::run(&program.words(), &mut seen).expect("stepped");
    Some((program, seen, status))
}

#[test]
fn loops_and_calls() {
    let Some((program, seen, status)) = stepped("loops") else { return };
    assert_eq!(status, 0);
    let marked = seen.marked(&program, 0);
    let calls = |function| {
        let to = program.symbol(function);
        marked.iter().filter(|step| matches!(step, Step::Left(_, target) if *target == to)).count()
    };
    assert_eq!(calls("twice"), 10);
    assert_eq!(calls("square"), 10);
    assert_eq!(calls("deep"), 101);
    assert!(!marked.contains(&Step::Left(Exit::System, 0)));
}

/// How often a thread goes from one of these steps to the next.
fn entered(marked: &[Step], from: impl Fn(&Step) -> bool, to: u64) -> usize {
    marked.windows(2).filter(|pair| from(&pair[0]) && pair[1] == Step::Enter(to)).count()
}

#[test]
fn handlers_begin_where_their_threads_were_interrupted() {
    let Some((program, seen, status)) = stepped("signals") else { return };
    assert_eq!(status, 0);
    let marked = seen.marked(&program, 0);
    let from_fault = |step: &Step| matches!(step, Step::Interrupt(_));
    let from_call = |step: &Step| *step == Step::Left(Exit::System, 0);
    // SIGUSR1 comes behind kill(2), SIGTRAP by INT3.
    assert_eq!(entered(marked, from_call, program.symbol("counts")), 1);
    assert_eq!(entered(marked, from_fault, program.symbol("counts")), 1);
    // A store, and REP in its middle.
    assert_eq!(entered(marked, from_fault, program.symbol("maps")), 2);
    assert_eq!(entered(marked, from_fault, program.symbol("retries")), 3);
    assert_eq!(entered(marked, from_fault, program.symbol("skips")), 1);
    // A store, a jump to nowhere, a division.
    assert_eq!(entered(marked, from_fault, program.symbol("jumps")), 3);
    assert!(marked.contains(&Step::Interrupt(16)));
    // A faulting instruction is executed when it is begun again, and then only.
    for (at, step) in marked.iter().enumerate() {
        if let Step::Interrupt(ip) = step {
            assert_ne!(marked[at - 1], Step::At(*ip));
        }
    }
}

#[test]
fn threads_and_children_are_followed() {
    let Some((program, seen, status)) = stepped("threads") else { return };
    assert_eq!(status, 7);
    assert_eq!(seen.order.len(), 4);
    // Both threads and the child do the same.
    let length = |number| seen.marked(&program, number).len();
    assert_eq!((length(1), length(3)), (length(2), length(1)));
    assert!(seen.steps.values().all(|steps| steps.last() == Some(&Step::End)));
    let exits = seen.notes.iter().filter(|(_, note)| matches!(note, Note::Exit { .. })).count();
    assert_eq!(exits, 2);
}

#[test]
fn a_fault_ends_a_program_before_its_instruction() {
    let Some((program, seen, status)) = stepped("killed") else { return };
    assert_eq!(status, -libc::SIGSEGV);
    let steps = &seen.steps[&seen.order[0]];
    let main = program.symbol("main");
    let [.., Step::At(before), Step::Interrupt(at), Step::End] = steps.as_slice() else {
        panic!("{:?}", steps.last_chunk::<4>())
    };
    assert!(*before == at - 1 && (main..main + 16).contains(at), "{before:#x} {at:#x}");
}

#[test]
fn what_cannot_be_executed_is_said() {
    let mut seen = Seen::default();
    let error = step::run(&["/nowhere/at/all".into()], &mut seen).expect_err("no such program");
    assert!(error.to_string().contains("cannot execute /nowhere/at/all"), "{error}");
    assert!(step::run(&[], &mut seen).is_err());
}

/// A program that has restartable sequences without the C library would begin each anew for ever: there are none.
#[test]
fn restartable_sequences_are_not_there() {
    let Some((_, _, status)) = stepped("rseq") else { return };
    assert_eq!(status, 38, "ENOSYS");
}
