//! Names of modules, types and functions: none of the words that the field has another word for.
//!
//! `GLOSSARY.md` has the words of the documents; these are the words of the code. A test is named by a sentence, which
//! may use any.

/// A word, what the field says instead, and where it may stand.
struct Word {
    word: &'static str,
    instead: &'static str,
    except: &'static [Allowance],
}

/// A place where a word is meant as it is written, and why. `tidy` finds those that no name needs.
struct Allowance {
    place: &'static str,
    why: &'static str,
}

const fn word(word: &'static str, instead: &'static str) -> Word {
    Word { word, instead, except: &[] }
}

const fn except(word: &'static str, instead: &'static str, except: &'static [Allowance]) -> Word {
    Word { word, instead, except }
}

const fn allow(place: &'static str, why: &'static str) -> Allowance {
    Allowance { place, why }
}

const WORDS: [Word; 18] = [
    word("door", "admission, or the system call that is entered"),
    word("entrance", "listener"),
    word("hall", "registry"),
    word("desk", "control"),
    word("tap", "drain"),
    word("pipe", "drain"),
    except(
        "flow",
        "state",
        &[allow("lib/jit/src/plan.rs", "control flow"), allow("lib/bpf/src/verify/walk.rs", "control flow")],
    ),
    except(
        "lane",
        "stream",
        &[allow("lib/reclaim/src/worker.rs", "a queue of callbacks and its worker thread")],
    ),
    word("fan", "multicast"),
    word("fate", "decision, outcome"),
    word("scene", "program of the tests"),
    word("standing", "active"),
    word("told", "reported"),
    except("near", "similar, nearest", &[allow("lib/jit/src/arch/x86_64", "a near jump of x86")]),
    word("aside", "saved, speculated"),
    except("seize", "attach", &[allow("lib/sys/src/ptrace.rs", "PTRACE_SEIZE of ptrace(2)")]),
    word("board", "shared area"),
    word("commons", "shared area"),
];

/// What stands before a name that is declared.
const KEYWORDS: [&str; 8] = ["mod", "struct", "enum", "union", "trait", "type", "fn", "macro_rules!"];

/// Checks the names that a source file of a crate declares, and its own.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    let Some((_, inner)) = name.split_once("/src/") else { return };
    if !(name.starts_with("lib/") || name.starts_with("crates/")) {
        return;
    }
    if inner.split('/').any(|part| part.starts_with("test")) {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        let found = declared(code).and_then(found_in).filter(|word| word.allowance(name).is_none());
        if let Some(Word { word, instead, .. }) = found {
            wrong.push(format!("{name}:{} names something \"{word}\"; say {instead}", number + 1));
        }
    }
}

/// Checks that some name needs each allowance. `files` are names and texts of the source files.
pub(super) fn check_allowances<'f>(
    files: impl Iterator<Item = (&'f str, &'f str)> + Clone,
    wrong: &mut Vec<String>,
) {
    for word in &WORDS {
        for Allowance { place, why } in word.except {
            let mut there = files.clone().filter(|(name, _)| name.starts_with(place));
            let is_needed = |text: &str| {
                let codes = text.lines().map(|line| line.split("//").next().unwrap_or(line));
                codes.filter_map(declared).filter_map(found_in).any(|found| found.word == word.word)
            };
            if !there.any(|(_, text)| is_needed(text)) {
                let word = word.word;
                wrong.push(format!(
                    "tidy/names.rs allows \"{word}\" ({why}) in {place}, where nothing is so named"
                ));
            }
        }
    }
}

/// The name that a line declares.
fn declared(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace();
    words.find(|word| KEYWORDS.contains(word))?;
    words.next().and_then(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

/// The first of the words that a name has in it, also in the plural.
fn found_in(name: &str) -> Option<&'static Word> {
    let has =
        |word: &&Word| parts(name).iter().any(|part| part == word.word || *part == format!("{}s", word.word));
    WORDS.iter().find(has)
}

impl Word {
    /// Why it may stand in a file.
    fn allowance(&self, file: &str) -> Option<&'static Allowance> {
        self.except.iter().find(|allowed| file.starts_with(allowed.place))
    }
}

/// The words of a name: `put_aside`, `PutAside`.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in name.split('_') {
        parts.push(String::new());
        for c in piece.chars() {
            if c.is_uppercase() {
                parts.push(String::new());
            }
            if let Some(part) = parts.last_mut() {
                part.extend(c.to_lowercase());
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    #[test]
    fn words_of_names_are_found() {
        let text =
            "mod hall;\npub(crate) struct SlowLane<'a> {\n    fn open_doors(&self) {}\n}\nenum Whole {}\n";
        assert_finds(check, "crates/read/view/src/a.rs", text, &[1, 2, 3]);
        assert_finds(check, "crates/read/view/tests/a.rs", text, &[]);
        assert_finds(check, "crates/read/view/src/tests/a.rs", text, &[]);
        assert_finds(check, "bench/src/a.rs", text, &[]);
        assert_finds(
            check,
            "lib/rcu/src/a.rs",
            "//! The hall.\nlet hall = 1; // fn hall\nfn hallmark() {}\n",
            &[],
        );
    }

    #[test]
    fn some_words_are_meant() {
        assert_finds(check, "lib/sys/src/ptrace.rs", "fn seize() {}\nfn tap() {}\n", &[2]);
        assert_finds(check, "crates/read/view/src/a.rs", "fn pipe() {}\nfn seize() {}\n", &[1, 2]);
    }

    #[test]
    fn an_allowance_that_no_name_needs_is_found() {
        let mut wrong = Vec::new();
        let files =
            [("lib/sys/src/ptrace.rs", "fn seize() {}\n"), ("lib/jit/src/plan.rs", "fn flows() {}\n")];
        check_allowances(files.into_iter(), &mut wrong);
        let all: usize = WORDS.iter().map(|word| word.except.len()).sum();
        assert_eq!(wrong.len(), all - files.len(), "{wrong:?}");
        assert!(!wrong.iter().any(|said| said.contains("seize") || said.contains("plan.rs")), "{wrong:?}");
    }
}
