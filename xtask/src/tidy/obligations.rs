//! What `SAFETY` comments rest on has a name, and says somewhere what it means.
//!
//! A name is of small letters with hyphens: `ring-never-unmapped`. Comments cite it in backquotes. It is defined in the
//! documentation of a crate, as a line that begins with it, or as a row of a table; or in bold in `docs/soundness`.

use std::collections::{BTreeMap, BTreeSet};

/// The names of all crates.
#[derive(Debug, Default)]
pub(super) struct Obligations {
    /// Where each name is cited first.
    cited: BTreeMap<String, String>,
    defined: BTreeSet<String>,
    /// What is cited by number, with its place.
    numbered: Vec<String>,
}

impl Obligations {
    /// Collects the obligations that a Rust file states and cites.
    pub(super) fn code(&mut self, name: &str, text: &str) {
        let mut argues = false;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let Some(comment) = line.strip_prefix("//") else {
                argues = false;
                continue;
            };
            if let Some(letter) = by_letter(comment) {
                self.numbered.push(format!("{name}:{} cites {letter}", at + 1));
            }
            if let Some(documentation) = comment.strip_prefix(['/', '!']) {
                argues = false;
                self.documentation(documentation.trim());
                continue;
            }
            argues |= comment.contains("SAFETY:");
            if let Some(number) = by_number(comment).filter(|_| argues) {
                self.numbered.push(format!("{name}:{} cites {number}", at + 1));
            }
            for cited in names(comment).filter(|_| argues) {
                let place = format!("{name}:{}", at + 1);
                self.cited.entry(cited.to_owned()).or_insert(place);
            }
        }
    }

    /// Reads a page of `docs/soundness`.
    pub(super) fn page(&mut self, text: &str) {
        let bold = text.split("**").skip(1).step_by(2).filter(|bold| is_name(bold));
        self.defined.extend(bold.map(str::to_owned));
    }

    fn documentation(&mut self, line: &str) {
        let row = line.strip_prefix("| ").unwrap_or(line);
        let defined = row.strip_prefix('`').and_then(|row| row.split_once('`')).filter(|(name, behind)| {
            is_name(name) && if row == line { behind.starts_with(':') } else { behind.starts_with(" |") }
        });
        self.defined.extend(defined.map(|(name, _)| name.to_owned()));
    }

    /// Names what is cited and never defined, and what has no name.
    pub(super) fn check(&self, wrong: &mut Vec<String>) {
        let named = |cited: &String| format!("{cited}; give it a name (CONTRIBUTING.md says how)");
        wrong.extend(self.numbered.iter().map(named));
        let unknown = self.cited.iter().filter(|(name, _)| !self.defined.contains(*name));
        wrong.extend(unknown.map(|(name, place)| {
            format!("{place} cites `{name}`, which is defined nowhere (CONTRIBUTING.md says where)")
        }));
    }
}

/// The names in backquotes of a comment.
fn names(comment: &str) -> impl Iterator<Item = &str> {
    comment.split('`').skip(1).step_by(2).filter(|quoted| is_name(quoted))
}

/// An obligation that has a letter and a number instead of a name, as the third of those called `ring-I`.
fn by_letter(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
    words.find(|word| word.split_once("-I").is_some_and(|(_, number)| begins_with_digit(number)))
}

/// What a comment rests on that is one of a list, by its number: `rule 2`.
fn by_number(comment: &str) -> Option<String> {
    let words: Vec<&str> = comment.split(|c: char| !c.is_alphanumeric()).collect();
    let pair =
        words.windows(2).find(|pair| matches!(pair[0], "rule" | "rules") && begins_with_digit(pair[1]));
    pair.map(|pair| pair.join(" "))
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Words of small letters and digits with hyphens between them.
fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.contains('-') && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.split('-').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn unknown(files: &[&str], pages: &[&str], expect: &[&str]) {
        let mut all = Obligations::default();
        files.iter().for_each(|text| all.code("a.rs", text));
        pages.iter().for_each(|text| all.page(text));
        let mut wrong = Vec::new();
        all.check(&mut wrong);
        let said = |(said, name): (&String, &&str)| said.contains(&format!("`{name}`"));
        assert!(wrong.len() == expect.len() && wrong.iter().zip(expect).all(said), "{wrong:?}");
    }

    #[test]
    fn what_is_cited_is_defined() {
        let cites =
            "// SAFETY: `ring-mapped`, and\n// `site-held`; see `not_one`, `x - y`.\nf();\n// `no-safety`\n";
        unknown(&[cites], &[], &["ring-mapped", "site-held"]);
        unknown(&[cites, "/// # Invariants\n/// `ring-mapped`: it is.\n"], &["**site-held** It is.\n"], &[]);
        unknown(
            &[cites, "//! | `ring-mapped` | it is |\n//! `site-held` is told of.\n"],
            &[],
            &["site-held"],
        );
    }

    #[test]
    fn what_is_cited_by_number_is_found() {
        let mut all = Obligations::default();
        let text = "// SAFETY: Ring-I3.\nf();\n// SAFETY: mapped,\n// and rule 2 makes it ours.\nf();\n";
        all.code("a.rs", text);
        all.code("b.rs", "// By rule 2.\nf();\n// SAFETY: MAX-I, the rule, 1.\n");
        all.code("c.rs", "/// tracing-I1: it is there.\n");
        let mut wrong = Vec::new();
        all.check(&mut wrong);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("a.rs:1 cites Ring-I3;"), "{wrong:?}");
        assert!(wrong[1].starts_with("a.rs:4 cites rule 2;"), "{wrong:?}");
        assert!(wrong[2].starts_with("c.rs:1 cites tracing-I1;"), "{wrong:?}");
    }
}
