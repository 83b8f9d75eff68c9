//! `-finstrument-functions`, `-pg`: calls of hooks, in each form that compilers and linkers make.

use crate::{Built, assert_only_placeholders_changed, build, build_at, counts};
use mote_coldpatch::Symbols;
use mote_probelist::{Kind, Was};

const INSTRUMENTED: &str = "-finstrument-functions";

/// Where the hooks are.
#[derive(Clone, Copy, Debug)]
enum Hooks {
    /// In the program.
    Own,
    /// In a library.
    Library,
}

/// The program with its hooks; they are not instrumented themselves.
fn instrumented(words: &[&str], hooks: Hooks) -> Option<Built> {
    let keep = tempfile::tempdir().expect("a directory");
    let (object, library) = (keep.path().join("hooks.o"), keep.path().join("libhooks.so"));
    let path = keep.path().join("program");
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let is_built = match hooks {
        Hooks::Own => build_at(&object, "gcc", &["-c", "-O2"], &["hooks.c"]),
        Hooks::Library => build_at(&library, "gcc", &["-shared", "-fPIC", "-O2"], &["hooks.c"]),
    };
    if !is_built {
        return None;
    }
    all.push(INSTRUMENTED.to_owned());
    match hooks {
        Hooks::Own => all.push(object.display().to_string()),
        Hooks::Library => all.extend([format!("-L{}", keep.path().display()), "-lhooks".to_owned()]),
    }
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    build_at(&path, "gcc", &all, &["calls.c"]).then_some(Built { keep, path })
}

/// Checks that all calls of hooks are gone, and that there were some of these: of what stood there the bytes of each
/// instruction.
fn check(built: &Built, expected: &[(Kind, Was, &[u8])]) {
    let before = built.bytes();
    let (lines, calls) = built.output(None);
    assert!(calls.is_some_and(|calls| calls > 100), "{calls:?} calls of hooks");
    let cold = built.cold(Symbols::Keep);
    assert_eq!(cold.left, []);
    assert_only_placeholders_changed(&before, &cold);
    assert_eq!(built.output(Some(&cold.bytes)), (lines.clone(), Some(0)));
    let stripped = built.cold(Symbols::Strip);
    assert_eq!(stripped.list, cold.list);
    assert_eq!(built.output(Some(&stripped.bytes)), (lines, Some(0)));
    for (kind, was, begin) in expected {
        let is_it = |offset: u64| before[offset as usize..].starts_with(begin);
        let found = cold.list.placeholders.iter();
        let count =
            found.filter(|place| place.kind == *kind && place.was == *was && is_it(place.offset)).count();
        assert!(count > 0, "no {kind:?} {was:?} {begin:x?}: {:#?}", counts(&cold.list));
    }
}

#[test]
fn hooks_of_the_program_itself_by_direct_calls_and_jumps() {
    let direct: [&[u8]; 2] = [&[0xe8], &[0xe9]];
    for (words, exits) in [
        (&["-O0"][..], Was::Call),
        (&["-O2"], Was::Jump),
        (&["-O2", "-no-pie", "-fno-pie"], Was::Jump),
        (&["-O2", "-static"], Was::Jump),
        (&["-O2", "-static-pie"], Was::Jump),
        (&["-O3", "-fcf-protection=full"], Was::Jump),
        (&["-O2", "-Wl,-z,pack-relative-relocs"], Was::Jump),
    ] {
        let Some(built) = instrumented(words, Hooks::Own) else { return };
        let exit = direct[usize::from(exits == Was::Jump)];
        check(&built, &[(Kind::Enter, Was::Call, direct[0]), (Kind::Exit, exits, exit)]);
    }
}

#[test]
fn hooks_of_a_library_by_the_linkers_tables() {
    for words in [
        &["-O2"][..],
        &["-O0"],
        &["-O2", "-no-pie", "-fno-pie"],
        &["-O2", "-Wl,-z,now"],
        &["-O2", "-fcf-protection=full", "-Wl,-z,ibtplt"],
        &["-O2", "-Wl,-z,lazy", "-fcf-protection=full"],
    ] {
        let Some(built) = instrumented(words, Hooks::Library) else { return };
        check(&built, &[(Kind::Enter, Was::Call, &[0xe8])]);
    }
}

#[test]
fn hooks_of_a_library_by_the_global_offset_table() {
    let Some(built) = instrumented(&["-O2", "-fno-plt"], Hooks::Library) else { return };
    check(&built, &[(Kind::Enter, Was::Call, &[0xff, 0x15]), (Kind::Exit, Was::Jump, &[0xff, 0x25])]);
}

#[test]
fn calls_by_the_table_that_the_linker_has_made_direct() {
    let Some(built) = instrumented(&["-O2", "-fno-plt"], Hooks::Own) else { return };
    check(&built, &[(Kind::Enter, Was::Call, &[0x67, 0xe8]), (Kind::Exit, Was::Jump, &[0xe9])]);
    // The linker may leave them as they are, although it knows the hook.
    let Some(built) = instrumented(&["-O2", "-fno-plt", "-Wl,--no-relax"], Hooks::Own) else { return };
    check(&built, &[(Kind::Enter, Was::Call, &[0xff, 0x15]), (Kind::Exit, Was::Jump, &[0xff, 0x25])]);
    let words = ["-O2", "-fno-plt", "-Wl,--no-relax", "-no-pie", "-fno-pie", "-static"];
    let Some(built) = instrumented(&words, Hooks::Own) else { return };
    check(&built, &[(Kind::Enter, Was::Call, &[0xff, 0x15])]);
}

#[test]
fn a_library_is_prepared_as_a_program_is() {
    let Some(built) = instrumented(&["-O2", "-shared", "-fPIC", "-g"], Hooks::Own) else { return };
    let cold = built.cold(Symbols::Keep);
    assert_only_placeholders_changed(&built.bytes(), &cold);
    assert!(counts(&cold.list).values().sum::<usize>() >= 12, "{:?}", counts(&cold.list));
    assert_eq!(cold.left, []);
}

#[test]
fn another_compiler_and_another_linker() {
    let keep = tempfile::tempdir().expect("a directory");
    let object = keep.path().join("hooks.o");
    if !build_at(&object, "clang", &["-c", "-O2"], &["hooks.c"]) {
        return;
    }
    let own = object.display().to_string();
    for words in [["-O2", INSTRUMENTED], ["-O2", "-finstrument-functions-after-inlining"]] {
        let path = keep.path().join("program");
        assert!(build_at(&path, "clang", &[words[0], words[1], "-g", &own], &["calls.c"]));
        let built = Built { keep: tempfile::tempdir().expect("a directory"), path };
        let before = built.bytes();
        let (lines, calls) = built.output(None);
        assert!(calls.is_some_and(|calls| calls > 0));
        let cold = built.cold(Symbols::Strip);
        assert_eq!(built.output(Some(&cold.bytes)), (lines, Some(0)), "{:?}", cold.left);
        assert_only_placeholders_changed(&before, &built.cold(Symbols::Keep));
    }
}

#[test]
fn names_lines_and_inlined_functions_are_in_the_list() {
    let Some(built) = instrumented(&["-O2", "-g"], Hooks::Own) else { return };
    let list = built.cold(Symbols::Strip).list;
    assert!(!list.build_id.is_empty());
    let names: Vec<&str> = list.functions.iter().map(|function| function.name.as_str()).collect();
    for name in ["main", "sum", "half", "say", "depth", "early"] {
        assert!(names.contains(&name), "no {name}: {names:?}");
    }
    let sum = list.functions.iter().find(|function| function.name == "sum").expect("it is there");
    assert!(sum.size > 20 && sum.file.as_deref().is_some_and(|file| file.ends_with("calls.c")), "{sum:?}");
    assert_eq!(sum.line, Some(9));
    let of_sum = |kind| {
        let places = list.placeholders.iter();
        let inlined = places
            .filter(|place| place.function.as_deref() == Some("sum") && place.kind == kind)
            .map(|place| place.inlined.iter().map(|one| one.function.as_str()).collect::<Vec<_>>());
        inlined.collect::<Vec<_>>()
    };
    // Its own, and that of the function which was inlined.
    for kind in [Kind::Enter, Kind::Exit] {
        let mut found = of_sum(kind);
        found.sort();
        assert_eq!(found, [vec![], vec!["twice"]], "{kind:?}");
    }
}

#[test]
fn profilers_hooks() {
    for (words, kind, begin) in [
        (&["-O2", "-pg"][..], Kind::Mcount, &[0xff, 0x15][..]),
        (&["-O2", "-pg", "-static"], Kind::Mcount, &[0x67, 0xe8]),
        (&["-O2", "-pg", "-fno-pie", "-no-pie"], Kind::Mcount, &[0xe8]),
        (&["-O2", "-pg", "-mfentry"], Kind::Fentry, &[0xff, 0x15]),
        (&["-O2", "-pg", "-mfentry", "-static"], Kind::Fentry, &[0x67, 0xe8]),
        (&["-O2", "-pg", "-mfentry", "-fno-pie", "-no-pie", "-mrecord-mcount"], Kind::Fentry, &[0xe8]),
        (
            &["-O2", "-pg", "-mfentry", "-fcf-protection=full", "-mrecord-mcount", "-w"],
            Kind::Fentry,
            &[0xff, 0x15],
        ),
    ] {
        let Some(built) = build("gcc", &[words, &["-w", "-Wl,-w"][..1]].concat(), &["calls.c", "hooks.c"])
        else {
            return;
        };
        let before = built.bytes();
        let lines = built.output(None);
        let cold = built.cold(Symbols::Keep);
        assert_eq!(cold.left, [], "{words:?}");
        assert_only_placeholders_changed(&before, &cold);
        assert_eq!(built.output(Some(&cold.bytes)), lines, "{words:?}");
        for name in ["main", "sum", "half", "say", "depth", "early", "hook_calls"] {
            let places =
                cold.list.placeholders.iter().filter(|place| place.function.as_deref() == Some(name));
            let places: Vec<_> = places.map(|place| (place.kind, place.was)).collect();
            assert_eq!(places, [(kind, Was::Call)], "{name} with {words:?}");
        }
        let place = cold.list.placeholders.iter().find(|place| place.was == Was::Call).expect("some");
        assert!(before[place.offset as usize..].starts_with(begin), "{words:?}");
    }
}
