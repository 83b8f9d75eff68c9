//! What becomes of the plugin's words and records, by hand: no qemu is needed.

use super::blocks::Blocks;
use super::code::Code;
use super::walk::Walk;
use crate::error::Error;
use crate::fact::{Exit, Fact};
use crate::observer::{Note, Observer};

const SIGNAL: u32 = 0xffff_fff0;
const EXEC: u32 = 0xffff_fff1;
const SEGV: [u32; 2] = [11, 1];
const USR1: [u32; 2] = [10, 0];

/// NOP; CLC; JNZ back to the first one: at 0x1000, 0x1001, 0x1002.
const LOOP: (u32, u64, &[u8], &[u8]) = (1, 0x1000, &[1, 1, 2], &[0x90, 0xf8, 0x75, 0xfc]);
/// NOP; REP MOVSB: at 0x1004, 0x1005.
const COPY: (u32, u64, &[u8], &[u8]) = (2, 0x1004, &[1, 2], &[0x90, 0xf3, 0xa4]);
/// A round of it.
const ROUND: (u32, u64, &[u8], &[u8]) = (3, 0x1005, &[2], &[0xf3, 0xa4]);
/// SYSCALL at 0x1007.
const CALL: (u32, u64, &[u8], &[u8]) = (4, 0x1007, &[2], &[0x0f, 0x05]);
/// A handler: RET.
const HANDLER: (u32, u64, &[u8], &[u8]) = (5, 0x2000, &[1], &[0xc3]);
/// The second instruction of LOOP by itself.
const ALONE: (u32, u64, &[u8], &[u8]) = (6, 0x1001, &[1], &[0xf8]);
/// LOOP from its third instruction on.
const REST: (u32, u64, &[u8], &[u8]) = (7, 0x1002, &[2], &[0x75, 0xfc]);
/// INT1 at 0x1009.
const TRAP: (u32, u64, &[u8], &[u8]) = (8, 0x1009, &[1], &[0xf1]);

/// Facts, as text.
#[derive(Default)]
struct Lines(Vec<String>);

impl Observer for Lines {
    fn fact(&mut self, _: i32, fact: &Fact<'_>) -> Result<(), Error> {
        let line = match fact {
            Fact::Run(run) => {
                let exit = match run.exit {
                    Exit::System => "system".to_owned(),
                    exit => format!("{exit:?} to {:x}", run.to),
                };
                format!("{:x} {} {exit}", run.start, run.count())
            }
            Fact::Enter(ip) => format!("enter {ip:x}"),
            Fact::Interrupt(ip) => format!("interrupt {ip:x}"),
            Fact::Data { .. } | Fact::Space(_) => "other".to_owned(),
            Fact::End => "end".to_owned(),
        };
        self.0.push(line);
        Ok(())
    }

    fn note(&mut self, _: i32, note: &Note) -> Result<(), Error> {
        if let Note::Exec { path, .. } = note {
            self.0.push(format!("exec {}", path.display()));
        }
        Ok(())
    }
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), &(body.len() as u32).to_le_bytes(), body].concat()
}

fn block((id, start, lengths, code): (u32, u64, &[u8], &[u8])) -> Vec<u8> {
    let words = [id, 0, lengths.len() as u32].map(u32::to_le_bytes).concat();
    record(2, &[&start.to_le_bytes(), words.as_slice(), lengths, code].concat())
}

fn known() -> Blocks {
    let mut blocks = Blocks::default();
    let mut bytes: Vec<u8> =
        [LOOP, COPY, ROUND, CALL, HANDLER, ALONE, REST, TRAP].into_iter().flat_map(block).collect();
    bytes.extend(record(4, &[&9_u32.to_le_bytes(), b"/bin/it".as_slice()].concat()));
    assert_eq!(blocks.take(&bytes).map(|(taken, _)| taken), Ok(bytes.len()));
    blocks
}

fn signal(from: u32, [number, code]: [u32; 2]) -> [u32; 5] {
    [SIGNAL, from, 0, number, code]
}

fn walked(words: &[u32]) -> Result<Vec<String>, Error> {
    let (mut blocks, mut lines) = (known(), Lines::default());
    let mut walk = Walk::new(7, 7, Code::Executed);
    // A record may lie in two parts.
    for word in words {
        walk.take(&[*word], &mut blocks, &mut lines)?;
    }
    walk.ends(&mut lines)?;
    Ok(lines.0)
}

#[track_caller]
fn check(words: &[u32], expected: &[&str]) {
    assert_eq!(walked(words).expect("they are right"), expected);
}

/// What a thread has noted of code, as process, address and first byte.
#[derive(Default)]
struct Noted(Vec<(i32, u64, u8)>);

impl Observer for Noted {
    fn fact(&mut self, _: i32, _: &Fact<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn note(&mut self, tid: i32, note: &Note) -> Result<(), Error> {
        if let Note::Code { start, bytes, .. } = note {
            self.0.push((tid, *start, bytes[0]));
        }
        Ok(())
    }
}

#[test]
fn each_thread_notes_the_code_that_it_executes() {
    let (mut blocks, mut noted) = (known(), Noted::default());
    for tid in [7, 8] {
        let mut walk = Walk::new(7, tid, Code::Executed);
        walk.take(&[1, 1, 2], &mut blocks, &mut noted).expect("they are right");
    }
    assert_eq!(noted.0, [(7, 0x1000, 0x90), (7, 0x1004, 0x90), (8, 0x1000, 0x90), (8, 0x1004, 0x90)]);
}

#[test]
fn copies_are_noted_before_what_was_translated_behind_them() {
    let page = |start: u64, before: u32, byte: u8| {
        record(5, &[start.to_le_bytes().as_slice(), &before.to_le_bytes(), &[byte; 4096]].concat())
    };
    let (mut blocks, mut noted) = (known(), Noted::default());
    let bytes = [page(0x1000, 1, 1), page(0x3000, 2, 2), page(0x1000, 2, 3), page(0x1000, 9, 4)].concat();
    assert_eq!(blocks.take(&bytes).map(|(taken, _)| taken), Ok(bytes.len()));
    let mut walk = Walk::new(7, 7, Code::Copied);
    walk.take(&[1, 1, 2], &mut blocks, &mut noted).expect("they are right");
    assert_eq!(noted.0, [(7, 0x1000, 1), (7, 0x3000, 2), (7, 0x1000, 3)]);
    // Another thread comes at once to what was translated last.
    let mut other = Walk::new(7, 8, Code::Copied);
    other.take(&[2], &mut blocks, &mut noted).expect("they are right");
    assert_eq!(noted.0[3..], [(8, 0x1000, 1), (8, 0x3000, 2), (8, 0x1000, 3)]);
    // So does a process that was forked before the last copy was made, and not one that is another program.
    let mut walk = Walk::new(9, 9, Code::Copied);
    walk.take(&[2], &mut blocks.fork(8), &mut noted).expect("they are right");
    assert_eq!(noted.0.len(), 9);
    let mut walk = Walk::new(7, 7, Code::Copied);
    walk.take(&[EXEC, 9, 1, 2], &mut blocks, &mut noted).expect("they are right");
    assert_eq!(noted.0.len(), 9);
}

#[test]
fn blocks_are_executed_to_where_they_lead() {
    let [taken, not_taken] =
        ["true", "false"].map(|is| format!("1000 3 Conditional {{ is_taken: {is} }} to "));
    let (taken, not_taken) = (taken + "1000", not_taken + "1004");
    check(
        &[1, 1, 2, 4, 0],
        &["enter 1000", &taken, &not_taken, "1004 2 Plain to 1007", "1007 1 system", "end"],
    );
}

#[test]
fn rounds_are_one_instruction() {
    check(&[2, 3, 3, 3, 4], &["enter 1004", "1004 2 Plain to 1007", "1007 1 system", "end"]);
}

#[test]
fn a_fault_cuts_its_block() {
    let words = [&[1][..], &signal(0x1001, SEGV), &[5]].concat();
    check(
        &words,
        &["enter 1000", "1000 1 Plain to 1001", "interrupt 1001", "enter 2000", "interrupt 2000", "end"],
    );
    // Of the first instruction; in the middle of REP.
    let words = [&[1][..], &signal(0x1000, SEGV), &[5]].concat();
    check(&words, &["enter 1000", "interrupt 1000", "enter 2000", "interrupt 2000", "end"]);
    let words = [&[2, 3, 3][..], &signal(0x1005, SEGV), &[5]].concat();
    check(
        &words,
        &["enter 1004", "1004 1 Plain to 1005", "interrupt 1005", "enter 2000", "interrupt 2000", "end"],
    );
}

#[test]
fn a_signal_comes_between_blocks() {
    let taken = "1000 3 Conditional { is_taken: true } to 1000";
    let words = [&[1][..], &signal(0x1000, USR1), &[5]].concat();
    check(&words, &["enter 1000", taken, "interrupt 1000", "enter 2000", "interrupt 2000", "end"]);
    // In the kernel: nothing interrupts the thread.
    let words = [&[4][..], &signal(0x1009, USR1), &[5]].concat();
    check(&words, &["enter 1007", "1007 1 system", "enter 2000", "interrupt 2000", "end"]);
    // A trap has the address of its instruction.
    let words = [&[8][..], &signal(0x100a, [5, 128]), &[5]].concat();
    check(&words, &["enter 1009", "interrupt 1009", "enter 2000", "interrupt 2000", "end"]);
}

#[test]
fn an_instruction_by_itself_cuts_the_block_before() {
    let taken = "1002 1 Conditional { is_taken: true } to 1000";
    check(
        &[1, 6, 7, 1],
        &["enter 1000", "1000 1 Plain to 1001", "1001 1 Plain to 1002", taken, "interrupt 1000", "end"],
    );
}

#[test]
fn a_process_becomes_another_program() {
    check(
        &[4, EXEC, 9, 1],
        &["enter 1007", "1007 1 system", "exec /bin/it", "enter 1000", "interrupt 1000", "end"],
    );
}

#[test]
fn what_cannot_be_is_refused() {
    // An id without a block, a way that does not exist, a record of no kind.
    for words in [&[99][..], &[1, 4], &[0xffff_fff7]] {
        assert!(walked(words).is_err(), "{words:?}");
    }
    let mut blocks = Blocks::default();
    let whole = block(LOOP);
    for length in 0..whole.len() {
        assert_eq!(blocks.take(&whole[..length]).map(|(taken, _)| taken), Ok(0), "{length}");
    }
    let too_long = block((1, 0x1000, &[1, 9], &[0x90, 0xf8]));
    let none = block((1, 0x1000, &[], &[]));
    let far = block((u32::MAX, 0x1000, &[1], &[0x90]));
    for bytes in [record(9, b""), record(2, b"short"), record(1, b""), record(3, b""), too_long, none, far] {
        assert!(blocks.take(&bytes).is_err(), "{bytes:x?}");
    }
}

#[test]
fn a_child_has_its_parents_blocks() {
    let mut parent = known();
    let record = record(1, &[5_i32.to_le_bytes(), 3_u32.to_le_bytes()].concat());
    let (taken, forked) = parent.take(&record).expect("a fork");
    let forked = forked.expect("a fork");
    assert_eq!((taken, forked.parent, forked.blocks), (record.len(), 5, 2));
    let child = parent.fork(forked.blocks);
    assert!(child.get(2).is_some() && child.get(3).is_none() && child.get(0).is_none());
}

/// Whatever lies in the folder: an end, or an error.
#[test]
fn random_words_do_no_harm() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u32
    };
    for _ in 0..2000 {
        let words: Vec<u32> = (0..20)
            .map(|_| match next() % 8 {
                0 => SIGNAL,
                1 => EXEC,
                2 => next(),
                3 => 0x1000 + next() % 16,
                _ => next() % 9,
            })
            .collect();
        let _ = walked(&words);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let framed = record(1 + next() % 4, &bytes);
        let _ = Blocks::default().take(&framed);
        let _ = Blocks::default().take(&bytes);
    }
}
