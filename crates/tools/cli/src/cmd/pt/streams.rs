//! How streams, and threads on them, are called: for people, and in commands that show a place of one.

use super::shown::Input;
use mote_capture::{Capture, Note, Of, What};
use std::collections::HashMap;

/// Names of threads.
#[derive(Debug, Default)]
pub(super) struct Threads(HashMap<i32, String>);

impl Threads {
    /// Of all threads of a capture.
    pub(super) fn of(capture: &Capture) -> Threads {
        let mut names = HashMap::new();
        for Note { tid, what, .. } in capture.notes() {
            match what {
                What::Thread { name } => drop(names.insert(*tid, name.clone())),
                What::Exec { path } => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    names.insert(*tid, name);
                }
                _ => {}
            }
        }
        Threads(names)
    }

    /// The name of a thread.
    pub(super) fn name(&self, tid: i32) -> Option<&str> {
        self.0.get(&tid).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// `thread 4711 (app)`, `processor 0, thread 4711 (app)`.
    pub(super) fn words(&self, of: Of, tid: Option<i32>) -> String {
        let named = |tid: i32| match self.name(tid) {
            Some(name) => format!("thread {tid} ({name})"),
            None => format!("thread {tid}"),
        };
        match (of, tid) {
            (Of::Thread(tid), _) => named(tid),
            (Of::Cpu(_), Some(tid)) => format!("{of}, {}", named(tid)),
            (Of::Cpu(_), None) => of.to_string(),
        }
    }
}

/// The command that shows some instructions of a stream.
pub(super) fn flow(input: &Input, of: Of, number: u64, count: u64) -> String {
    let mut words = vec!["mote pt flow".to_owned(), quoted(&input.capture.to_string_lossy())];
    for image in &input.image {
        let path = image.path.to_string_lossy();
        let image =
            if image.address == 0 { path.into_owned() } else { format!("{:#x}:{path}", image.address) };
        words.extend(["--image".to_owned(), quoted(&image)]);
    }
    if let Some(cpu) = input.processor {
        words.push(format!("--processor {cpu}"));
    }
    words.push(match of {
        Of::Thread(tid) => format!("--tid {tid}"),
        Of::Cpu(cpu) => format!("--cpu {cpu}"),
    });
    words.push(format!("--at {number} -n {count}"));
    words.join(" ")
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_shells() {
        assert_eq!(quoted("/tmp/cap-1"), "/tmp/cap-1");
        assert_eq!(quoted("my cap"), "'my cap'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
