//! Rules, stage by stage: one file of `tests/golden` is one case. It begins with the event's fields and the rules; what
//! comes out follows. `BLESS=1` writes what comes out into the files. Those whose names begin with `kernel_` are for
//! the kernel's side.

use mote_bpf::disassemble::Listing;
use mote_bpf::{Entry, Environment};
use mote_filter::{Decision, Maps, Missing, Rule, Session, Side, compile, explain};
use mote_layout::parse::parse;
use mote_layout::tracer;
use std::fmt::Write;
use std::path::Path;

/// Where helpers have their names from.
const NAMES: Environment<'static> =
    Environment { entry: Entry::Context(&[]), maps: &[], helpers: tracer::HELPERS, steps_max: 0 };

/// Splits a file's input from what came out of it.
const OUTPUT: &str = "\n== typed\n";

fn output(input: &str, side: Side) -> String {
    let (fields, rules) = input.split_once("\n== rules\n").expect("a file has fields and rules");
    let text = format!("mote1\nnet:packet_in\n6 src/main.rs:1\n\n{fields}\n");
    let event = parse(text.as_bytes()).expect("the fields are well formed");
    let rules: Result<Vec<Rule>, _> = rules.lines().map(Rule::parse).collect();
    let mut maps = Maps::new();
    let mut session = Session { side, missing: Missing::Never, declare: &mut |_| Ok(500) };
    let mut out = String::new();
    let done = rules.and_then(|rules| {
        let (typed, optimised) = explain(&rules, &event, Missing::Never, side)?;
        let _ = write!(out, "{typed}\n== optimised\n{optimised}");
        compile(&rules, &event, &mut session, &mut maps)
    });
    match done {
        Ok(Decision::Run(compiled)) => {
            compiled.warnings.iter().for_each(|warning| _ = write!(out, "\n{}\n", warning.render_warning()));
            let _ =
                write!(out, "\n== bpf\n{}", Listing { insns: &compiled.insns, environment: Some(&NAMES) });
            compiled
                .words
                .iter()
                .enumerate()
                .for_each(|(slot, word)| _ = writeln!(out, "word {slot}: {word:?}"));
        }
        Ok(other) => _ = write!(out, "\n== {other:?}\n"),
        Err(problem) => _ = writeln!(out, "{}", problem.render()),
    }
    for (at, map) in maps.entries().iter().enumerate() {
        let shape = map.shape;
        let _ = writeln!(
            out,
            "map {at}: {:?} {} -> {} bytes, {}",
            shape.kind, shape.key_bytes, shape.value_bytes, map.name
        );
    }
    out
}

#[test]
fn golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("BLESS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 15);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let of_kernel = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kernel_"));
        let side = if of_kernel { Side::Kernel } else { Side::User };
        let input = text.split(OUTPUT).next().unwrap_or_default().trim_end();
        let found = format!("{input}{OUTPUT}{}\n", output(input, side).trim_end());
        if bless {
            std::fs::write(&file, found).unwrap();
        } else {
            assert_eq!(text, found, "{}", file.display());
        }
    }
}
