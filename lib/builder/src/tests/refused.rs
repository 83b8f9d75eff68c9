//! Each way in which a builder refuses.

use super::*;
use mote_bpf::helper::KTIME_GET_NS;

/// The first mistake of a program, without its place in the source.
fn refused(make: impl FnOnce(&mut Builder)) -> String {
    let mut b = Builder::new();
    make(&mut b);
    let error = b.finish().expect_err("a mistake").to_string();
    let (place, message) = error.split_once(": ").expect("a place");
    assert!(place.contains("refused.rs:"), "{error}");
    message.to_owned()
}

fn accepted(make: impl FnOnce(&mut Builder)) -> usize {
    let mut b = Builder::new();
    make(&mut b);
    b.finish().expect("no mistake").len()
}

#[test]
fn a_scratch_value_behind_a_call() {
    let message = refused(|b| {
        let value = b.get(5);
        let _time = b.invoke(KTIME_GET_NS, ());
        b.exit_with(&value);
    });
    assert_eq!(message, "r1 does not hold this value any more; keep it in a register that survives calls");
    accepted(|b| {
        let value = b.keep(5);
        let _time = b.invoke(KTIME_GET_NS, ());
        b.exit_with(&value);
    });
}

#[test]
fn a_scratch_value_behind_a_call_on_one_of_two_ways() {
    let message = refused(|b| {
        let value = b.get(5);
        b.when(value.gt(3), |b| {
            let _time = b.invoke(KTIME_GET_NS, ());
        });
        b.exit_with(&value);
    });
    assert!(message.starts_with("r1 does not hold"), "{message}");
    // The way with the call ends: the other one has the value still.
    accepted(|b| {
        let value = b.get(5);
        b.when(value.gt(3), |b| {
            let time = b.invoke(KTIME_GET_NS, ());
            b.exit_with(time);
        });
        b.exit_with(&value);
    });
}

#[test]
fn an_earlier_result_behind_a_call() {
    let message = refused(|b| {
        let first = b.invoke(KTIME_GET_NS, ());
        let second = b.invoke(KTIME_GET_NS, ());
        b.exit_with(second - &first);
    });
    assert!(message.starts_with("r0 does not hold"), "{message}");
}

#[test]
fn a_scratch_value_behind_a_label_that_is_jumped_back_to() {
    let message = refused(|b| {
        let value = b.get(5);
        let again = b.here();
        b.jump_if(value.eq(7), again);
        b.exit_with(0);
    });
    assert!(message.starts_with("r1 does not hold"), "{message}");
}

#[test]
fn a_saved_value_that_another_one_has_taken_over_before_a_jump_back() {
    let message = refused(|b| {
        let value = b.keep(5);
        let again = b.here();
        b.increase(Local::<u64>::at(-8), &value);
        // Written by its register: that it holds something else is noticed.
        b.mov(Reg::R6, 3);
        b.jump(again);
    });
    assert!(message.starts_with("r6 does not hold"), "{message}");
}

#[test]
fn a_value_that_an_instruction_by_itself_has_overwritten() {
    let message = refused(|b| {
        let value = b.get(5);
        b.mov(value.register(), 6);
        b.exit_with(&value);
    });
    assert!(message.starts_with("r1 does not hold"), "{message}");
}

#[test]
fn a_value_that_is_not_set_on_all_ways() {
    let message = refused(|b| {
        let context = b.pin(Reg::R1);
        let value = b.saved();
        b.when(context.eq(0), |b| b.set(&value, 1));
        b.exit_with(&value);
    });
    assert_eq!(message, "the value of r6 was not set on all ways here; set it before they part");
    accepted(|b| {
        let context = b.pin(Reg::R1);
        let value = b.saved();
        b.either(context.eq(0), |b| b.set(&value, 1), |b| b.set(&value, 2));
        b.exit_with(&value);
    });
}

#[test]
fn more_values_than_registers() {
    let saved = refused(|b| {
        let _all: Vec<_> = (0..5).map(|number| b.keep(number)).collect();
    });
    assert_eq!(saved, "more than 4 values survive calls; drop one, or store one in the frame");
    let scratch = refused(|b| {
        let _all: Vec<_> = (0..7).map(|number| b.get(number)).collect();
    });
    assert_eq!(scratch, "more than 6 values at a time; drop one, or store one in the frame");
    // One after the other they have the same register.
    accepted(|b| (0..100).for_each(|number| drop(b.keep(number))));
}

#[test]
fn a_register_that_is_taken() {
    let pinned = refused(|b| {
        let _one = b.keep(1);
        let _two = b.pin(Reg::R6);
    });
    assert_eq!(pinned, "r6 has another value; drop that before");
    let expected = refused(|b| {
        let time = b.invoke(KTIME_GET_NS, ());
        let place = Local::<u64>::at(-8);
        let old = b.compare_exchange(place, 0, 1);
        b.exit_with(old + &time);
    });
    assert_eq!(expected, "r0 has another value; drop that before");
}

#[test]
fn too_large_a_frame() {
    let message = refused(|b| {
        b.local::<[u64; 60]>();
        b.local::<[u64; 5]>();
    });
    assert_eq!(message, "the frame would have 520 bytes; 512 are the most");
}

#[test]
fn instructions_that_no_way_leads_to() {
    let message = refused(|b| {
        b.exit_with(0);
        b.put(Local::<u64>::at(-8), 1);
    });
    assert_eq!(message, "no way leads to these instructions; remove them");
    let both_leave = refused(|b| {
        let context = b.pin(Reg::R1);
        b.either(context.eq(0), |b| b.exit_with(0), |b| b.exit_with(1));
        b.exit_with(2);
    });
    assert_eq!(both_leave, "no way leads to these instructions; remove them");
}

#[test]
fn a_function_that_the_code_before_falls_into() {
    let message = refused(|b| {
        let function = b.label();
        let _result = b.invoke_function(function, (1,));
        b.function(function, |b, [value]| b.exit_with(value));
    });
    assert_eq!(message, "the code before goes on into this function; end it before");
}

#[test]
fn a_field_of_another_size_than_the_kernel_says() {
    struct Task;
    assert!(Field::<Task, u32>::found(16, 4).is_some());
    assert!(Field::<Task, u32>::found(16, 8).is_none());
    assert!(Field::<Task, u32>::found(u32::MAX, 4).is_none());
}
