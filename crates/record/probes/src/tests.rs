//! Patterns of probes, on programs that are compiled for it.

use super::selection::event_name;
use super::{Selection, Where, is_probe, select, usdt};
use mote_catalog::event::{Event, Field, Hook, Operand, Origin, Type};
use mote_layout::types::Scalar;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Static probes as `sys/sdt.h` makes them, and functions.
const SOURCE: &str = include_str!("../tests/programs/probed.c");

/// A program that was just compiled; `None`, said loudly, without a compiler.
fn program(options: &[&str]) -> Option<(TempDir, PathBuf)> {
    let dir = TempDir::new().expect("a directory");
    let (code, path) = (dir.path().join("app.c"), dir.path().join("app"));
    std::fs::write(&code, SOURCE).expect("a directory of the test");
    let Ok(run) = Command::new("gcc").arg(code).arg("-o").arg(&path).args(options).output() else {
        mote_skip::skip("there is no gcc");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some((dir, path))
}

fn nowhere() -> Where {
    Where { commands: vec![], libraries: vec![], pid: None }
}

fn chosen(path: &Path, rest: &str) -> Selection {
    let (kind, rest) = rest.split_once(' ').expect("kind and name");
    let pattern = format!("{kind}:{}:{rest}", path.display());
    select(&[&pattern], &nowhere(), None).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(path: &Path, rest: &str) -> String {
    let (kind, rest) = rest.split_once(' ').expect("kind and name");
    let pattern = format!("{kind}:{}:{rest}", path.display());
    select(&[pattern], &nowhere(), None).expect_err("means nothing").to_string()
}

/// `name type where`, a line each.
fn fields(event: &Event) -> Vec<String> {
    let ty = |ty: &Type| match ty {
        Type::Scalar(scalar) => scalar.name().to_owned(),
        Type::Enumeration(scalar, labels) => format!("enum {} {}", scalar.name(), labels.len()),
        Type::Text => "str".to_owned(),
        other => format!("{other:?}"),
    };
    let operand = |operand: &Operand| match operand {
        Operand::Constant(value) => format!("${value}"),
        Operand::Register(offset) => format!("%{offset}"),
        Operand::Memory { base, displacement, bytes, .. } => format!("{bytes}@{displacement}(%{base})"),
    };
    let from = |field: &Field| match &field.from {
        Origin::Operand(from) => operand(from),
        Origin::OperandText(from) => format!("*{}", operand(from)),
        Origin::Result => "result".to_owned(),
        other => format!("{other:?}"),
    };
    event.fields.iter().map(|field| format!("{} {} {}", field.name, ty(&field.ty), from(field))).collect()
}

#[test]
fn functions_have_the_parameters_of_their_debug_information() {
    let Some((_dir, path)) = program(&["-g"]) else { return };
    let selection = chosen(&path, "uprobe work");
    let [event] = &selection.events[..] else { panic!("{selection:?}") };
    assert_eq!((event.provider.as_str(), event.name.as_str()), ("uprobe", "uprobe_app_work"));
    let expected =
        ["ip x64 %128", "number i32 %112", "name str *%104", "color enum u32 2 %96", "wide u64 %88"];
    assert_eq!(fields(event), expected);
    let many = chosen(&path, "uprobe many");
    let last = fields(&many.events[0]).pop();
    assert_eq!(last.as_deref(), Some("h i64 8@16(%152)"), "the eighth is on the stack");
    let float = chosen(&path, "uprobe scale");
    assert_eq!(fields(&float.events[0]), ["ip x64 %128", "by i32 %112"]);
    assert!(
        float.notes[0].contains("`x` of scale is not recorded: a floating point number"),
        "{:?}",
        float.notes
    );
    let returned = chosen(&path, "uretprobe work");
    assert_eq!(fields(&returned.events[0]), ["ret i64 result"]);
    assert!(matches!(returned.events[0].hook, Hook::Uprobe { returns: true, .. }));
    assert_eq!(fields(&chosen(&path, "uretprobe greet").events[0]), ["ret str *%80"]);
    let twice = select(
        &[format!("uprobe:{}:work", path.display()), format!("uprobe:{}:wor?", path.display())],
        &nowhere(),
        None,
    );
    assert_eq!(twice.expect("both fit").events.len(), 1);
}

#[test]
fn functions_without_debug_information_have_registers_or_what_the_person_says() {
    let Some((_dir, path)) = program(&[]) else { return };
    let plain = chosen(&path, "uprobe work");
    assert_eq!(fields(&plain.events[0]).len(), 7);
    assert_eq!(fields(&plain.events[0])[1], "arg1 x64 %112");
    let given = chosen(&path, "uprobe work(id: i32, name: str)");
    assert_eq!(fields(&given.events[0]), ["ip x64 %128", "id i32 %112", "name str *%104"]);
    let inside = chosen(&path, "uprobe work+4");
    assert_eq!(inside.events[0].name, "uprobe_app_work_4");
    let offset = |selection: &Selection| match selection.events[0].hook {
        Hook::Uprobe { offset, .. } => offset,
        _ => panic!("no uprobe"),
    };
    assert_eq!(offset(&inside), offset(&plain) + 4);
    let several = chosen(&path, "uprobe twin_*");
    assert_eq!(several.events.len(), 2);
}

#[test]
fn what_is_not_there_is_said_with_names_that_are() {
    let Some((_dir, path)) = program(&["-g"]) else { return };
    assert!(refused(&path, "uprobe wrok").contains("has no function `wrok`; similar names: work"));
    assert!(refused(&path, "uprobe 0x1").contains("is not an address of code"));
    assert!(refused(&path, "uretprobe _start").contains("does not return"));
    assert_eq!(chosen(&path, "uprobe _start").events.len(), 1);
    let static_probe = refused(&path, "usdt app:tok");
    assert!(static_probe.contains("has no static probe `app:tok`; similar names: "), "{static_probe}");
    assert!(static_probe.contains("app:tick"), "{static_probe}");
    assert!(refused(&path, "usdt app").contains("has no static probe `*:app`"));
    assert!(refused(&path.with_extension("gone"), "uprobe f").contains("cannot read"));
    assert!(refused(Path::new("app"), "uprobe f").contains("it is not in PATH"));
    let stripped = Command::new("strip").arg(&path).status().expect("binutils come with gcc");
    assert!(stripped.success());
    assert!(
        refused(&path, "uprobe work").contains("no function `work`")
            || refused(&path, "uprobe work").contains("stripped")
    );
    std::fs::write(&path, "#!/bin/sh\n").expect("writable");
    assert!(refused(&path, "uprobe work").contains("it is a script"));
    std::fs::write(&path, "\x7fELF cut").expect("writable");
    assert!(refused(&path, "usdt app:tick").contains("is damaged"));
    let kernel = select(&["fentry:no_such_function"], &nowhere(), None).expect_err("refused").to_string();
    assert!(kernel.contains("no BTF") && kernel.contains("tracepoint"), "{kernel}");
    assert!(is_probe("uprobe:a:b") && is_probe("kprobe:a") && !is_probe("sched:*") && !is_probe("sched"));
    assert_eq!(event_name(&["uprobe", "a.out", "std::vec<int>::f()"]), "uprobe_a_out_std_vec_int_f");
}

#[test]
fn static_probes_with_arguments_and_semaphores() {
    for options in [&["-O0"][..], &["-O2"], &["-O2", "-no-pie"]] {
        let Some((_dir, path)) = program(options) else { return };
        let selection = chosen(&path, "usdt app:tick");
        let [event] = &selection.events[..] else { panic!("{selection:?}") };
        assert_eq!((event.provider.as_str(), event.name.as_str()), ("usdt", "usdt_app_tick"));
        let names: Vec<&str> = event.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["ip", "arg1", "arg2", "arg3"]);
        let types: Vec<&Type> = event.fields.iter().skip(1).map(|field| &field.ty).collect();
        let [signed, wide] = [Scalar::signed(32), Scalar::unsigned(64)].map(Type::Scalar);
        assert_eq!(types, [&signed, &wide, &signed]);
        assert_eq!(event.fields[3].from, Origin::Operand(Operand::Constant(5)));
        let Hook::Uprobe { semaphore, offset, .. } = event.hook else { panic!("no uprobe") };
        assert_ne!(semaphore, 0);
        let bytes = std::fs::read(&path).expect("readable");
        assert_eq!(bytes[offset as usize], 0x90, "the probe is a NOP");
        assert_eq!(bytes[semaphore as usize..][..2], [0, 0], "it is switched off");
        let plain = chosen(&path, "usdt tock");
        assert!(matches!(plain.events[0].hook, Hook::Uprobe { semaphore: 0, .. }));
        let twice = chosen(&path, "usdt app:twice");
        let names: Vec<&str> = twice.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["usdt_app_twice", "usdt_app_twice_2"]);
        assert_eq!(chosen(&path, "usdt *:*").events.len(), 5);
        let said = chosen(&path, "usdt said(text: str)");
        assert_eq!(said.events[0].fields[1].ty, Type::Text);
        assert!(matches!(said.events[0].fields[1].from, Origin::OperandText(_)));
    }
}

/// A note, with a padded owner and body.
fn note(owner: &[u8], ty: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [owner.len() as u32, body.len() as u32, ty] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for part in [owner, body] {
        bytes.extend_from_slice(part);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn body(words: [u64; 3], texts: &str) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).chain(texts.bytes()).collect()
}

#[test]
fn notes_move_with_the_code() {
    let probe = note(b"stapsdt\0", 3, &body([0x1010, 0x2000, 0x3000], "app\0tick\x008@%rdi\0"));
    let other = note(b"GNU\0", 3, &[1; 20]);
    let all =
        [other, probe.clone(), note(b"stapsdt\0", 4, &[]), note(b"stapsdt\0", 3, &body([0; 3], "\0\0\0"))]
            .concat();
    let read = |base| {
        usdt::notes(&all, base).into_iter().map(|probe| (probe.address, probe.semaphore)).collect::<Vec<_>>()
    };
    assert_eq!(read(Some(0x2000)), [(0x1010, 0x3000)]);
    assert_eq!(read(Some(0x12000)), [(0x11010, 0x13000)], "relinked to other addresses");
    assert_eq!(read(None), [(0x1010, 0x3000)]);
    let found = usdt::notes(&probe, None);
    assert_eq!(
        (found[0].provider.as_str(), found[0].name.as_str(), found[0].arguments.as_str()),
        ("app", "tick", "8@%rdi")
    );
}

#[test]
fn broken_notes_do_no_harm() {
    let whole = note(b"stapsdt\0", 3, &body([1, 2, 3], "app\0tick\x008@%rdi -4@(%rax,%rbx,8)\0")).repeat(3);
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for _ in 0..50_000 {
        let mut bytes = whole.clone();
        for _ in 0..random() % 6 {
            let at = random() % bytes.len();
            bytes[at] = if random() % 3 == 0 { 0xff } else { random() as u8 };
        }
        bytes.truncate(random() % (bytes.len() + 1));
        assert!(super::read_notes(&bytes, Some(random() as u64)) <= 6);
    }
    assert_eq!(usdt::notes(&whole, None).len(), 3);
}
