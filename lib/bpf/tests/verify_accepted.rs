//! Programs that the verifier must accept, and what it says of them.

mod support;

use support::{CONTEXT, check, programs, verified};

#[test]
fn programs_are_accepted() {
    for (name, insns, env) in programs() {
        if let Err(why) = check(&insns, env) {
            panic!("{name}: {why}");
        }
    }
}

#[test]
fn what_engines_are_told_is_so() {
    let text = "r1 = r10; r1 += -24; call write; r0 = *(u64 *)(r10 - 24); exit
        write: *(u64 *)(r1 + 0) = 5; r6 = 1; *(u32 *)(r10 - 4) = r6; r0 = 0; exit";
    verified(text, &CONTEXT, |it| {
        let functions = it.functions();
        assert_eq!(functions.len(), 2);
        assert_eq!((functions[0].start(), functions[0].end(), functions[0].stack_bytes()), (0, 5, 24));
        assert_eq!((functions[1].start(), functions[1].end(), functions[1].stack_bytes()), (5, 10, 8));
        assert!(functions[0].calls() && !functions[1].calls());
        assert_eq!(functions[1].registers() >> 6, 0b10001);
        assert_eq!((it.depth(), it.steps(), it.tail_calls(), it.reads_outside()), (2, 10, false, false));
        assert_eq!(it.function_at(5), Some(1));
        assert_eq!(it.insns().len(), 10);
    });
    let text = "r2 = *(u64 *)(r1 + 32); r0 = *(u8 *)(r2 + 0); r2 = map[idx:4] ll; r3 = 0; call tail_call; r0 = 0; exit";
    verified(text, &CONTEXT, |it| {
        assert_eq!(it.functions()[0].stack_bytes(), 0);
        assert!(it.tail_calls() && it.reads_outside());
    });
}

/// A path that was walked is not walked again: the steps of many branches grow with their number, not with its power.
#[test]
fn paths_that_meet_are_walked_once() {
    let mut text = String::from("r6 = r1; r7 = 0\n");
    for at in 0..60 {
        let slot = 8 * (at + 1);
        // What is left in the slot is different on each path, but is not read any more.
        text += &format!(
            "r2 = *(u64 *)(r6 + 0); if r2 & {} goto l{at}; *(u64 *)(r10 - {slot}) = {at}\n",
            1 << (at % 30)
        );
        text += &format!("r1 = r10; r1 += -{slot}; r2 = 8; call show; r7 += 1; l{at}:\n");
    }
    text += "r0 = r7; exit";
    verified(&text, &CONTEXT, |it| assert!(it.steps() < 3000, "{}", it.steps()));
}
