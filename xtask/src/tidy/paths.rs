//! The paths that a Rust file names: `crate::a::b`, `super::c`, `self::d`, in `use` trees and in line, as whole paths
//! from the crate's root. Tests, comments and strings do not count.

use std::collections::BTreeSet;

/// What stands before the name of an item.
const ITEMS: [&str; 9] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];

/// What a file names, and what it gives other names by `use`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Paths of `use` items, from the crate's root.
    pub(super) uses: Vec<Vec<String>>,
    /// Of `pub use` items: names that are passed on, and their paths.
    pub(super) re_exports: Found,
    /// Paths in line that begin with `crate`, `super` or `self`.
    pub(super) inline: Vec<Vec<String>>,
    /// Other paths and words outside of `use` and `mod` items, behind the module that they stand in: what they mean
    /// depends on its imports.
    pub(super) words: BTreeSet<Vec<String>>,
    /// Of each `use`: the name that it brings into the file's own module (`*` for all names), and the path that it is
    /// of.
    pub(super) imports: Vec<(String, Vec<String>)>,
    /// Names of the types, functions and other items that the file declares, without those inside of others.
    pub(super) declared: BTreeSet<String>,
    /// Modules that are files, and that only tests are built with.
    pub(super) tests: Vec<String>,
}

/// Reads a file that is the module `module` (its path from the root, empty for the root itself).
pub(super) fn named(text: &str, module: &[String]) -> Named {
    let tokens = tokens(text);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        module: module.to_vec(),
        inner: Vec::new(),
        named: Named::default(),
    };
    reader.file();
    reader.named
}

/// Names, and the paths that they stand for.
pub(super) type Found = Vec<(String, Vec<String>)>;

struct Reader<'t> {
    tokens: &'t [String],
    at: usize,
    /// The module that is being read: the file's, and in it those in line.
    module: Vec<String>,
    /// Of each brace that is open, whether a module in line began with it.
    inner: Vec<bool>,
    named: Named,
}

impl Reader<'_> {
    fn file(&mut self) {
        while let Some(token) = self.tokens.get(self.at) {
            match token.as_str() {
                "#" if self.is_next(&["[", "cfg", "(", "test", ")", "]"]) => self.skip_item(),
                "use" => self.import(),
                "mod" if self.token(2) == "{" => {
                    self.module.push(self.token(1).to_owned());
                    self.inner.push(true);
                    self.at += 3;
                }
                "mod" => self.at += 2,
                "{" => {
                    self.inner.push(false);
                    self.at += 1;
                }
                "}" => {
                    if self.inner.pop() == Some(true) {
                        self.module.pop();
                    }
                    self.at += 1;
                }
                "crate" | "super" | "self" if self.token(1) == "::" => {
                    let mut found = Vec::new();
                    let is_visibility = self.is_before(&["pub", "(", "in"]);
                    self.tree(Vec::new(), true, &mut found);
                    if !is_visibility {
                        self.named.inline.extend(found.into_iter().map(|(_, path)| path));
                    }
                }
                word if is_word(word) && self.token(1) == "::" && self.begins_path() => {
                    let mut found = Vec::new();
                    self.tree(self.module.clone(), true, &mut found);
                    self.named.words.extend(found.into_iter().map(|(_, path)| path));
                }
                word => {
                    if is_word(word) {
                        let path = [self.module.as_slice(), &[word.to_owned()]].concat();
                        self.named.words.insert(path);
                    }
                    if ITEMS.contains(&word) && self.inner.iter().all(|is_module| *is_module) {
                        let ahead = if self.token(1) == "!" { 2 } else { 1 };
                        self.named.declared.insert(self.token(ahead).to_owned());
                    }
                    self.at += 1;
                }
            }
        }
    }

    /// Whether the word here is the first of a path that goes on.
    fn begins_path(&self) -> bool {
        !self.is_before(&["::"]) && is_word(self.token(2))
    }

    /// Whether these tokens stand before the one here.
    fn is_before(&self, tokens: &[&str]) -> bool {
        let before = self.tokens.get(..self.at).unwrap_or_default();
        before.len() >= tokens.len() && before[before.len() - tokens.len()..] == *tokens
    }

    /// A `use` item: its tree, and the names that it brings.
    fn import(&mut self) {
        // `pub use`, `pub(crate) use`
        let is_public = self.is_before(&["pub"]) || self.is_before(&[")"]);
        self.at += 1;
        let is_root = self.module.is_empty();
        let begins_here = matches!(self.token(0), "crate" | "super" | "self" | "{") || is_root;
        let here = self.inner.iter().all(|module| !module);
        // Another crate's, or that of a module below: seen from the module that the file is.
        let base = if begins_here { Vec::new() } else { self.module.clone() };
        let mut found = Vec::new();
        self.tree(base, false, &mut found);
        if is_public {
            self.named.re_exports.extend(found.iter().cloned());
        } else {
            self.named.uses.extend(found.iter().map(|(_, path)| path.clone()));
        }
        if here {
            self.named.imports.extend(found);
        }
    }

    /// A path or a tree of paths, behind `base`: the names that they bring, and the paths. In line, it ends where a
    /// type or a function's name does.
    fn tree(&mut self, base: Vec<String>, in_line: bool, found: &mut Found) {
        let mut path = base;
        let mut is_first = true;
        loop {
            match self.token(0).to_owned().as_str() {
                "{" if !in_line => return self.group(&path, found),
                "*" if !in_line => {
                    self.at += 1;
                    return found.push(("*".to_owned(), path));
                }
                "crate" if is_first => path.clear(),
                "self" if is_first && self.token(1) == "::" => path.clone_from(&self.module),
                "self" => {}
                "super" => {
                    if is_first {
                        path.clone_from(&self.module);
                    }
                    path.pop();
                }
                word if is_word(word) => path.push(word.to_owned()),
                _ => return found.push((path.last().cloned().unwrap_or_default(), path)),
            }
            is_first = false;
            self.at += 1;
            if self.token(0) == "::" && (!in_line || is_word(self.token(1))) {
                self.at += 1;
                continue;
            }
            let mut name = path.last().cloned().unwrap_or_default();
            if !in_line && self.token(0) == "as" {
                name = self.token(1).to_owned();
                self.at += 2;
            }
            return found.push((name, path));
        }
    }

    fn group(&mut self, base: &[String], found: &mut Found) {
        self.at += 1;
        while !matches!(self.token(0), "}" | "") {
            self.tree(base.to_vec(), false, found);
            if self.token(0) == "," {
                self.at += 1;
            } else if self.token(0) != "}" {
                return;
            }
        }
        self.at += 1;
    }

    /// Passes over `#[cfg(test)]` and the item behind it.
    fn skip_item(&mut self) {
        let mut depth = 0;
        self.at += 7;
        self.test_module();
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match token.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" if depth == 1 => return,
                "}" | ")" | "]" => depth -= 1,
                ";" if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// Notes a module that is a file: `mod a;`, `pub(crate) mod a;`.
    fn test_module(&mut self) {
        let visibility = match (self.token(0), self.token(1)) {
            ("pub", "(") => 4,
            ("pub", _) => 1,
            _ => 0,
        };
        if self.token(visibility) == "mod" && self.token(visibility + 2) == ";" {
            self.named.tests.push(self.token(visibility + 1).to_owned());
        }
    }

    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn is_next(&self, tokens: &[&str]) -> bool {
        tokens.iter().enumerate().all(|(at, token)| self.token(at + 1) == *token)
    }
}

pub(super) fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(text: &str) -> Vec<String> {
    placed_tokens(text).into_iter().map(|(_, token)| token.to_owned()).collect()
}

/// Words, `::` and single signs, with the lines that they are in, counted from 0; no comments, no content of strings.
pub(super) fn placed_tokens(text: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 0);
    while let Some(c) = rest.chars().next() {
        let len = match c {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => string(rest),
            'r' if rest.starts_with("r\"") || rest.starts_with("r#") => raw_string(rest),
            '\'' => character(rest),
            _ if c.is_alphanumeric() || c == '_' => {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
                tokens.push((line, &rest[..end]));
                end
            }
            _ if rest.starts_with("::") => {
                tokens.push((line, "::"));
                2
            }
            _ => {
                if !c.is_whitespace() {
                    tokens.push((line, &rest[..c.len_utf8()]));
                }
                c.len_utf8()
            }
        };
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    tokens
}

/// How long the string is that `text` begins with.
pub(super) fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// How long the raw string is that `text` begins with; of a raw name (`r#type`) its first two characters.
pub(super) fn raw_string(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    if !text[1 + hashes..].starts_with('"') {
        return 1 + hashes;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let from = hashes + 2;
    text[from..].find(&end).map_or(text.len(), |at| from + at + end.len())
}

/// A character, or the `'` of a lifetime.
pub(super) fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => chars.find(|(_, c)| *c == '\'').map_or(text.len(), |(at, _)| at + 1),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(module: &str, text: &str, expect: &[&str]) {
        let module: Vec<String> =
            module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let named = named(text, &module);
        let passed_on = named.re_exports.iter().map(|(_, path)| path);
        let all = named.uses.iter().chain(passed_on).chain(&named.inline);
        let paths: Vec<String> = all.map(|path| path.join("::")).collect();
        assert_eq!(paths, expect, "{text}");
    }

    #[test]
    fn use_trees_are_followed() {
        check("x", "use crate::a::B;", &["a::B"]);
        check("x", "use crate::{c::{D, e}, f, // crate::no\n g as h};", &["c::D", "c::e", "f", "g"]);
        check("x", "use crate::{a, super::b::*, self::c};", &["a", "b", "x::c"]);
        check(
            "x::y",
            "use super::z; use super::super::a::B; pub(crate) use self::w::V;",
            &["x::z", "a::B", "x::y::w::V"],
        );
        check("x", "use std::fmt::{self, Write};", &["x::std::fmt", "x::std::fmt::Write"]);
        check("", "pub use a::{B, c::D};", &["a::B", "a::c::D"]);
        check("x", "use crate::a::{self, B};", &["a", "a::B"]);
    }

    #[test]
    fn paths_in_line_are_followed() {
        check(
            "x",
            "fn f() { crate::a::b::f(); let _: Vec<crate::c::D<'_>> = $crate::e!(); }",
            &["a::b::f", "c::D", "e"],
        );
        check("x", "fn f() { super::a::<u8>() + self::y::f() }", &["a", "x::y::f"]);
        check(
            "x",
            "fn f() { mod y { use super::z; fn g() { super::super::a() } } super::b() }",
            &["x::z", "a", "b"],
        );
        check("x", "impl S { fn f(&self) { self.g(); } } fn h() { for i in crate::a {} }", &["a"]);
    }

    /// A visibility can only be a module that this one is in: it says who may use, and uses nothing.
    #[test]
    fn visibilities_name_nothing() {
        check("x::y", "pub(in crate::x) fn h() { crate::x::f() } pub(in super::super) struct S;", &["x::f"]);
    }

    #[test]
    fn tests_comments_and_strings_name_nothing() {
        check(
            "x",
            "// crate::a\n/* crate::b */ \"crate::c \\\" crate::d\" r#\"\" crate::e\"# '\"' crate::f",
            &["f"],
        );
        check(
            "x",
            "#[cfg(test)]\nmod tests { use crate::a; }\n#[cfg(test)]\nuse crate::b;\nuse crate::c;",
            &["c"],
        );
    }

    #[test]
    fn files_of_tests_are_known() {
        let text = "#[cfg(test)]\nmod a;\n#[cfg(test)] pub(crate) mod b;\n#[cfg(test)]\nmod c {}\nmod d;";
        assert_eq!(named(text, &[]).tests, ["a", "b"]);
    }

    #[test]
    fn imports_keep_their_names() {
        let named = named("pub use a::{B, c as d}; pub use e::*; fn main() { f::g() }", &[]);
        let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
        let expect = [("B", "a::B"), ("d", "a::c"), ("*", "e")];
        assert_eq!(named.imports, expect.map(|(name, of)| (name.to_owned(), path(of))));
        assert!(named.words.contains(&path("f::g")) && !named.words.contains(&path("B")));
    }

    #[test]
    fn what_is_passed_on_is_told_from_what_is_used() {
        let named =
            named("pub use a::B; pub(crate) use super::C; use d::E; fn f() { g::h(i) }", &["x".to_owned()]);
        let joined = |paths: &mut dyn Iterator<Item = &Vec<String>>| {
            paths.map(|path| path.join("::")).collect::<Vec<_>>()
        };
        assert_eq!(joined(&mut named.re_exports.iter().map(|(_, path)| path)), ["x::a::B", "C"]);
        assert_eq!(joined(&mut named.uses.iter()), ["x::d::E"]);
        let words = joined(&mut named.words.iter());
        assert!(words.contains(&"x::g::h".to_owned()) && words.contains(&"x::i".to_owned()), "{words:?}");
        assert_eq!(named.declared, BTreeSet::from(["f".to_owned()]));
    }
}
