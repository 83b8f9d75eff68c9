//! What documents cite as `crate::name` is there: a module at the top of the crate, or a name of its root.

use super::paths;
use crate::plan::Crate;
use std::collections::{BTreeMap, BTreeSet};

/// Of each crate, by its folder, the names that stand at its top.
pub(super) struct Declared(BTreeMap<String, BTreeSet<String>>);

impl Declared {
    /// Reads the sources, with their names from the project's root.
    pub(super) fn of(crates: &[Crate], files: &[(String, String)]) -> Declared {
        let of_crate = |one: &Crate| {
            let src = format!("{}/src/", one.folder());
            let own = files.iter().filter_map(|(name, text)| Some((name.strip_prefix(&src)?, text)));
            let names = own.flat_map(|(name, text)| names(name, text)).collect();
            (one.name.clone(), names)
        };
        Declared(crates.iter().map(of_crate).collect())
    }

    /// Checks a document.
    pub(super) fn check(&self, document: &str, text: &str, wrong: &mut Vec<String>) {
        // The page of a crate may mean a module of the crate by a name that another crate has.
        let of_page =
            document.strip_prefix("docs/soundness/").and_then(|page| self.0.get(page.strip_suffix(".md")?));
        for (number, line) in text.lines().enumerate() {
            for cited in super::promises::quoted(line) {
                let mut parts = cited.split("::");
                let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let Some(names) = self.0.get(first.strip_prefix("mote_").unwrap_or(first)) else { continue };
                let second =
                    second.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
                let is_of_page = of_page.is_some_and(|of_page| of_page.contains(first));
                if !second.is_empty() && !names.contains(second) && !is_of_page {
                    let number = number + 1;
                    wrong.push(format!("{document}:{number} cites `{cited}`, and {first} has no `{second}`"));
                }
            }
        }
    }
}

/// The module at the top of the crate that a file is in, or what the root declares or passes on; and macros for others,
/// which are names of the root wherever they are made.
fn names(file: &str, text: &str) -> Vec<String> {
    let macros = text.split("#[macro_export]").skip(1).filter_map(|made| made.split_once("macro_rules! "));
    let macros = macros.filter_map(|(_, made)| Some(made.split_whitespace().next()?.to_owned()));
    if !["lib.rs", "main.rs"].contains(&file) {
        let top = file.split('/').take(1).map(|top| top.trim_end_matches(".rs").to_owned());
        return top.chain(macros).collect();
    }
    let named = paths::named(text, &[]);
    let passed_on = named.re_exports.into_iter().map(|(name, _)| name);
    named.declared.into_iter().chain(passed_on).chain(macros).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_found() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut declared = BTreeMap::from([("ring".to_owned(), names(&["writer", "Channel"]))]);
        declared.insert("agent".to_owned(), names(&["ring"]));
        let declared = Declared(declared);
        let text = "`ring::writer`, `ring::Channel::open`\n`mote_ring::reader()`\n`std::ring` and `ring`\n";
        let mut wrong = Vec::new();
        declared.check("docs/a.md", text, &mut wrong);
        assert_eq!(wrong, ["docs/a.md:2 cites `mote_ring::reader()`, and mote_ring has no `reader`"]);
        wrong.clear();
        declared.check("docs/soundness/agent.md", "`ring::reader`", &mut wrong);
        assert!(wrong.is_empty(), "of its own module: {wrong:?}");
    }

    #[test]
    fn modules_and_items_are_known() {
        let text = "pub struct A; impl A { fn own() {} } pub use x::B; const C: u8 = 0;";
        assert_eq!(names("lib.rs", text), ["A", "C", "B"]);
        assert_eq!(names("a/b.rs", text), ["a"]);
        assert_eq!(names("a.rs", "#[macro_export]\nmacro_rules! m {}\nmacro_rules! n {}"), ["a", "m"]);
    }
}
