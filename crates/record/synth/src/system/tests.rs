//! What becomes of the plugin's records, by hand: no qemu is needed.

use super::*;
use crate::fact::{Exit, Fact};

const KERNEL_CR3: u64 = 0x5000;
const USER_CR3: u64 = 0x6000;
const ENTRY: u64 = 0xffff_ffff_81c0_0000;

/// Address, lengths, bytes, by the number of the block.
type Code<'c> = (u64, &'c [u8], &'c [u8]);
/// NOP; CLC; JNZ back to the first one: at 0x1000, 0x1001, 0x1002.
const LOOP: Code<'_> = (0x1000, &[1, 1, 2], &[0x90, 0xf8, 0x75, 0xfc]);
/// NOP; REP MOVSB: at 0x1004, 0x1005.
const COPY: Code<'_> = (0x1004, &[1, 2], &[0x90, 0xf3, 0xa4]);
/// A round of it.
const ROUND: Code<'_> = (0x1005, &[2], &[0xf3, 0xa4]);
/// SYSCALL at 0x1007.
const CALL: Code<'_> = (0x1007, &[2], &[0x0f, 0x05]);
/// MOV CR3, RDI; then IRETQ.
const SWITCH: Code<'_> = (ENTRY, &[3], &[0x0f, 0x22, 0xdf]);
const BACK: Code<'_> = (ENTRY + 3, &[2], &[0x48, 0xcf]);
/// MOV that reaches a device, NOP, RET.
const DEVICE: Code<'_> = (ENTRY + 0x100, &[2, 1, 1], &[0x89, 0x07, 0x90, 0xc3]);
const BEHIND: Code<'_> = (ENTRY + 0x102, &[1, 1], &[0x90, 0xc3]);
const RETURN: Code<'_> = (ENTRY + 0x103, &[1], &[0xc3]);
/// INT1 at 0x2001.
const TRAP: Code<'_> = (0x2000, &[1, 1], &[0x90, 0xf1]);
/// A SYSCALL whose first byte alone is on the page: it is left to the next block.
const CUT: Code<'_> = (0x2ffe, &[1, 1], &[0x90, 0x0f]);
const OVER: Code<'_> = (0x2fff, &[2], &[0x0f, 0x05]);

/// LOOP, patched: STC instead of CLC.
const PATCHED: Code<'_> = (0x1000, &[1, 1, 2], &[0x90, 0xf9, 0x75, 0xfc]);

const BLOCKS: [Code<'_>; 13] =
    [LOOP, COPY, ROUND, CALL, SWITCH, BACK, DEVICE, BEHIND, RETURN, TRAP, CUT, OVER, PATCHED];

/// Facts, as text, and what code notes say.
#[derive(Default)]
struct Lines(Vec<String>);

impl Observer for Lines {
    fn fact(&mut self, _: i32, fact: &Fact<'_>) -> Result<(), Error> {
        let line = match fact {
            Fact::Run(run) => {
                let exit = match run.exit {
                    Exit::Space { cr3 } => format!("cr3 {cr3:x}"),
                    exit => format!("{exit:?}"),
                };
                format!("{:x} {} {exit} to {:x}", run.start, run.count(), run.to)
            }
            Fact::Enter(ip) => format!("enter {ip:x}"),
            Fact::Interrupt(ip) => format!("interrupt {ip:x}"),
            Fact::Space(cr3) => format!("space {cr3:x}"),
            Fact::Data { .. } => "data".to_owned(),
            Fact::End => "end".to_owned(),
        };
        self.0.push(line);
        Ok(())
    }

    fn note(&mut self, _: i32, note: &Note) -> Result<(), Error> {
        let line = match note {
            Note::Switch { tid, .. } => format!("switch {tid}"),
            Note::Exec { path, .. } => format!("exec {}", path.display()),
            Note::AddressSpace { pid, cr3 } => format!("address space {cr3:x} of {pid}"),
            Note::Exit { pid, status } => format!("exit {pid} {status:?}"),
            _ => return Ok(()),
        };
        self.0.push(line);
        Ok(())
    }
}

const PAGE: u32 = 0xffff_fff1;
const EVENT: u32 = 0xffff_fff2;
const SPACE: u32 = 0xffff_fff3;
const TASK: u32 = 0xffff_fff4;
const BEGIN: u32 = 0xffff_fffa;
const END: u32 = 0xffff_fffb;
const CPU: u32 = 0xffff_fffc;
const LAST: u32 = 0xffff_fffd;

fn low(value: u64) -> u32 {
    value as u32
}

fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_owned();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    padded
}

/// All blocks, and the beginning.
fn known() -> Vec<u8> {
    let mut out = Vec::new();
    for (number, (address, lengths, bytes)) in BLOCKS.into_iter().enumerate() {
        let (count, size) = (lengths.len() as u32, bytes.len() as u32);
        let words = [0xffff_fff0, number as u32 + 1, low(address), high(address), count, size];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(padded(&[lengths, bytes].concat()));
    }
    out.extend([BEGIN, 7, SPACE, low(USER_CR3), 0].iter().flat_map(|word| word.to_le_bytes()));
    out
}

/// What words become behind the beginning, and the status with which they end.
fn lines_of(words: &[u32]) -> Result<(Vec<String>, Option<i32>), Error> {
    let bytes: Vec<u8> =
        known().into_iter().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
    let guest = Guest::default();
    let mut watch = Watch::new(Spaces::new(contents::Code::default(), guest.cpus()), &guest);
    let (mut lines, mut at, mut status) = (Lines::default(), 0, None);
    while let Some((record, count)) = Record::read(&bytes[at..])? {
        status = watch.take(record, &mut lines)?.or(status);
        at += count;
    }
    assert_eq!(at, bytes.len());
    Ok((lines.0, status))
}

/// The lines behind the begin.
#[track_caller]
fn check(words: &[u32], expected: &[&str]) {
    let (lines, _) = lines_of(words).expect("they are right");
    let begin = ["switch 7", "space 6000"];
    assert_eq!(lines[..2], begin);
    let said: Vec<&str> = lines[2..].iter().map(String::as_str).collect();
    assert_eq!(said, expected);
}

/// The block's number.
fn id(code: Code<'_>) -> u32 {
    BLOCKS.iter().position(|block| *block == code).expect("a block") as u32 + 1
}

fn event(from: u64, vector: u32, error: u32) -> [u32; 5] {
    [EVENT, low(from), high(from), vector, error]
}

#[test]
fn blocks_are_executed_when_the_next_one_begins() {
    let call = [id(LOOP), id(LOOP), id(COPY), id(ROUND), id(ROUND), id(CALL), id(SWITCH)];
    let back = [SPACE, low(KERNEL_CR3), 0, id(BACK), id(LOOP)];
    check(
        &[&call[..], &back].concat(),
        &[
            "address space 6000 of 7",
            "enter 1000",
            "1000 3 Conditional { is_taken: true } to 1000",
            "1000 3 Conditional { is_taken: false } to 1004",
            "1004 2 Plain to 1007",
            "1007 1 Far to ffffffff81c00000",
            "ffffffff81c00000 1 cr3 5000 to ffffffff81c00003",
            "ffffffff81c00003 1 Far to 1000",
        ],
    );
}

#[test]
fn faults_and_interrupts_say_where_they_were() {
    let begin = ["address space 6000 of 7", "enter 1000"];
    let check = |words: &[u32], expected: &[&str]| check(words, &[&begin[..], expected].concat());
    // A page fault of the second instruction, and one of an instruction that is not there.
    let words = [&[id(LOOP)][..], &event(0x1001, 14, 4), &[id(SWITCH)]].concat();
    check(&words, &["1000 1 Plain to 1001", "interrupt 1001", "enter ffffffff81c00000"]);
    let words = [&[id(LOOP)][..], &event(0x1000, 14, 0x14), &[id(SWITCH)]].concat();
    let taken = "1000 3 Conditional { is_taken: true } to 1000";
    check(&words, &[taken, "interrupt 1000", "enter ffffffff81c00000"]);
    // A fault of the first instruction: none was executed.
    let words = [&[id(LOOP)][..], &event(0x1000, 14, 4), &[id(SWITCH)]].concat();
    check(&words, &["interrupt 1000", "enter ffffffff81c00000"]);
    // A timer, behind the block, and in the middle of a repetition.
    let words = [&[id(LOOP)][..], &event(0x1000, 236, 0), &[id(SWITCH)]].concat();
    check(&words, &[taken, "interrupt 1000", "enter ffffffff81c00000"]);
    let left = "1000 3 Conditional { is_taken: false } to 1004";
    let words = [&[id(LOOP), id(COPY), id(ROUND)][..], &event(0x1005, 236, 0), &[id(SWITCH)]].concat();
    check(&words, &[left, "1004 1 Plain to 1005", "interrupt 1005", "enter ffffffff81c00000"]);
}

#[test]
fn a_trap_is_at_its_instruction() {
    let words = [&[id(TRAP)][..], &event(0x2002, 3, 0), &[id(SWITCH)]].concat();
    check(
        &words,
        &[
            "address space 6000 of 7",
            "enter 2000",
            "2000 1 Plain to 2001",
            "interrupt 2001",
            "enter ffffffff81c00000",
        ],
    );
}

#[test]
fn what_reaches_a_device_ends_its_block() {
    let device = "ffffffff81c00100 1 Plain to ffffffff81c00102";
    check(
        &[id(DEVICE), id(BEHIND), id(LOOP)],
        &["enter ffffffff81c00100", device, "ffffffff81c00102 2 Return to 1000", "address space 6000 of 7"],
    );
    // Where a return follows, it has not returned to itself.
    let two = "ffffffff81c00100 2 Plain to ffffffff81c00103";
    check(
        &[id(DEVICE), id(RETURN), id(LOOP)],
        &["enter ffffffff81c00100", two, "ffffffff81c00103 1 Return to 1000", "address space 6000 of 7"],
    );
}

#[test]
fn an_instruction_on_two_pages_is_of_the_next_block() {
    check(
        &[id(CUT), id(OVER), id(SWITCH)],
        &["address space 6000 of 7", "enter 2ffe", "2ffe 1 Plain to 2fff", "2fff 1 Far to ffffffff81c00000"],
    );
}

#[test]
fn threads_and_the_end() {
    let task = |what, tid| {
        let name = padded(b"worker\0\0\0\0\0\0\0\0\0\0");
        let name = name.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        [TASK, what, tid, 9].into_iter().chain(name).collect::<Vec<u32>>()
    };
    let words = [&task(1, 10)[..], &task(2, 10), &[id(LOOP), END, 3 << 8, 0x1004, 0]].concat();
    let (lines, status) = lines_of(&words).expect("they are right");
    assert_eq!(status, Some(3));
    let expected = [
        "switch 10",
        "switch 10",
        "exec worker",
        "address space 6000 of 9",
        "enter 1000",
        "1000 3 Conditional { is_taken: false } to 1004",
        "interrupt 1004",
        "end",
        "exit 7 Some(3)",
    ];
    assert_eq!(lines[2..], expected);
}

/// Which processors are told of code, in this order, and what becomes of them.
#[derive(Default)]
struct Told(Vec<(i32, String)>);

impl Observer for Told {
    fn fact(&mut self, cpu: i32, fact: &Fact<'_>) -> Result<(), Error> {
        match fact {
            Fact::Run(run) => self.0.push((cpu, format!("{:x} {}", run.start, run.count()))),
            Fact::Interrupt(ip) => self.0.push((cpu, format!("interrupt {ip:x}"))),
            Fact::End => self.0.push((cpu, "end".to_owned())),
            _ => {}
        }
        Ok(())
    }

    fn note(&mut self, cpu: i32, note: &Note) -> Result<(), Error> {
        if let Note::Code { start, bytes, .. } = note {
            self.0.push((cpu, format!("code {start:x} {:x}", bytes[1])));
        }
        Ok(())
    }
}

/// What one processor has patched the other one is told, but not while it is in the middle of what was there before.
#[test]
fn processors_are_told_of_code_that_another_one_has_changed() {
    let task = [TASK, 1, 8, 7, 0, 0, 0, 0];
    let words = [
        &[id(LOOP), CPU, 1, SPACE, low(USER_CR3), 0][..],
        &task,
        &[id(LOOP), id(PATCHED), CPU, 0, id(COPY), CPU, 1, LAST, 0x1004, 0, CPU, 0, END, 0, 0x1007, 0],
    ]
    .concat();
    let bytes: Vec<u8> =
        known().into_iter().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
    let guest = Guest { cpus: 2, ..Guest::default() };
    let mut watch = Watch::new(Spaces::new(contents::Code::default(), guest.cpus()), &guest);
    let (mut told, mut at) = (Told::default(), 0);
    while let Some((record, count)) = Record::read(&bytes[at..]).expect("records") {
        watch.take(record, &mut told).expect("they are right");
        at += count;
    }
    let expected = [
        (0, "code 1000 f8"),
        (1, "code 1000 f8"),
        (1, "1000 3"),
        (1, "code 1000 f9"),
        (0, "1000 3"),
        (0, "code 1000 f9"),
        (0, "code 1004 f3"),
        (1, "code 1004 f3"),
        (1, "1000 3"),
        (1, "interrupt 1004"),
        (1, "end"),
        (0, "1004 2"),
        (0, "interrupt 1007"),
        (0, "end"),
    ];
    let said: Vec<(i32, &str)> = told.0.iter().map(|(cpu, text)| (*cpu, text.as_str())).collect();
    assert_eq!(said, expected);
}

#[test]
fn what_is_wrong_is_an_error() {
    for (words, why) in [
        (&[99][..], "has not described a block"),
        (&[0xffff_fffe], "cannot read what qemu's plugin has written"),
        (&[id(LOOP), id(BACK)], "does not lead"),
    ] {
        let said = lines_of(words).expect_err(why).to_string();
        assert!(said.contains(why), "{said}");
    }
    // A page of which the end is missing is waited for.
    let words: Vec<u8> = [PAGE, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(Record::read(&words), Ok(None));
}
