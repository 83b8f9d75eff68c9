//! While nobody records, an event is one NOP: in the machine code, in the system calls, in the size of the program.

use crate::support::{Record, has_tool, output_of, programs};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::{Object, ObjectSymbol};
use std::path::Path;
use std::process::Command;

/// The instructions of a function of `libplugin.so`.
fn instructions(name: &str) -> Vec<Instruction> {
    let bytes = std::fs::read(programs::plugin()).expect("the plugin");
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).expect("the function");
    let address = symbol.address();
    let text = object::ObjectSection::data_range(
        &object::Object::section_by_name(&elf, ".text").expect("text"),
        address,
        symbol.size(),
    );
    let code = text.expect("readable").expect("in the section");
    Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter().collect()
}

/// The instructions that are executed when no jump is taken, up to the return.
fn hot_path(name: &str) -> Vec<Instruction> {
    let all = instructions(name);
    let end = all.iter().position(|one| one.flow_control() == FlowControl::Return).expect("a return");
    all[..=end].to_vec()
}

fn shown(code: &[Instruction]) -> Vec<String> {
    code.iter().map(|one| format!("{one:?}")).collect()
}

fn is_site(one: &Instruction) -> bool {
    one.code() == Code::Nop_rm32 && one.len() == 5
}

fn touches_memory(one: &Instruction) -> bool {
    let is_memory = |op| one.op_kind(op) == OpKind::Memory;
    !is_site(one) && one.code() != Code::Lea_r64_m && (0..one.op_count()).any(is_memory)
}

/// Asserts that the hot path has one NOP, no call and no branch; returns the other instructions.
#[track_caller]
fn assert_one_nop(name: &str) -> Vec<Instruction> {
    let code = hot_path(name);
    let text = shown(&code);
    assert_eq!(code.iter().filter(|one| is_site(one)).count(), 1, "{text:#?}");
    let rest: Vec<Instruction> = code.iter().copied().filter(|one| !is_site(one)).collect();
    for one in &rest {
        let straight = matches!(one.flow_control(), FlowControl::Next | FlowControl::Return);
        assert!(straight, "a call or a branch: {one:?} of {text:#?}");
    }
    rest
}

/// Asserts that the function is its bare sister and one NOP, and touches no memory.
#[track_caller]
fn assert_only_a_nop(name: &str) {
    let (with, without) = (assert_one_nop(name), hot_path(&format!("{name}_bare")));
    assert!(!with.iter().any(touches_memory), "{:#?}", shown(&with));
    let codes = |code: &[Instruction]| code.iter().map(Instruction::code).collect::<Vec<_>>();
    assert_eq!(codes(&with), codes(&without));
}

#[test]
fn a_disabled_event_is_one_nop() {
    assert_only_a_nop("golden_leaf");
}

#[test]
fn a_disabled_event_with_costly_fields_is_one_nop() {
    // The code that makes the fields needs registers, which the compiler saves at the function's start, and borrows
    // the arguments, which then lie on the stack; but nothing else is touched, called or decided.
    for one in assert_one_nop("golden_costly").iter().filter(|one| touches_memory(one)) {
        assert_eq!(one.memory_base(), Register::RSP, "{one:?}");
    }
}

#[test]
fn a_disabled_declared_event_is_one_nop() {
    assert_only_a_nop("golden_declared");
}

#[test]
fn a_switch_that_is_off_is_one_nop() {
    assert_only_a_nop("golden_switched");
}

#[test]
fn quick_text_that_is_off_is_one_nop() {
    assert_only_a_nop("golden_note");
}

#[test]
fn in_a_loop_each_turn_has_one_nop_and_no_call() {
    let code = hot_path("golden_loop");
    let text = shown(&code);
    let site = code.iter().position(is_site).expect("a site in the loop");
    let back = |one: &Instruction, from: u64| one.is_jcc_short_or_near() && one.near_branch_target() <= from;
    let jump =
        code[site..].iter().position(|one| back(one, code[site].ip())).expect("the end of the loop") + site;
    let start = code.iter().position(|one| one.ip() == code[jump].near_branch_target()).expect("its start");
    let turn = &code[start..=jump];
    let nops = turn.iter().filter(|one| is_site(one)).count();
    let reads = turn.iter().filter(|one| touches_memory(one)).count();
    let branches = turn.iter().filter(|one| one.flow_control() != FlowControl::Next).count();
    // The loop may be unrolled: one site, one load of a number, for each turn; one jump back.
    assert!(nops >= 1 && reads <= nops && branches == 1, "{nops} sites, {reads} loads: {text:#?}");
}

/// Bytes of text, read-only and writable data that a program takes (`size`).
fn size_of(program: &Path) -> u64 {
    let text = output_of(Command::new("size").arg(program));
    let line = text.lines().nth(1).expect("a line");
    line.split_whitespace().take(2).map(|word| word.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_program_grows_by_less_than_360_kib() {
    if has_tool("size") {
        let grown =
            size_of(&programs::release().join("spotted")) - size_of(&programs::release().join("plain"));
        println!("grown by {grown} bytes");
        assert!(grown <= 360 << 10, "grown by {grown} bytes");
    }
}

/// Names of the system calls that a program makes, in order, with those of its threads.
fn system_calls(program: &Path) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&log).arg(program).env_remove("MOTE_SESSION");
    output_of(&mut command);
    let text = std::fs::read_to_string(&log).expect("a log");
    let name =
        |line: &str| line.split_once(' ')?.1.trim_start().split_once('(').map(|(name, _)| name.to_owned());
    text.lines().filter_map(name).collect()
}

#[test]
fn an_untraced_program_makes_no_system_call_more() {
    if has_tool("strace") {
        let (plain, spotted) = (programs::release().join("plain"), programs::release().join("spotted"));
        let (without, with) = (system_calls(&plain), system_calls(&spotted));
        assert!(without.len() > 20, "{without:?}");
        assert_eq!(without, with);
        for call in ["socket", "socketpair", "connect", "clone", "clone3", "memfd_create"] {
            assert!(!with.iter().any(|name| name == call), "{call}");
        }
    }
}

#[test]
fn sites_stay_nops_in_an_untraced_program() {
    let mut command = Command::new(programs::scenes());
    let text = output_of(command.arg("until-disarmed").env_remove("MOTE_SESSION"));
    let value = |name| crate::support::record::value_of(&text, name).expect("it is printed");
    assert!(value("sites") > 20);
    assert_eq!(value("off"), value("sites"));
    assert_eq!(value("emitted"), 0);
}

#[test]
fn fields_are_made_only_for_events_that_are_on() {
    let mut command = Command::new(programs::scenes());
    let untraced = output_of(command.args(["unevaluated", "1000"]).env_remove("MOTE_SESSION"));
    assert_eq!(untraced, "made 0\n");
    let off = Record::scene(&["unevaluated", "1000"]).with(&["-x", "e2e:evaluated"]).run().ends_with(0);
    assert_eq!(off.printed("made"), 0);
    let on = Record::scene(&["unevaluated", "1000"]).run().ends_with(0);
    assert_eq!(on.printed("made"), 1000);
    assert_eq!(on.events().len(), 1000);
}

#[test]
fn a_session_that_is_gone_or_nonsense_disturbs_no_program() {
    for session in
        ["", "1", "1,900,1,/tmp/nothing-here", "2,900,1,/x", "1,0,0,", "garbage,,,", "1,900,1,relative"]
    {
        let mut command = Command::new(programs::scenes());
        let text = output_of(command.args(["count", "10"]).env("MOTE_SESSION", session));
        assert_eq!(text, "emitted 10\n", "{session}");
    }
}
