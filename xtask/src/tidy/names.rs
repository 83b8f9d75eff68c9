//! Names of modules, types, functions, variants and values: none of the words that the field has another word for.
//!
//! `GLOSSARY.md` has the words of the documents; these are the words of the code. A test is named by a sentence, which
//! may use any.

use super::paths::{is_word, placed_tokens};

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
        &[
            allow("lib/jit/src/plan.rs", "control flow"),
            allow("lib/bpf/src/verify/walk.rs", "control flow"),
            allow("lib/pt/src", "control flow"),
            allow("crates/read/capture/src", "control flow"),
            allow("crates/tools/cli/src/cmd/pt", "control flow"),
        ],
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
    except(
        "seize",
        "attach",
        &[
            allow("lib/sys/src/ptrace.rs", "PTRACE_SEIZE of ptrace(2)"),
            allow("crates/record/catalog/src/labels.rs", "PTRACE_SEIZE of ptrace(2)"),
        ],
    ),
    word("board", "shared area"),
    word("commons", "shared area"),
];

/// What stands before the name of an item that is declared; `as` before another name for one.
const KEYWORDS: [&str; 8] = ["mod", "struct", "enum", "union", "trait", "type", "fn", "as"];

/// Checks the names that a source file of a crate declares, and its own.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    let Some((_, inner)) = name.split_once("/src/") else { return };
    if !(name.starts_with("lib/") || name.starts_with("crates/")) {
        return;
    }
    if inner.split('/').any(|part| part.starts_with("test")) {
        return;
    }
    for (line, word) in found(text).filter(|(_, word)| word.allowance(name).is_none()) {
        let Word { word, instead, .. } = word;
        wrong.push(format!("{name}:{} names something \"{word}\"; say {instead}", line + 1));
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
            let is_needed = |text: &str| found(text).any(|(_, found)| found.word == word.word);
            if !there.any(|(_, text)| is_needed(text)) {
                let word = word.word;
                wrong.push(format!(
                    "tidy/names.rs allows \"{word}\" ({why}) in {place}, where nothing is so named"
                ));
            }
        }
    }
}

/// The words in names that a file declares, with their lines.
fn found(text: &str) -> impl Iterator<Item = (usize, &'static Word)> {
    let mut found: Vec<_> = declared(text).filter_map(|(line, name)| Some((line, found_in(name)?))).collect();
    found.dedup_by_key(|(line, word)| (*line, word.word));
    found.into_iter()
}

/// The names that a file declares, with their lines. Values are noticed wherever they are named alone, as parameters,
/// members and what patterns bind are: so some are here more than once.
fn declared(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tokens = placed_tokens(text);
    let mut place = Place::default();
    let mut names = Vec::new();
    for (at, &(line, token)) in tokens.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).map_or("", |at| tokens[at].1);
        let after = tokens.get(at + 1).map_or("", |(_, token)| *token);
        let is_item = KEYWORDS.contains(&before(1)) || (before(1) == "!" && before(2) == "macro_rules");
        let is_named_alone = ![".", "::"].contains(&before(1)) && !["(", "::", "!"].contains(&after);
        let is_value = is_named_alone && !place.is_import && !is_type(token);
        let is_variant = place.is_in_enum() && ["{", ",", "]"].contains(&before(1)) && is_type(token);
        if is_word(token) && (is_item || is_value || is_variant) {
            names.push((line, token));
        }
        place.pass(token);
    }
    names.into_iter()
}

/// Where a token stands.
#[derive(Default)]
struct Place {
    /// In a `use` item.
    is_import: bool,
    /// Behind `enum`, and before its variants.
    is_enum_next: bool,
    /// Of each bracket that is open, whether the variants of an enum are directly in it.
    brackets: Vec<bool>,
}

impl Place {
    fn pass(&mut self, token: &str) {
        match token {
            "use" => self.is_import = true,
            ";" => self.is_import = false,
            "enum" => self.is_enum_next = true,
            "{" => self.brackets.push(std::mem::take(&mut self.is_enum_next)),
            "(" | "[" => self.brackets.push(false),
            "}" | ")" | "]" => drop(self.brackets.pop()),
            _ => {}
        }
    }

    fn is_in_enum(&self) -> bool {
        self.brackets.last() == Some(&true)
    }
}

/// Whether a name is in the form of types and variants: `PutAside`, and not `put_aside` or `ASIDE`.
fn is_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
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

/// The words of a name: `put_aside`, `PutAside`, `PUT_ASIDE`.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in name.split('_') {
        parts.push(String::new());
        let is_camel = piece.contains(char::is_lowercase);
        for c in piece.chars() {
            if is_camel && c.is_uppercase() {
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
        assert_finds(check, "lib/rcu/src/a.rs", "//! The hall.\n// fn hall\nfn hallmark() {}\n\"hall\"", &[]);
    }

    #[test]
    fn values_and_variants_are_found_too() {
        let finds = |text: &str, lines: &[usize]| assert_finds(check, "lib/rcu/src/a.rs", text, lines);
        finds("struct A {\n    told: u8,\n    pub near_miss: u8,\n}", &[2, 3]);
        finds("static FATE: u8 = 0;\nconst A: u8 = 0;\nconst OPEN_DOOR: u8 = 0;", &[1, 3]);
        finds(
            "fn f(\n    told: u8,\n) {\n    let (a, mut near) = x;\n    let Some(told) = y else { return };\n}",
            &[2, 4, 5],
        );
        finds("x.map(|near| {\n    near + 1\n});\nfor told in x {}", &[1, 2, 4]);
        finds("enum A {\n    /// B.\n    #[default]\n    Near,\n    Told(u8),\n    C(Near),\n}", &[4, 5]);
        finds("enum A { B }\nfn f() -> Flow { Near::B(Flow) }", &[]);
        finds("use a::{near, B as Told};\nuse a::{\n    near,\n};", &[1]);
        finds("a.near = b.near();\na::told(c::near);\nnear(5);\nfate!();", &[]);
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
            [("lib/sys/src/ptrace.rs", "fn seize() {}\n"), ("lib/jit/src/plan.rs", "let flow = 1;\n")];
        check_allowances(files.into_iter(), &mut wrong);
        let all: usize = WORDS.iter().map(|word| word.except.len()).sum();
        assert_eq!(wrong.len(), all - files.len(), "{wrong:?}");
        assert!(
            !wrong.iter().any(|said| said.contains("ptrace.rs") || said.contains("plan.rs")),
            "{wrong:?}"
        );
    }
}
