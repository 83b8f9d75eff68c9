//! Invariants 5 and 10 of `ARCHITECTURE.md`, as rows: what a crate may know of ours, and what stands in no file of a
//! folder.

use crate::plan::Crate;
use std::collections::BTreeSet;

/// Crates that know little, with all that they may depend on of ours. A format crate knows no ring, and the ring no
/// format: both ends know `layout`, which depends on neither.
const KNOWS: [(&str, &[&str]); 8] = [
    ("crates/base/ring", &["mote-trace-layout", "mote-trace-loss", "mote-trace-sync", "mote-trace-sys"]),
    ("crates/base/layout", &["mote-trace-bpf", "mote-trace-loss"]),
    ("crates/base/loss", &[]),
    ("crates/base/wire", &["mote-trace-bpf", "mote-trace-layout", "mote-trace-ring", "mote-trace-sys"]),
    ("crates/read/journal", &[]),
    ("crates/read/pattern", &[]),
    ("lib/ctf", &[]),
    ("lib/btf", &[]),
];

/// What stands in no source file below these folders, but for those below the exceptions.
struct Never {
    folders: &'static [&'static str],
    exceptions: &'static [&'static str],
    words: &'static [&'static str],
    says: &'static str,
}

const NEVER: [Never; 4] = [
    Never {
        folders: &["crates/base/ring/"],
        exceptions: &[],
        words: &[
            "mote_layout::context",
            "mote_layout::describe",
            "mote_layout::packet",
            "mote_layout::parse",
            "mote_layout::site",
            "mote_layout::types",
        ],
        says: "the ring does not know events or CTF (5)",
    },
    Never {
        folders: &[
            "lib/ctf/",
            "lib/btf/",
            "lib/bpf/",
            "lib/assembler/",
            "crates/base/layout/",
            "crates/base/wire/",
            "crates/read/journal/",
            "crates/read/pattern/",
        ],
        exceptions: &[],
        words: &["std::fs", "fs::", "std::net", "std::env", "fd::open", "OpenOptions", "::File::open"],
        says: "no format crate opens a file (10)",
    },
    Never {
        folders: &["lib/", "crates/"],
        exceptions: &["crates/record/daemon/", "crates/traced/agent/src/control.rs", "lib/sys/"],
        words: &["wait_any", "pollfd", "libc::epoll_", "sys::epoll", "nix::poll", "mio::", "tokio::"],
        says: "only `daemon` runs an event loop, and the agent's thread waits (10)",
    },
    Never {
        folders: &["lib/", "crates/"],
        exceptions: &["crates/tools/cli/", "lib/conform/src/main.rs"],
        words: &["clap::", "env::args"],
        says: "only `cli` knows flags (10)",
    },
];

/// Names the crates that know more than they may.
pub(super) fn check_crates(crates: &[Crate], wrong: &mut Vec<String>) {
    for (folder, may) in KNOWS {
        let Some(one) = crates.iter().find(|one| one.folder() == folder) else {
            wrong.push(format!("{folder} is named in tidy/invariants.rs, and there is no such crate"));
            continue;
        };
        let may: BTreeSet<String> = may.iter().map(ToString::to_string).collect();
        for dependency in one.dependencies.difference(&may) {
            wrong.push(format!(
                "{folder} depends on {dependency}, of which it knows nothing (invariants 5, 10)"
            ));
        }
    }
}

/// Names what must not stand in a file. Tests and examples may do what they like.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    if !name.contains("/src/") {
        return;
    }
    for Never { folders, exceptions, words, says } in &NEVER {
        let is_below = |all: &[&str]| all.iter().any(|folder| name.starts_with(folder));
        if !is_below(folders) || is_below(exceptions) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            if let Some(word) = words.iter().find(|word| has(code, word)) {
                wrong.push(format!("{name}:{} has {word}; {says}", number + 1));
            }
        }
    }
}

/// Whether a line has a word that is not the end of a longer one.
fn has(code: &str, word: &str) -> bool {
    let begins = |at: usize| {
        let before = code.get(..at).and_then(|before| before.chars().next_back());
        word.starts_with(':') || before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
    };
    code.match_indices(word).any(|(at, _)| begins(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    #[test]
    fn the_ring_knows_no_events() {
        let text = "//! mote_layout::types\nuse mote_layout::record;\nuse mote_layout::types::Scalar;\n";
        assert_finds(check, "crates/base/ring/src/writer.rs", text, &[3]);
        assert_finds(check, "crates/base/wire/src/bundle.rs", text, &[]);
        assert_finds(check, "crates/base/ring/tests/writer.rs", text, &[]);
    }

    #[test]
    fn formats_open_no_files() {
        let text = "use std::fs;\nfn f() {\n    let _ = offs::f();\n    let _ = fs::read(\"x\");\n}\n";
        assert_finds(check, "lib/ctf/src/read/mod.rs", text, &[1, 4]);
        assert_finds(check, "crates/read/timeline/src/storage.rs", text, &[]);
        assert_finds(check, "lib/ctf/examples/ctf_text.rs", text, &[]);
    }

    #[test]
    fn one_crate_has_the_loop_and_one_the_flags() {
        let text = "use clap::Args;\nfn f() {\n    socket::wait_any(&mut polled, 5);\n}\n";
        assert_finds(check, "crates/record/session/src/session.rs", text, &[3, 1]);
        assert_finds(check, "crates/record/daemon/src/recording.rs", text, &[1]);
        assert_finds(check, "crates/tools/cli/src/cmd/record.rs", text, &[3]);
        assert_finds(check, "bench/src/main.rs", text, &[]);
    }

    #[test]
    fn crates_know_what_the_rows_say() {
        let crates = crate::plan::crates(&crate::workspace::root()).expect("cargo");
        let mut wrong = Vec::new();
        check_crates(&crates, &mut wrong);
        assert!(wrong.is_empty(), "{wrong:?}");
        let mut ring = crates.into_iter().find(|one| one.name == "ring").expect("it is there");
        ring.dependencies.insert("mote-trace-ctf".to_owned());
        check_crates(&[ring], &mut wrong);
        assert!(
            wrong.iter().any(|said| said.contains("crates/base/ring depends on mote-trace-ctf")),
            "{wrong:?}"
        );
    }
}
