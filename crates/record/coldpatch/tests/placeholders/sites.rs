//! Placeholders that are NOPs already: they are listed, and nothing is changed.

use crate::{build, counts};
use mote_coldpatch::Symbols;
use mote_probelist::{Kind, Placeholder, Was};

/// Builds, checks that nothing changes, and returns the placeholders of `kind` of the program's own functions.
fn listed(compiler: &str, words: &[&str], kind: Kind) -> Option<Vec<Placeholder>> {
    let built = build(compiler, words, &["sites.c"])?;
    let before = built.bytes();
    let cold = built.cold(Symbols::Keep);
    assert!(cold.bytes == before, "nothing is to be changed");
    assert_eq!(cold.left, [], "{words:?}");
    let lines = built.output(None);
    assert_eq!(built.output(Some(&built.cold(Symbols::Strip).bytes)), lines);
    let own = |place: &Placeholder| {
        place.function.as_deref().is_some_and(|name| ["twice", "say", "main"].contains(&name))
    };
    let places = cold.list.placeholders.iter().filter(|place| place.kind == kind && own(place));
    let places: Vec<Placeholder> = places.cloned().collect();
    assert!(places.iter().all(|place| place.was == Was::Nop), "{places:#?}");
    assert!(!places.is_empty(), "{words:?}: {:?}", counts(&cold.list));
    Some(places)
}

/// Names and sizes, by name.
fn sizes(places: &[Placeholder]) -> Vec<(&str, u64)> {
    let mut sizes: Vec<_> =
        places.iter().map(|place| (place.function.as_deref().unwrap_or("?"), place.size)).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn patchable_entries() {
    for (compiler, words, size) in [
        ("gcc", &["-O2", "-fpatchable-function-entry=5"][..], 5),
        ("gcc", &["-O2", "-fpatchable-function-entry=7", "-no-pie", "-fno-pie"], 7),
        ("gcc", &["-O2", "-fpatchable-function-entry=5", "-static"], 5),
        ("gcc", &["-O2", "-fpatchable-function-entry=16", "-Wl,-z,pack-relative-relocs"], 16),
        ("gcc", &["-O2", "-fpatchable-function-entry=5", "-fcf-protection=full"], 5),
        ("clang", &["-O2", "-fpatchable-function-entry=5"], 5),
    ] {
        let Some(places) = listed(compiler, words, Kind::Patchable) else { return };
        assert_eq!(sizes(&places), [("main", size), ("say", size), ("twice", size)], "{words:?}");
    }
}

#[test]
fn patchable_entries_that_begin_before_the_function() {
    let words = ["-O2", "-fpatchable-function-entry=5,2"];
    let Some(places) = listed("gcc", &words, Kind::Patchable) else { return };
    assert_eq!(sizes(&places), [("main", 5), ("say", 5), ("twice", 5)]);
    // With a landing pad between them, only those before it are together.
    let words = ["-O2", "-fpatchable-function-entry=5,2", "-fcf-protection=full"];
    let Some(places) = listed("gcc", &words, Kind::Patchable) else { return };
    assert_eq!(sizes(&places), [("main", 2), ("say", 2), ("twice", 2)]);
}

#[test]
fn profilers_nops() {
    for more in [&["-mrecord-mcount"][..], &[], &["-fcf-protection=full"]] {
        let words = ["-O2", "-pg", "-mfentry", "-mnop-mcount", "-fno-pie", "-no-pie"];
        let Some(places) = listed("gcc", &[&words[..], more].concat(), Kind::Fentry) else { return };
        assert_eq!(sizes(&places), [("main", 5), ("say", 5), ("twice", 5)], "{more:?}");
    }
}

#[test]
fn sleds() {
    let words = ["-O2", "-fxray-instrument", "-fxray-instruction-threshold=1"];
    for more in [&[][..], &["-no-pie", "-fno-pie"]] {
        let words = [&words[..], more].concat();
        let Some(entries) = listed("clang", &words, Kind::XrayEntry) else { return };
        assert_eq!(sizes(&entries), [("main", 11), ("say", 11), ("twice", 11)]);
        let exits = listed("clang", &words, Kind::XrayExit).expect("built before");
        assert!(sizes(&exits).contains(&("twice", 11)), "{exits:#?}");
        let tails = listed("clang", &words, Kind::XrayTail).expect("built before");
        assert_eq!(sizes(&tails), [("say", 11)]);
    }
}

#[test]
fn sites_of_our_own() {
    for words in [&["-O2"][..], &["-O2", "-no-pie", "-fno-pie"]] {
        let Some(places) = listed("gcc", words, Kind::Mote) else { return };
        // Of an event, and of a switch; the third is of neither.
        let found: Vec<_> = places.iter().map(|place| (place.event.as_deref(), place.size)).collect();
        assert_eq!(found, [(Some("shop:sold"), 5), (None, 5)], "{words:?}");
    }
}

#[test]
fn static_probes() {
    for words in [&["-O2"][..], &["-O2", "-no-pie", "-fno-pie"]] {
        let Some(places) = listed("gcc", words, Kind::Usdt) else { return };
        let [place] = &places[..] else { panic!("{places:#?}") };
        assert_eq!((place.event.as_deref(), place.size), (Some("shop:twice"), 1));
        assert_eq!(place.function.as_deref(), Some("twice"));
    }
}
