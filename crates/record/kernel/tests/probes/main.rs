//! Probes of programs, end to end: a compiled program is probed while it runs. Needs the right to load programs, and
//! gcc.

mod support;

use mote_catalog::event::{Event, Type};
use mote_catalog::stack::{self, Stacks};
use mote_symbol::{Begun, Options, Symbols, collect};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use support::{Probed, program, record};

/// Enough calls that one that is missed, or told twice, is seen.
const CALLS: usize = 1000;

#[test]
fn each_call_is_one_event_with_its_arguments() {
    let Some((_dir, path)) = program(&["-g", "-O1"]) else { return };
    let Some(Probed { events, records, .. }) = record(
        &path,
        &["uprobe work", "uretprobe work", "uprobe many", "uretprobe greet", "uprobe twin_*"],
        Stacks::default(),
        CALLS,
    ) else {
        return;
    };
    let of = |name: &str| {
        let id = events.iter().position(|event| event.name == name).unwrap_or_else(|| panic!("{name}"));
        records.iter().filter(|record| record.id == id).collect::<Vec<_>>()
    };
    for name in ["uprobe_app_twin_a", "uprobe_app_twin_b"] {
        assert_eq!(of(name).len(), CALLS, "{name}");
    }
    let work = of("uprobe_app_work");
    assert_eq!(work.len(), CALLS);
    for (number, record) in work.iter().enumerate() {
        let color = (number & 1).to_string();
        let [_ip, rest @ ..] = &record.fields[..] else { panic!("{record:?}") };
        // A probe cannot wait for a page: the text may not be there before the program has looked at it once.
        let name = if number == 0 { rest[1].clone() } else { "name".to_owned() };
        assert_eq!(rest, [number.to_string(), name, color, (1_u64 << 40).to_string()]);
    }
    let returned: Vec<String> =
        of("uretprobe_app_work").iter().map(|record| record.fields[0].clone()).collect();
    let expected: Vec<String> = (0..CALLS as i64).map(|number| (-number).to_string()).collect();
    assert_eq!(returned, expected);
    let last: Vec<&str> = of("uprobe_app_many").iter().map(|record| record.fields[8].as_str()).collect();
    assert_eq!(
        last,
        (0..CALLS).map(|number| number.to_string()).collect::<Vec<_>>(),
        "the eighth lies on the stack"
    );
    let texts: Vec<&str> = of("uretprobe_app_greet").iter().map(|record| record.fields[0].as_str()).collect();
    assert_eq!((texts[0], texts[1], texts.len()), ("hello", "hello again", CALLS));
}

#[test]
fn many_functions_at_once_are_told_apart() {
    let Some((_dir, path)) = program(&["-O1"]) else { return };
    let names = ["work", "many", "scale", "greet", "twin_a", "twin_b", "tick", "tock"];
    for kind in ["uprobe", "uretprobe"] {
        let pattern = format!("{kind} *");
        let Some(Probed { events, records, .. }) = record(&path, &[&pattern], Stacks::default(), CALLS)
        else {
            return;
        };
        assert!(events.len() > names.len(), "those of the compiler, too");
        for name in names {
            let name = format!("{kind}_app_{name}");
            let id = events.iter().position(|event| event.name == name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(records.iter().filter(|record| record.id == id).count(), CALLS, "{name}");
        }
    }
}

#[test]
fn static_probes_tell_their_arguments() {
    for options in [&["-O0"][..], &["-O2", "-no-pie"]] {
        let Some((_dir, path)) = program(options) else { return };
        let Some(Probed { events, records, .. }) =
            record(&path, &["usdt app:tick", "usdt tock", "usdt twice"], Stacks::default(), CALLS)
        else {
            return;
        };
        let of = |name: &str| {
            let id = events.iter().position(|event| event.name == name).unwrap_or_else(|| panic!("{name}"));
            records
                .iter()
                .filter(|record| record.id == id)
                .map(|record| &record.fields[1..])
                .collect::<Vec<_>>()
        };
        let tick: Vec<Vec<String>> = of("usdt_app_tick").into_iter().map(<[String]>::to_vec).collect();
        let expected: Vec<Vec<String>> =
            (0..CALLS).map(|n| vec![n.to_string(), (n * n).to_string(), "5".to_owned()]).collect();
        assert_eq!(tick, expected, "{options:?}");
        assert_eq!(of("usdt_other_tock").len(), CALLS);
        let twice = [of("usdt_app_twice"), of("usdt_app_twice_2")];
        assert_eq!(twice.iter().map(Vec::len).collect::<Vec<_>>(), [CALLS / 2; 2]);
    }
}

#[test]
fn a_semaphore_is_up_while_its_probe_is_recorded() {
    let Some((_dir, path)) = program(&[]) else { return };
    if !support::can() {
        return;
    }
    let mut child = Command::new(&path)
        .args(["0", "stay"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was just compiled");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut input = child.stdin.take().expect("a pipe");
    let mut semaphore = |ask: bool| {
        if ask {
            input.write_all(b"?").expect("it waits");
        }
        lines.next().expect("it answers").expect("text")
    };
    assert_eq!(semaphore(false), "semaphore 0");
    let kernel = support::start(&support::events(&path, &["usdt app:tick"], Stacks::default()));
    assert_eq!(semaphore(true), "semaphore 1");
    let second = support::start(&support::events(&path, &["usdt app:tick"], Stacks::default()));
    assert_eq!(
        semaphore(true),
        "semaphore 1",
        "the kernel counts places, not the processes that run into them"
    );
    drop(kernel);
    assert_eq!(semaphore(true), "semaphore 1");
    drop(second);
    assert_eq!(semaphore(true), "semaphore 0");
    drop(input);
    child.wait().expect("it ends");
}

#[test]
fn stacks_have_the_names_of_the_functions() {
    let Some((_dir, path)) = program(&["-g", "-O0", "-fno-omit-frame-pointer"]) else { return };
    let stacks = Stacks { copy: 0, ..Stacks::BOTH };
    let Some(Probed { events, records, maps, pid }) = record(&path, &["usdt app:tick"], stacks, 20) else {
        return;
    };
    let names: Vec<&str> = events[0].fields.iter().take(2).map(|field| field.name.as_str()).collect();
    assert_eq!(names, [stack::KERNEL, stack::USER]);
    assert!(matches!(events[0].fields[0].ty, Type::Sequence(..)));
    let mut symbols = Symbols::new(Options::default());
    symbols.add_process(pid, 0, Begun::Anew, &maps);
    if let Ok(text) = collect::kallsyms() {
        symbols.set_kernel(&text);
    }
    assert_eq!(records.len(), 20);
    for record in &records {
        let user = symbols.user_stack(pid, 0, record.sequences[1].iter().copied());
        let functions: Vec<String> = user.iter().flat_map(|frame| frame.folded()).collect();
        assert!(functions.len() >= 3, "{functions:?}");
        assert_eq!(functions[..2], ["tick", "main"], "{functions:?}");
        let line = user[0].lines()[0].clone();
        assert!(line.contains("(app.c:") && line.ends_with("[app]"), "{line}");
    }
}

/// An event keeps its description whatever it is asked to carry.
#[test]
fn stacks_are_added_once() {
    let mut event = Event {
        provider: "uprobe".to_owned(),
        name: "f".to_owned(),
        fields: vec![],
        hook: mote_catalog::event::Hook::SyscallEntry(0),
    };
    stack::add(&mut event, "user".parse().expect("a kind"));
    stack::add(&mut event, Stacks::BOTH);
    let names: Vec<&str> = event.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, [stack::KERNEL, stack::USER]);
    assert!("all".parse::<Stacks>().is_err());
}
