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
}

impl Obligations {
    /// Collects the obligations that a Rust file states and cites.
    pub(super) fn code(&mut self, name: &str, text: &str) {
        let mut argues = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let Some(comment) = line.strip_prefix("//") else {
                argues = false;
                continue;
            };
            if let Some(documentation) = comment.strip_prefix(['/', '!']) {
                argues = false;
                self.documentation(documentation.trim());
                continue;
            }
            argues |= comment.contains("SAFETY:");
            for cited in names(comment).filter(|_| argues) {
                let place = format!("{name}:{}", number + 1);
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

    /// Names what is cited and never defined.
    pub(super) fn check(&self, wrong: &mut Vec<String>) {
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
}
