//! Programs that were built without placeholders: what is moved does what it did, and can be unwound as it could.

use crate::{Built, build};
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, UnwindContext, UnwindSection};
use iced_x86::{Code as Op, Decoder, DecoderOptions, Instruction};
use mote_coldpatch::{Cold, Refusal, Rewrite, Symbols, coldpatch, find};
use mote_functions::{Code, Pattern, Way};
use mote_probelist::{Kind, PADS, Placeholder};
use mote_symbol::Table;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSegment};
use std::path::Path;
use std::process::Command;

/// The placeholder.
const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text).expect("right")).collect()
}

fn rewritten(path: &Path, bytes: &[u8], symbols: Symbols, texts: &[&str]) -> Cold {
    coldpatch(path, bytes, symbols, Rewrite::All(&patterns(texts))).expect("it is whole")
}

fn pads(cold: &Cold) -> Vec<&Placeholder> {
    cold.list.placeholders.iter().filter(|one| one.kind == Kind::Rewritten).collect()
}

fn section<'d>(elf: &object::File<'d>, name: &str) -> (u64, &'d [u8]) {
    let section = elf.section_by_name(name).unwrap_or_else(|| panic!("no {name}"));
    (section.address(), section.data().expect("whole"))
}

/// A file as it is loaded: bytes by address.
struct Memory(Vec<u8>);

impl Memory {
    fn of(elf: &object::File<'_>) -> Memory {
        let mut memory = Vec::new();
        for segment in elf.segments() {
            let (begin, data) = (segment.address() as usize, segment.data().expect("whole"));
            memory.resize(memory.len().max(begin + data.len()), 0);
            memory[begin..begin + data.len()].copy_from_slice(data);
        }
        Memory(memory)
    }

    fn decoded(&self, address: u64) -> Instruction {
        Decoder::with_ip(64, &self.0[address as usize..], address, DecoderOptions::NONE).decode()
    }

    /// How to unwind at `address`, by the table `header` and frames from `frames` on, as GCC's unwinder finds it.
    fn row(&self, (header, frames): (u64, u64), address: u64) -> Option<String> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(header).set_eh_frame(frames);
        let table = EhFrameHdr::new(&self.0[header as usize..], LittleEndian);
        let table = table.parse(&bases, 8).expect("a table");
        let section = EhFrame::new(&self.0[frames as usize..], LittleEndian);
        let found = table.table().expect("sorted").fde_for_address(
            &section,
            &bases,
            address,
            EhFrame::cie_from_offset,
        );
        let (fde, mut context) = (found.ok()?, UnwindContext::new());
        let row = fde.unwind_info_for_address(&section, &bases, &mut context, address).expect("a row");
        let mut registers: Vec<String> = row.registers().map(|rule| format!("{rule:?}")).collect();
        registers.sort();
        Some(format!("{:?} {registers:?}", row.cfa()))
    }
}

/// Where the table of frames and the frames are, as the file tells the unwinder.
fn tables(elf: &object::File<'_>, bytes: &[u8]) -> (u64, u64) {
    let header = object::elf::FileHeader64::<Endianness>::parse(bytes).expect("whole");
    let segments = header.program_headers(Endianness::Little, bytes).expect("whole");
    let frames = |one: &&object::elf::ProgramHeader64<Endianness>| {
        one.p_type(Endianness::Little) == object::elf::PT_GNU_EH_FRAME
    };
    let table = segments.iter().find(frames).expect("a table").p_vaddr(Endianness::Little);
    (table, section(elf, ".eh_frame").0)
}

/// Checks each pad of a rewritten file, and returns how many instructions can be unwound as in the old one.
fn check_pads(before: &[u8], cold: &Cold) -> usize {
    let (old, new) = (object::File::parse(before).unwrap(), object::File::parse(&*cold.bytes).unwrap());
    let (old_tables, new_tables) = (tables(&old, before), tables(&new, &cold.bytes));
    let (old, new) = (Memory::of(&old), Memory::of(&new));
    let mut unwound = 0;
    for pad in pads(cold) {
        let (entry, at) = (pad.entry.expect("a function"), pad.address);
        assert_eq!(cold.bytes[pad.offset as usize..][..5], NOP);
        assert_eq!(at % 8, 0, "one store changes it");
        let mut one = old.decoded(entry);
        if one.code() == Op::Endbr64 {
            assert_eq!(new.decoded(entry).code(), Op::Endbr64);
            one = old.decoded(one.next_ip());
        }
        // The jumps there.
        let mut jump = new.decoded(one.ip());
        for _ in 0..2 {
            assert_eq!(new.row(new_tables, jump.ip()), old.row(old_tables, one.ip()), "{jump} of {entry:#x}");
            jump = new.decoded(jump.near_branch_target());
            if jump.ip() == at {
                break;
            }
        }
        assert_eq!(jump.ip(), at, "{entry:#x} leads to its pad");
        let (mut called, begin, mut copy) = (false, one.ip(), new.decoded(jump.next_ip()));
        loop {
            let expected = old.row(old_tables, one.ip());
            // What lies behind a call that does not return, or behind the function's end, may be of another one.
            if !called && (expected.is_some() || one.ip() == begin) {
                assert_eq!(new.row(new_tables, copy.ip()), expected, "{copy} for {one} of {entry:#x}");
                unwound += 1;
            }
            // The way back, or the end.
            if copy.code() == Op::Jmp_rel32_64 && copy.near_branch_target() == one.ip() {
                break;
            }
            assert_eq!(copy.mnemonic(), one.mnemonic(), "{copy} for {one} of {entry:#x}");
            if matches!(one.flow_control(), iced_x86::FlowControl::Return)
                || matches!(one.mnemonic(), iced_x86::Mnemonic::Jmp | iced_x86::Mnemonic::Ud2)
            {
                break;
            }
            called = matches!(one.mnemonic(), iced_x86::Mnemonic::Call);
            (one, copy) = (old.decoded(one.next_ip()), new.decoded(copy.next_ip()));
        }
    }
    unwound
}

/// Bytes of the old file that are others now lie in its header, or in code.
fn check_the_rest(before: &[u8], cold: &Cold) {
    const HEADER: usize = 64;
    let elf = object::File::parse(before).expect("whole");
    let code: Vec<(u64, u64)> = elf
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .filter_map(|section| section.file_range())
        .collect();
    let is_code = |at: usize| code.iter().any(|(begin, len)| (*begin..begin + len).contains(&(at as u64)));
    let changed = (HEADER..before.len()).filter(|at| before[*at] != cold.bytes[*at]);
    let changed: Vec<usize> = changed.collect();
    assert!(changed.iter().all(|at| is_code(*at)), "{changed:x?}");
    // A jump of five bytes, or one of two and one of five; at most 15 bytes more were moved.
    assert!(changed.len() <= 20 * pads(cold).len(), "{} for {}", changed.len(), pads(cold).len());
}

fn assert_readelf_is_content(built: &Built, bytes: &[u8]) {
    let path = built.keep.path().join("to-read");
    std::fs::write(&path, bytes).expect("a file");
    match Command::new("readelf").args(["-aW"]).arg(&path).output() {
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success() && said.is_empty(), "{said}");
        }
        Err(why) => mote_skip::skip(format!("no readelf: {why}")),
    }
}

#[test]
fn programs_of_all_kinds_do_what_they_did() {
    for words in [
        &["-O2", "-g"][..],
        &["-O0"],
        &["-O2", "-no-pie"],
        &["-O2", "-fcf-protection"],
        &["-Os", "-s"],
        &["-O2", "-Wl,-z,norelro", "-Wl,--build-id=none"],
        &["-O2", "-Wl,-z,noseparate-code"],
        &["-O3", "-fno-asynchronous-unwind-tables"],
    ] {
        let Some(built) = build("gcc", words, &["calls.c", "hooks.c"]) else { return };
        let before = built.bytes();
        for symbols in [Symbols::Keep, Symbols::Strip] {
            let cold = rewritten(&built.path, &before, symbols, &["*"]);
            assert!(pads(&cold).len() >= 5, "{words:?}: {:?}", cold.refused);
            assert_eq!(built.output(Some(&cold.bytes)), built.output(None), "{words:?}");
            assert!(check_pads(&before, &cold) >= pads(&cold).len(), "{words:?}");
            if symbols == Symbols::Keep {
                check_the_rest(&before, &cold);
            }
            assert_readelf_is_content(&built, &cold.bytes);
            // What was moved is found again, and the rest is as it was.
            let functions = cold.list.functions.iter().map(|one| (one.address, one.size, one.name.as_str()));
            let code = Code::of(&built.path, &cold.bytes, &Table::of(functions)).expect("whole");
            let found: Vec<_> = code.functions.functions.iter().filter_map(|one| one.pad).collect();
            let expected: Vec<_> = pads(&cold).iter().map(|pad| (pad.address, pad.offset)).collect();
            let found: Vec<_> = found.iter().map(|pad| (pad.address, pad.offset)).collect();
            assert!(expected.iter().all(|pad| found.contains(pad)), "{words:?}");
            let is_placeholder = |one: &&mote_functions::Function| one.pad.is_some();
            let mut others = code.functions.functions.iter().filter(is_placeholder);
            assert!(others.all(|one| one.way == Way::Placeholder && one.probed_at() != one.address));
            assert!(find(&built.path, &cold.bytes).is_ok());
        }
    }
}

#[test]
fn functions_that_have_room_for_a_jump_need_no_placeholder() {
    let Some(built) = build("gcc", &["-Os", "-g"], &["calls.c", "hooks.c"]) else { return };
    let (bytes, texts) = (built.bytes(), patterns(&["*"]));
    let cold = coldpatch(&built.path, &bytes, Symbols::Keep, Rewrite::Needed(&texts)).expect("it is whole");
    let functions = cold.list.functions.iter().map(|one| (one.address, one.size, one.name.as_str()));
    let code = Code::of(&built.path, &bytes, &Table::of(functions)).expect("whole");
    let is_trap = |address: u64| {
        let mut functions = code.functions.functions.iter();
        functions.any(|one| one.address == address && matches!(one.way, Way::Trap(_)))
    };
    let entries: Vec<u64> = pads(&cold).iter().filter_map(|pad| pad.entry).collect();
    assert!(entries.iter().all(|entry| is_trap(*entry)), "{entries:x?}");
    assert!(cold.refused.iter().all(|one| !one.why.to_string().is_empty()), "{:?}", cold.refused);
    let all = rewritten(&built.path, &bytes, Symbols::Keep, &["*"]);
    let meant = |cold: &Cold| pads(cold).len() + cold.refused.len() + cold.unneeded;
    assert!(cold.unneeded > 4 && all.unneeded == 0 && meant(&cold) == meant(&all), "{}", cold.unneeded);
}

#[test]
fn only_what_is_meant_is_rewritten_and_only_once() {
    let Some(built) = build("gcc", &["-O2", "-g"], &["calls.c", "hooks.c"]) else { return };
    let cold = rewritten(&built.path, &built.bytes(), Symbols::Keep, &["program:dep*", "half"]);
    let named: Vec<_> = pads(&cold).iter().filter_map(|pad| pad.function.clone()).collect();
    assert!(named.contains(&"depth".to_owned()) && named.contains(&"half".to_owned()) && named.len() == 2);
    assert!(pads(&cold).iter().all(|pad| pad.file.as_ref().is_some_and(|file| file.ends_with("calls.c"))));
    let by_source = rewritten(&built.path, &built.bytes(), Symbols::Keep, &["@calls.c"]);
    assert!(pads(&by_source).len() > 4);
    let none = rewritten(&built.path, &built.bytes(), Symbols::Keep, &["nothing_is_called_so"]);
    assert!(pads(&none).is_empty() && none.bytes == built.bytes());
    let again = coldpatch(&built.path, &cold.bytes, Symbols::Keep, Rewrite::All(&patterns(&["say"])))
        .expect_err("twice");
    assert!(again.to_string().contains("was rewritten already"), "{again}");
}

#[test]
fn placeholders_of_compilers_stay_theirs() {
    for (words, expected) in [
        (&["-O2", "-pg", "-mfentry", "-mnop-mcount", "-fno-pic", "-no-pie"][..], Refusal::HasOne),
        // NOPs of one byte each.
        (&["-O2", "-fpatchable-function-entry=5"], Refusal::Overlaps),
        (&["-O2", "-fpatchable-function-entry=2"], Refusal::Overlaps),
    ] {
        let Some(built) = build("gcc", words, &["calls.c", "hooks.c"]) else { return };
        let cold = rewritten(&built.path, &built.bytes(), Symbols::Keep, &["depth"]);
        let why: Vec<Refusal> = cold.refused.iter().map(|one| one.why).collect();
        assert_eq!((why, pads(&cold).len()), (vec![expected], 0), "{words:?}");
    }
}

#[test]
fn what_cannot_be_rewritten_is_refused() {
    let Some(built) = build("gcc", &["-O2", "-static"], &["calls.c", "hooks.c"]) else { return };
    let pie = build("gcc", &["-O2", "-static-pie"], &["calls.c", "hooks.c"]);
    for built in [Some(built), pie].into_iter().flatten() {
        let why = coldpatch(&built.path, &built.bytes(), Symbols::Keep, Rewrite::All(&patterns(&["sum"])));
        let why = why.expect_err("static").to_string();
        assert!(why.contains("is static: its functions cannot be probed"), "{why}");
    }
    let words = ["-O2"];
    let Some(large) = build("gcc", &words, &["calls.c", "hooks.c", "large.c"]) else { return };
    let why = coldpatch(&large.path, &large.bytes(), Symbols::Keep, Rewrite::All(&patterns(&["sum"])));
    let why = why.expect_err("no place").to_string();
    assert!(why.contains("has no place for placeholders"), "{why}");
}

#[test]
fn damaged_files_are_rewritten_or_refused() {
    let Some(built) = build("gcc", &["-O2", "-g"], &["calls.c", "hooks.c"]) else { return };
    let (whole, all) = (built.bytes(), patterns(&["*"]));
    let headers = whole.len() - 64 * 40;
    let places = (0..1024).chain((1024..headers).step_by(41)).chain((headers..whole.len()).step_by(3));
    let (mut done, mut refused) = (0, 0);
    for at in places {
        for bits in [0xff, 0x40] {
            let mut damaged = whole.clone();
            damaged[at] ^= bits;
            match coldpatch(&built.path, &damaged, Symbols::Keep, Rewrite::All(&all)) {
                Ok(cold) => {
                    assert!(cold.bytes.len() <= whole.len() + (65 << 20), "{at}");
                    done += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(done > 500 && refused > 100, "{done} done, {refused} refused");
}

#[test]
fn the_c_library_can_be_unwound_as_before() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let libc =
        maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc.so")));
    let Some(path) = libc else {
        mote_skip::skip("there is no libc.so here");
        return;
    };
    let before = std::fs::read(path).expect("it is loaded");
    let cold = rewritten(Path::new(path), &before, Symbols::Keep, &["*"]);
    assert!(pads(&cold).len() > 1000, "{}", pads(&cold).len());
    let unwound = check_pads(&before, &cold);
    println!("{unwound} instructions of {} pads; {} refused", pads(&cold).len(), cold.refused.len());
    check_the_rest(&before, &cold);
    // Nearly all.
    assert!(cold.refused.len() * 100 <= pads(&cold).len(), "{}", cold.refused.len());
    assert_eq!(object::File::parse(&*cold.bytes).unwrap().section_by_name(PADS).unwrap().align(), 4096);
}
