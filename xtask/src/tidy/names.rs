//! Names of modules, types and functions: none of the words that the field has another word for.
//!
//! `GLOSSARY.md` has the words of the documents; these are the words of the code. A test is named by a sentence, which
//! may use any.

/// A word, what the field says instead, and where it may stand.
struct Word {
    word: &'static str,
    instead: &'static str,
    /// Where it is meant as it is written; or where it is still to be replaced.
    except: &'static [&'static str],
}

const fn word(word: &'static str, instead: &'static str, except: &'static [&'static str]) -> Word {
    Word { word, instead, except }
}

const WORDS: [Word; 19] = [
    word("door", "admission, or the system call that is entered", &[]),
    word("entrance", "listener", &[]),
    word("hall", "registry", &[]),
    word("desk", "control", &[]),
    word("tap", "drain", &[]),
    // pipe(2)
    word("pipe", "drain", &["lib/sys"]),
    // The flow of control.
    word("flow", "state", &["lib/jit", "lib/bpf"]),
    word("lane", "stream", &["lib/reclaim"]),
    word("fan", "multicast", &[]),
    word("fate", "decision, outcome", &["crates/record/kernel"]),
    word("scene", "program of the tests", &[]),
    word("standing", "active", &[]),
    word("told", "reported", &["crates/traced/agent", "crates/base/layout", "crates/read/timeline"]),
    // A short jump is a near one for x86.
    word(
        "near",
        "similar, nearest",
        &["lib/jit", "crates/base/clock", "crates/record/catalog", "crates/record/probes"],
    ),
    word("aside", "saved, speculated", &[]),
    // PTRACE_SEIZE
    word("seize", "attach", &["lib/sys"]),
    word("board", "shared area", &["crates/base/wire", "crates/traced/agent"]),
    // The rseq area is the kernel's own word.
    word("area", "shared memory", &["lib/sync", "crates"]),
    word("commons", "shared memory", &[]),
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
        if let Some(found) = declared(code).and_then(|declared| unwanted(name, declared)) {
            let Word { word, instead, .. } = found;
            wrong.push(format!("{name}:{} names something \"{word}\"; say {instead}", number + 1));
        }
    }
}

/// The name that a line declares.
fn declared(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace();
    words.find(|word| KEYWORDS.contains(word))?;
    words.next().and_then(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

fn unwanted(place: &str, name: &str) -> Option<&'static Word> {
    let has =
        |word: &&Word| parts(name).iter().any(|part| part == word.word || *part == format!("{}s", word.word));
    let is_bound = |word: &&Word| !word.except.iter().any(|except| place.starts_with(except));
    WORDS.iter().filter(is_bound).find(has)
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
        assert_finds(check, "lib/sys/src/a.rs", "fn pipe() {}\nfn seize() {}\nfn tap() {}\n", &[3]);
        assert_finds(check, "crates/read/view/src/a.rs", "fn pipe() {}\nfn seize() {}\n", &[1, 2]);
    }
}
