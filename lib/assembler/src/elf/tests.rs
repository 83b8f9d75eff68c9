//! Objects of clang, objects made by hand, and broken ones.

use super::*;
use mote_bpf::Insn;
use mote_bpf::MapKind;
use mote_bpf::disassemble::Listing;
use mote_bpf::insn::INSN_BYTES;
use std::process::{Command, Stdio};

/// What clang makes of a source; nothing, loudly, where it is not installed.
fn compile(options: &[&str]) -> Option<Vec<u8>> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects/everything.c");
    let ran = Command::new("clang")
        .args(["-O2", "-target", "bpf", "-c", source, "-o", "-"])
        .args(options)
        .stderr(Stdio::piped())
        .output();
    let said = ran.as_ref().map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    match ran {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(_) if !said.as_ref().is_ok_and(|said| said.contains("unable to create target")) => {
            panic!("clang: {said:?}")
        }
        _ => {
            mote_skip::skip("clang for -target bpf is not installed");
            None
        }
    }
}

fn text(program: &Program) -> String {
    Listing { insns: &program.insns, environment: None }.to_string()
}

#[test]
fn objects_of_clang_are_read() {
    for cpu in ["-mcpu=v1", "-mcpu=v2", "-mcpu=v3"] {
        let Some(bytes) = compile(&["-g", cpu]) else { return };
        let object = Object::read(&bytes, &[]).unwrap();
        let names: Vec<_> = object.programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["first", "second", "third"]);
        let maps: Vec<_> = object
            .maps
            .iter()
            .map(|map| (map.name.as_str(), map.shape.kind, map.shape.key_bytes, map.shape.value_bytes))
            .collect();
        assert_eq!(
            maps,
            [
                ("legacy", MapKind::Array, 4, 8),
                ("counts", MapKind::Hash, 12, 24),
                ("ring", MapKind::RingBuffer, 0, 0),
                (".rodata", MapKind::Array, 4, 4),
                (".data", MapKind::Array, 4, 8),
                (".bss", MapKind::Array, 4, 32),
                (".rodata.str1.1", MapKind::Array, 4, 6),
            ]
        );
        assert_eq!(object.maps[3].initial, 7u32.to_le_bytes());
        assert_eq!(object.maps[6].initial, b"hello\0");
        assert!(object.maps[3].shape.read_only && !object.maps[4].shape.read_only);
        let first = text(object.program("first").unwrap());
        for part in ["r1 = map[idx:1] ll", "call map_lookup_elem", "map[idx:4]+4 ll", "call pc+"] {
            assert!(first.contains(part), "{part} in\n{first}");
        }
        // Two functions stand behind, each ends with `exit`.
        assert_eq!(first.matches(": exit").count(), 3, "{first}");
        let third = text(object.program("other").unwrap());
        assert!(third.contains("r3 = map[idx:6]+0 ll") && third.contains("call text_compare"), "{third}");
        assert_eq!(object.program("filter").unwrap().name, "first");
        assert!(object.program("nobody").is_none());
    }
}

#[test]
fn maps_by_type_need_type_information() {
    let Some(bytes) = compile(&[]) else { return };
    let error = Object::read(&bytes, &[]).unwrap_err();
    assert_eq!(error.to_string(), "type information (.BTF): it is missing; compile with -g");
}

/// Every cut and many changed bytes: an object or an error, never a panic.
#[test]
fn cut_and_changed_objects_do_not_panic() {
    let mut objects = vec![synthetic(&[]), synthetic(b"hello")];
    objects.extend(compile(&["-g"]));
    for bytes in objects {
        let step = bytes.len() / 400 + 1;
        for end in (0..bytes.len()).step_by(step) {
            drop(Object::read(&bytes[..end], &[]));
        }
        let mut random = 7u64;
        for _ in 0..3000 {
            let mut changed = bytes.clone();
            for _ in 0..3 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % changed.len();
                changed[at] = (random >> 24) as u8;
            }
            drop(Object::read(&changed, &[]));
        }
    }
}

/// An ELF file with the sections: null, names, code, its relocations, `.rodata`, symbols, names of symbols.
///
/// The code is `r1 = .rodata + 1 ll; call function; exit; function: r0 = 5; exit`.
fn synthetic(constants: &[u8]) -> Vec<u8> {
    let insns = [
        Insn::new(0x18, 1, 0, 0, 1),
        Insn::new(0, 0, 0, 0, 0),
        Insn::new(0x85, 0, 1, 0, -1),
        Insn::new(0x95, 0, 0, 0, 0),
        Insn::new(0xb7, 0, 0, 0, 5),
        Insn::new(0x95, 0, 0, 0, 0),
    ];
    let code: Vec<u8> = insns.iter().flat_map(|insn| insn.to_bytes()).collect();
    let names = b"\0filter\0.relfilter\0.rodata\0.symtab\0.strtab\0";
    let strings = b"\0main\0function\0";
    let word = |n: u32| n.to_le_bytes();
    let long = |n: u64| n.to_le_bytes();
    let symbol = |name: u32, info: u8, section: u16, value: u64, size: u64| {
        let section = section.to_le_bytes();
        [&word(name)[..], &[info, 0], &section, &long(value), &long(size)].concat()
    };
    let main = 4 * INSN_BYTES as u64;
    let symbols = [
        symbol(0, 0, 0, 0, 0),
        symbol(0, 3, 4, 0, 0),                              // .rodata
        symbol(1, 0x12, 2, 0, main),                        // main
        symbol(6, 0x12, 2, main, code.len() as u64 - main), // function
    ]
    .concat();
    let relocation = |offset: u64, symbol: u64, kind: u64| [long(offset), long(symbol << 32 | kind)].concat();
    let relocations = [relocation(0, 1, 1), relocation(16, 3, 10)].concat();
    let contents: [&[u8]; 7] = [&[], names, &code, &relocations, constants, &symbols, strings];
    // name, type, flags, link, info, entry size
    let heads: [(u32, u32, u64, u32, u32, u64); 7] = [
        (0, 0, 0, 0, 0, 0),
        (35, 3, 0, 0, 0, 0),
        (1, 1, 6, 0, 0, 0),
        (8, 9, 0, 5, 2, 16),
        (19, 1, 2, 0, 0, 0),
        (27, 2, 0, 6, 2, 24),
        (35, 3, 0, 0, 0, 0),
    ];
    let mut file = vec![0; 64];
    let mut headers = Vec::new();
    for (content, (name, kind, flags, link, info, entry)) in contents.iter().zip(heads) {
        let offset = file.len() as u64;
        file.extend_from_slice(content);
        file.resize(file.len().next_multiple_of(8), 0);
        let sizes = [long(flags), long(0), long(offset), long(content.len() as u64)].concat();
        headers.extend([&word(name)[..], &word(kind), &sizes, &word(link), &word(info)].concat());
        headers.extend([long(8), long(entry)].concat());
    }
    let at = file.len() as u64;
    let head =
        [&b"\x7fELF\x02\x01\x01"[..], &[0; 9], &[1, 0, 247, 0], &word(1), &long(0), &long(0), &long(at)];
    let tail = [64u16, 0, 0, 64, 7, 1].map(u16::to_le_bytes).concat();
    let head = [&head.concat()[..], &word(0), &tail].concat();
    file[..head.len()].copy_from_slice(&head);
    file.extend(headers);
    file
}

#[test]
fn a_synthetic_object_is_linked() {
    let object = Object::read(&synthetic(b"hello"), &[]).unwrap();
    assert_eq!(object.programs.len(), 2);
    let expect = "   0: r1 = map[idx:0]+1 ll\n   2: call pc+1\n   3: exit\n   4: r0 = 5\n   5: exit\n";
    assert_eq!(text(&object.programs[0]), expect);
    assert_eq!(object.shapes()[0].value_bytes, 5);
}

#[test]
fn what_cannot_be_resolved_is_named() {
    // Without content `.rodata` is no map.
    let error = Object::read(&synthetic(&[]), &[]).unwrap_err();
    assert_eq!(error.to_string(), "function main, instruction 0: `` is no map and no variable");
    let mut other = synthetic(b"hello");
    other[18] = 62;
    assert_eq!(Object::read(&other, &[]), Err(ObjectError::Machine(62)));
    assert!(matches!(Object::read(b"#!/bin/sh", &[]), Err(ObjectError::Elf(_))));
}
