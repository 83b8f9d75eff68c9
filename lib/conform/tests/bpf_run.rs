//! The binary, as the public suite starts it.

use mote_conform::case::{self, Expect};
use mote_conform::hex;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bpf-run"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // It may end before it has read all, when its arguments are wrong.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

/// What is printed, or what is said on failure.
fn said(args: &[&str], input: &str) -> Result<String, String> {
    let output = run(args, input);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The suite writes bytes apart, in capitals or not, and a line's end.
fn apart(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X} ")).collect::<String>() + "\n"
}

#[test]
fn vectors_of_the_public_suite_on_both_engines() {
    let cases = case::table(include_str!("vectors.tsv")).expect("well formed");
    for case in cases {
        let code: Vec<u8> = case.input.insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        let Expect::Ran { r0, .. } = case.expect else { panic!("{}: all run", case.name) };
        for options in [&[][..], &["--jit"]] {
            let memory = apart(&case.input.memory);
            let args = [&[memory.trim_end()], options].concat();
            assert_eq!(said(&args, &apart(&code)), Ok(format!("{r0:x}")), "{} {options:?}", case.name);
        }
    }
}

/// `r0 = *(u8 *)(r1 + 1); exit`
const SECOND_BYTE: &str = "7110010000000000 9500000000000000";

#[test]
fn byte_code_may_be_an_argument() {
    assert_eq!(said(&["--program", SECOND_BYTE, "0a0b"], ""), Ok("b".into()));
    assert_eq!(said(&["0a0b", "--verify"], SECOND_BYTE), Ok("b".into()));
    assert_eq!(said(&["0a0b", "--verify", "--jit"], SECOND_BYTE), Ok("b".into()));
}

/// The suite's `call_unwind_fail`: helper 5 is the suite's own, and returns its first argument.
#[test]
fn the_suites_helper_is_there() {
    let code = "b7010000ffffffff 8500000005000000 9500000000000000";
    assert_eq!(said(&[], code), Ok("ffffffffffffffff".into()));
    assert_eq!(said(&["", "--jit"], code), Ok("ffffffffffffffff".into()));
}

#[test]
fn failures_are_told_with_a_status() {
    let refused = said(&["0a", "--verify"], SECOND_BYTE).expect_err("one byte is there");
    assert!(refused.starts_with("bpf-run: refused: "), "{refused}");
    let wrong = said(&["--frob"], "").expect_err("no such option");
    assert!(wrong.contains("unknown option --frob"), "{wrong}");
    let cut = said(&[], "95").expect_err("no whole instruction");
    assert_eq!(cut, "bpf-run: byte code: 1 bytes are not whole instructions of 8");
    // `r0 = *(u64 *)(0); exit`: no verifier refused it; the engine ends it.
    for options in [&[][..], &["", "--jit"]] {
        let fault =
            said(options, "b701000000000000 7910000000000000 9500000000000000").expect_err("address 0");
        assert!(fault.starts_with("bpf-run: fault: "), "{fault}");
    }
    assert_eq!(run(&["--frob"], "").status.code(), Some(2));
}

#[test]
fn objects_are_run_too() {
    let started = Command::new("clang")
        .args(["-O2", "-target", "bpf", "-c", "-x", "c", "-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut clang) = started else {
        mote_skip::skip("clang is not installed");
        return;
    };
    let source = r#"
        static volatile const int seven = 7;
        static __attribute__((noinline)) int twice(int x) { return x * 2 + seven; }
        __attribute__((section("test"), used)) int main_(unsigned char *memory) { return twice(memory[1]); }
    "#;
    clang.stdin.take().expect("piped").write_all(source.as_bytes()).expect("it reads");
    let object = clang.wait_with_output().expect("it ends").stdout;
    if object.is_empty() {
        mote_skip::skip("clang does not know eBPF");
        return;
    }
    for engine in [&["0005", "--elf", "--verify"][..], &["0005", "--elf", "--verify", "--jit"]] {
        assert_eq!(said(engine, &hex::encode(&object)), Ok("11".into()));
    }
}
