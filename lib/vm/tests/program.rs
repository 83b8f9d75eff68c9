//! Programs as such: what cannot be loaded, how they end, what they call.

mod common;

use common::{ENGINES, NUMBERS, insns, load, map, run, shape};
use mote_bpf::helper::{MAP_ADD, TAIL_CALL};
use mote_bpf::op::{AluOp, AtomicOp, Cond, Size, Width};
use mote_bpf::verify::verify;
use mote_bpf::{Entry, Environment, Insn, MapKind, Reg};
use mote_jit::{Error, FUNCTIONS_MAX};
use mote_vm::code::Refused;
use mote_vm::{Choice, Engine, Fault, LoadError, Program, ProgramSlot, Returned, Setup, Update};

fn refusal(insns: &[Insn], setup: Setup<'_>) -> LoadError {
    let env = Environment { entry: Entry::Context(&NUMBERS), maps: &[], helpers: &[], steps_max: 100 };
    // SAFETY: it is not run.
    unsafe { Program::load_unverified(insns, &env, &setup) }.expect_err("it is malformed")
}

#[test]
fn malformed_programs_are_refused() {
    let exit = Insn::new(0x95, 0, 0, 0, 0);
    let interpreted = Setup { engine: Choice::Interpreter, ..Setup::default() };
    let check = |insns: &[Insn], expected: LoadError| {
        assert_eq!(refusal(insns, interpreted), expected);
        let env = Environment { entry: Entry::Context(&NUMBERS), maps: &[], helpers: &[], steps_max: 100 };
        let setup = Setup { engine: Choice::Jit, ..interpreted };
        // SAFETY: it is not run.
        let compiled = unsafe { Program::load_unverified(insns, &env, &setup) };
        assert!(compiled.is_err(), "{insns:?}");
    };
    check(&[], LoadError::End);
    check(&[Insn::new(0xb7, 0, 0, 0, 0)], LoadError::End);
    check(&[Insn::new(0x05, 0, 0, 1, 0), exit], LoadError::Target { at: 0 });
    check(&[Insn::new(0x05, 0, 0, -2, 0), exit], LoadError::Target { at: 0 });
    // Into the second half of a 16-byte load.
    let wide = [Insn::new(0x05, 0, 0, 1, 0), Insn::new(0x18, 0, 0, 0, 0), Insn::default(), exit];
    check(&wide, LoadError::Target { at: 0 });
    check(&[Insn::new(0x85, 0, 0, 0, 9999), exit], LoadError::Helper { at: 0, helper: 9999 });
    check(&[Insn::new(0x18, 0, 5, 0, 3), Insn::default(), exit], LoadError::NoMap { at: 0, index: 3 });
    assert!(matches!(
        refusal(&[Insn::new(0xff, 0, 0, 0, 0), exit], interpreted),
        LoadError::Decode { at: 0, .. }
    ));
    assert!(matches!(refusal(&[Insn::new(0x18, 0, 0, 0, 0)], interpreted), LoadError::Decode { at: 0, .. }));
    let other = [map(&shape(MapKind::Array, 4, 8, 1))];
    assert_eq!(refusal(&[exit], Setup { maps: &other, ..interpreted }), LoadError::Map(0));
}

/// More functions than machine code may have, and than the interpreter has frames for.
fn with_functions(count: usize) -> Vec<Insn> {
    insns(|b| {
        let labels: Vec<_> = (1..count).map(|_| b.label()).collect();
        labels.iter().for_each(|label| b.call_local(*label));
        b.exit();
        for label in labels {
            b.bind(label);
            b.mov(Reg::R0, 1);
            b.exit();
        }
    })
}

#[test]
fn a_refusal_names_its_own_reason() {
    let exit = Insn::new(0x95, 0, 0, 0, 0);
    let call = |offset: i32| Insn::new(0x85, 0, 1, 0, offset);
    let tail_call = [call(1), exit, Insn::new(0x85, 0, 0, 0, TAIL_CALL as i32), exit];
    let env = Environment { entry: Entry::Context(&NUMBERS), maps: &[], helpers: &[], steps_max: 100 };
    for (program, why, words) in [
        (vec![call(1), exit], Error::Target(0), "instruction 0 leads to no instruction of its function"),
        (vec![Insn::new(0x05, 0, 0, 1, 0), exit], Error::Target(0), "instruction 0 leads to no instruction"),
        (vec![Insn::new(0xb7, 0, 0, 0, 0)], Error::RunsOut(0), "instruction 0 runs out of its function"),
        (
            vec![exit, Insn::new(0x85, 0, 0, 0, 9999), exit],
            Error::Helper(1),
            "instruction 1 calls an unknown",
        ),
        (
            vec![Insn::new(0x18, 0, 5, 0, 3), Insn::default(), exit],
            Error::Map(0),
            "instruction 0 names an unknown",
        ),
        (tail_call.to_vec(), Error::TailCall(2), "instruction 2 is a tail call in a local function"),
        (with_functions(FUNCTIONS_MAX + 1), Error::Functions, "the program has too many functions"),
    ] {
        let refused = Refused::Jit(why);
        assert!(refused.to_string().starts_with(words), "{refused}");
        // SAFETY: it is not run.
        let load = |engine| unsafe {
            Program::load_unverified(&program, &env, &Setup { engine, ..Setup::default() })
        };
        assert_eq!(load(Choice::Jit).expect_err("it is refused"), LoadError::Jit(refused), "{program:?}");
        // Where the interpreter takes it, it says why it is not machine code.
        if let Ok(program) = load(Choice::Auto) {
            assert_eq!((program.engine(), program.refusal()), (Engine::Interpreter, Some(refused)));
        }
    }
    let unknown = [exit, Insn::new(0xff, 0, 0, 0, 0), exit];
    let refused = refusal(&unknown, Setup { engine: Choice::Jit, ..Setup::default() });
    assert!(matches!(refused, LoadError::Jit(Refused::Jit(Error::Insn(1, _)))), "{refused}");
}

#[test]
fn the_interpreter_takes_what_has_too_many_functions_and_says_so() {
    let program = load(&with_functions(FUNCTIONS_MAX), Setup::default());
    assert_eq!((program.engine(), program.refusal()), (Engine::Jit, None));
    let program = load(&with_functions(FUNCTIONS_MAX + 1), Setup::default());
    assert_eq!(program.engine(), Engine::Interpreter);
    assert_eq!(program.refusal(), Some(Refused::Jit(Error::Functions)));
    // SAFETY: it touches nothing.
    assert_eq!(unsafe { program.run(0, 0) }, Ok(1));
}

#[test]
fn memory_that_may_not_become_code_is_the_reason() {
    let words = std::env::args().collect::<Vec<_>>();
    if std::env::var_os("MOTE_TEST_NO_CODE").is_none() {
        let mut again = std::process::Command::new(&words[0]);
        let name = "memory_that_may_not_become_code_is_the_reason";
        let done = again
            .args(["--exact", name, "--nocapture"])
            .env("MOTE_TEST_NO_CODE", "1")
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        eprint!("{said}");
        return assert!(done.status.success(), "{said}");
    }
    // From here on this process gets no executable memory (PR_SET_MDWE, Linux 6.3).
    const PR_SET_MDWE: i32 = 65;
    // SAFETY: touches no memory.
    if unsafe { libc::prctl(PR_SET_MDWE, 1, 0, 0, 0) } != 0 {
        return mote_skip::skip("this kernel cannot forbid executable memory");
    }
    let exit = insns(|b| {
        b.mov(Reg::R0, 1);
        b.exit();
    });
    let program = load(&exit, Setup::default());
    let Some(Refused::Memory(errno)) = program.refusal() else { panic!("{:?}", program.refusal()) };
    assert_eq!((program.engine(), errno.0), (Engine::Interpreter, libc::EACCES));
    assert!(program.refusal().is_some_and(|why| why.to_string().starts_with("no executable memory: ")));
}

#[test]
fn a_load_with_a_branch_may_be_entered_in_its_middle() {
    // The branch is the target of a jump: `r2` is the context's word, or 9.
    let program = insns(|b| {
        let (middle, large) = (b.label(), b.label());
        b.load(Size::DW, Reg::R3, Reg::R1, 8);
        b.mov(Reg::R2, 9);
        b.branch(Cond::Eq, Reg::R3, 1, middle);
        b.load(Size::DW, Reg::R2, Reg::R1, 0);
        b.bind(middle);
        b.branch(Cond::SGt, Reg::R2, -5, large);
        b.mov(Reg::R0, 1);
        b.exit();
        b.bind(large);
        b.mov(Reg::R0, Reg::R2);
        b.exit();
    });
    assert_eq!(run(&program, &[], &[7, 0]), Ok(7));
    assert_eq!(run(&program, &[], &[-6i64 as u64, 0]), Ok(1));
    assert_eq!(run(&program, &[], &[-6i64 as u64, 1]), Ok(9));
}

#[test]
fn memory_that_is_not_there_is_a_fault() {
    for size in [Size::B, Size::H, Size::W, Size::DW] {
        let read = insns(|b| {
            b.load(size, Reg::R2, Reg::R1, 0);
            b.load(Size::DW, Reg::R2, Reg::R2, 0);
            b.exit();
        });
        assert_eq!(run(&read, &[], &[16]), Err(Fault::Memory), "{size:?}");
    }
    let write = insns(|b| {
        b.mov(Reg::R2, 64);
        b.store(Size::W, Reg::R2, 0, 1);
        b.exit();
    });
    assert_eq!(run(&write, &[], &[]), Err(Fault::Memory));
    // In a function of a function, and with a stack that is used.
    let deep = insns(|b| {
        let (outer, inner) = (b.label(), b.label());
        b.store(Size::DW, Reg::R10, -8, 1);
        b.call_local(outer);
        b.exit();
        b.bind(outer);
        b.mov(Reg::R6, Reg::R1);
        b.call_local(inner);
        b.exit();
        b.bind(inner);
        b.load(Size::DW, Reg::R2, Reg::R1, 0);
        b.load(Size::DW, Reg::R0, Reg::R2, 0);
        b.exit();
    });
    assert_eq!(run(&deep, &[], &[8]), Err(Fault::Memory));
    let number = 77u64;
    assert_eq!(run(&deep, &[], &[&raw const number as u64]), Ok(77));
}

#[test]
fn the_interpreter_ends_endless_programs() {
    let setup = Setup { engine: Choice::Interpreter, ..Setup::default() };
    let endless = insns(|b| {
        let again = b.here();
        b.jump(again);
    });
    // SAFETY: it touches nothing.
    assert_eq!(unsafe { load(&endless, setup).run(0, 0) }, Err(Fault::Steps));
    let deep = insns(|b| {
        let again = b.here();
        b.call_local(again);
        b.exit();
    });
    // SAFETY: it touches nothing.
    assert_eq!(unsafe { load(&deep, setup).run(0, 0) }, Err(Fault::Steps));
}

#[test]
fn functions_have_frames_of_their_own() {
    // fib(n) by recursion would need more frames than there are; two functions and their stacks do not.
    let program = insns(|b| {
        let (double, store) = (b.label(), b.label());
        b.mov(Reg::R6, 5);
        b.store(Size::DW, Reg::R10, -8, 100);
        b.load(Size::DW, Reg::R1, Reg::R1, 0);
        b.call_local(double);
        b.load(Size::DW, Reg::R1, Reg::R10, -8);
        b.add(Reg::R0, Reg::R1);
        b.add(Reg::R0, Reg::R6);
        b.exit();
        b.bind(double);
        b.mov(Reg::R6, Reg::R1);
        b.store(Size::DW, Reg::R10, -8, 1);
        b.mov(Reg::R2, Reg::R10);
        b.add(Reg::R2, -8);
        b.call_local(store);
        b.load(Size::DW, Reg::R0, Reg::R10, -8);
        b.add(Reg::R0, Reg::R6);
        b.exit();
        b.bind(store);
        b.mov(Reg::R6, 1000);
        b.store(Size::DW, Reg::R2, 0, Reg::R1);
        b.mov(Reg::R0, 0);
        b.exit();
    });
    assert_eq!(run(&program, &[], &[21]), Ok(42 + 100 + 5));
}

unsafe extern "C" fn sum(a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
    a + 10 * b + 100 * c + 1000 * d + 10_000 * e
}

unsafe extern "C" fn even(a: u64, _: u64, _: u64, _: u64, _: u64) -> Returned {
    if a.is_multiple_of(2) { Ok(a / 2).into() } else { Err(Fault::Memory).into() }
}

#[test]
fn an_application_adds_helpers() {
    let program = insns(|b| {
        b.load(Size::DW, Reg::R1, Reg::R1, 0);
        b.call(2001);
        b.mov(Reg::R1, Reg::R0);
        for (value, reg) in [(2, Reg::R2), (3, Reg::R3), (4, Reg::R4), (5, Reg::R5)] {
            b.mov(reg, value);
        }
        // A built-in number: the application's goes before.
        b.call(5);
        b.exit();
    });
    for engine in ENGINES {
        let setup = Setup { helpers: &[(5, sum)], faulting: &[(2001, even)], engine, ..Setup::default() };
        let program = load(&program, setup);
        // SAFETY: the context lasts.
        let run = |word: u64| unsafe { program.run(&raw const word as u64, 0) };
        assert_eq!((run(2), run(3)), (Ok(54_321), Err(Fault::Memory)));
    }
}

#[test]
fn atomic_operations() {
    let array = map(&shape(MapKind::Array, 4, 8, 1));
    for (op, expected, fetched) in [
        (AtomicOp::Add, 107, 7),
        (AtomicOp::FetchAdd, 107, 100),
        (AtomicOp::FetchOr, 103, 100),
        (AtomicOp::FetchAnd, 4, 100),
        (AtomicOp::FetchXor, 99, 100),
        (AtomicOp::Xchg, 7, 100),
        (AtomicOp::CmpXchg, 7, 7),
    ] {
        for size in [Size::W, Size::DW] {
            let program = insns(|b| {
                b.map_value(Reg::R2, 0, 0);
                b.mov(Reg::R3, 7);
                b.mov(Reg::R0, 100);
                b.atomic(op, size, Reg::R2, 0, Reg::R3);
                // What was fetched, and r0, which only an exchange by comparison changes.
                b.alu(Width::W64, AluOp::Lsh, Reg::R0, 32);
                b.alu(Width::W64, AluOp::Or, Reg::R0, Reg::R3);
                b.exit();
            });
            for engine in ENGINES {
                array.update(&[0; 4], &100u64.to_le_bytes(), Update::Any).expect("there");
                let program = load(&program, Setup { maps: &[array], engine, ..Setup::default() });
                // SAFETY: it does not look at its context.
                let result = unsafe { program.run(0, 0) };
                assert_eq!(result, Ok(100 << 32 | fetched), "{op:?} {size:?} {engine:?}");
                let mut value = [0; 8];
                array.lookup(&[0; 4], &mut value).expect("there");
                assert_eq!(u64::from_le_bytes(value), expected, "{op:?} {size:?} {engine:?}");
            }
        }
    }
}

#[test]
fn tail_calls_go_from_engine_to_engine() {
    // Adds 1 to the context's word, and goes on with program 0; at the end returns how often.
    let again = insns(|b| {
        b.load(Size::DW, Reg::R6, Reg::R1, 0);
        b.add(Reg::R6, 1);
        b.store(Size::DW, Reg::R1, 0, Reg::R6);
        b.map(Reg::R2, 0);
        b.load(Size::DW, Reg::R3, Reg::R1, 8);
        b.call(TAIL_CALL);
        // There is none at that index, or it was enough.
        b.mov(Reg::R0, Reg::R6);
        b.exit();
    });
    let last = insns(|b| {
        b.load(Size::DW, Reg::R0, Reg::R1, 0);
        b.add(Reg::R0, 1000);
        b.exit();
    });
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| (ENGINES[a], ENGINES[b])) {
        let slots: &'static [ProgramSlot; 3] = Box::leak(Box::default());
        let programs = map(&shape(MapKind::Programs, 4, 4, 8)).with_programs(slots);
        for (index, number) in [(0u32, 1u32), (1, 2), (2, 3), (3, 4)] {
            programs.update(&index.to_le_bytes(), &number.to_le_bytes(), Update::Any).expect("there");
        }
        let maps = [programs];
        let setup = |engine| Setup { maps: &maps, engine, ..Setup::default() };
        let (a, b) = (load(&again, setup(first)), load(&last, setup(second)));
        // SAFETY: both programs outlive all runs.
        unsafe { slots[0].set(Some(&a)) };
        // SAFETY: as above.
        unsafe { slots[1].set(Some(&b)) };
        let run = |index: u64| {
            let mut context = [0, index];
            // SAFETY: the context lasts, and is only used by the program.
            unsafe { a.run((&raw mut context) as u64, 0) }
        };
        assert_eq!(run(0), Ok(34), "33 tail calls after the first run: {first:?}");
        assert_eq!(run(1), Ok(1001), "{first:?} to {second:?}");
        // An empty slot, a number without a slot, an empty entry, an index outside.
        assert_eq!([2, 3, 4, 1 << 40].map(run), [Ok(1); 4]);
    }
}

#[test]
fn a_verified_program_is_loaded_with_the_maps_it_was_verified_with() {
    let counts = shape(MapKind::Hash, 8, 8, 16);
    let program = insns(|b| {
        b.load(Size::DW, Reg::R2, Reg::R1, 0);
        b.store(Size::DW, Reg::R10, -8, Reg::R2);
        b.map(Reg::R1, 0);
        b.mov(Reg::R2, Reg::R10);
        b.add(Reg::R2, -8);
        b.mov(Reg::R3, 1);
        b.call(MAP_ADD);
        b.mov(Reg::R0, 0);
        b.exit();
    });
    let env = Environment { entry: Entry::Context(&NUMBERS), maps: &[counts], helpers: &[], steps_max: 1000 };
    let mut workspace = mote_vm::workspace().expect("there is memory");
    let verified = verify(&program, &env, &mut workspace).expect("it is harmless");
    let other = [map(&shape(MapKind::Hash, 8, 8, 15))];
    let refused = Program::load(&verified, &Setup { maps: &other, ..Setup::default() });
    assert!(matches!(refused, Err(LoadError::Map(0))));
    let maps = [map(&counts)];
    for engine in ENGINES {
        let setup = Setup { maps: &maps, engine, ..Setup::default() };
        let program = Program::load(&verified, &setup).expect("it loads");
        let context = [5u64; 8];
        // SAFETY: the context is as the environment says, and lasts.
        assert_eq!(unsafe { program.run(context.as_ptr() as u64, 0) }, Ok(0));
    }
    let mut value = [0; 8];
    maps[0].lookup(&5u64.to_le_bytes(), &mut value).expect("there");
    assert_eq!(u64::from_le_bytes(value), 2);
}

#[test]
fn what_a_program_takes() {
    let exit = insns(|b| {
        b.mov(Reg::R0, 1);
        b.exit();
    });
    let machine = load(&exit, Setup { engine: Choice::Jit, ..Setup::default() });
    assert_eq!((machine.engine(), machine.refusal(), machine.memory_bytes()), (Engine::Jit, None, 4096));
    let steps = load(&exit, Setup { engine: Choice::Interpreter, ..Setup::default() });
    assert_eq!((steps.engine(), steps.refusal(), steps.memory_bytes()), (Engine::Interpreter, None, 4096));
}
