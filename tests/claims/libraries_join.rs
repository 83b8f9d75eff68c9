//! No event is missed before `main`, and libraries that are loaded late are recorded from their first event on.

use crate::support::event::{assert_counts, named};
use crate::support::{Record, programs};

fn dlopen(events: &str, threads: &str, unload: &str) -> Record {
    let plugin = programs::plugin();
    Record::scene(&["dlopen", plugin.to_str().expect("text"), events, threads, unload])
}

#[test]
fn constructors_are_recorded() {
    let trace = Record::program(&[programs::program("early")]).run().ends_with(0);
    let events = trace.events();
    let steps: Vec<u64> = events.iter().map(|event| event.number("step")).collect();
    assert_eq!(steps, [1, 2, 3], "constructor, main, destructor");
}

#[test]
fn a_program_with_one_event_at_the_start_of_main() {
    for _ in 0..10 {
        let trace = Record::program(&[programs::program("spotted"), "x"]).run().ends_with(0);
        let events = trace.events();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].number("arguments"), 2);
        assert_eq!(trace.out, "hello 2\n");
    }
}

#[test]
fn a_library_that_is_loaded_later() {
    let trace = dlopen("1000", "0", "").run().ends_with(0);
    let events = trace.events();
    assert_counts(&named(&events, "plugin:work"), "seq", 1000);
    assert_eq!(events.first().map(|event| event.name.as_str()), Some("e2e:before_load"));
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("e2e:after_load"));
    assert_eq!(trace.summary()["processes"], 1, "the library is no process of its own");
}

#[test]
fn a_library_that_is_loaded_beside_threads_that_block_all_signals() {
    // Their sites are changed in a way that not every vendor of processors promises (`mote_patch::hop`).
    let chosen = ["-e", "e2e:*", "-e", "plugin:work"];
    let trace = dlopen("1000", "3", "").with(&chosen).env("MOTE_HOP", "1").run().ends_with(0);
    assert_counts(&named(&trace.events(), "plugin:work"), "seq", 1000);
}

#[test]
fn a_library_that_is_unloaded() {
    let chosen = ["-e", "e2e:*", "-e", "plugin:work"];
    let trace = dlopen("1000", "1", "unload").with(&chosen).env("MOTE_HOP", "1").run().ends_with(0);
    let events = trace.events();
    assert_counts(&named(&events, "plugin:work"), "seq", 1000);
    assert_eq!(named(&events, "e2e:after_load").len(), 1);
}

#[test]
fn patterns_choose_events_of_libraries_too() {
    let trace = dlopen("10", "0", "").with(&["-e", "plugin:*"]).run().ends_with(0);
    let events = trace.events();
    assert_counts(&named(&events, "plugin:work"), "seq", 10);
    assert_eq!(events.len(), 10);
}
