//! The modules of each crate, by whom they name: circles of modules that can only be read together.

use super::source_files;
use crate::plan::Crate;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Most modules of a circle.
const CIRCLE_MAX: usize = 3;

/// Circles that are still to be broken, and how many modules each has at most: none may grow, and none may come.
const TO_BE_BROKEN: [(&str, usize); 3] =
    [("crates/record/daemon", 43), ("crates/record/filter", 10), ("lib/rcu", 5)];

/// Checks the modules of all crates.
pub(super) fn check(root: &Path, crates: &[Crate], wrong: &mut Vec<String>) -> anyhow::Result<()> {
    for one in crates {
        let folder = one.folder();
        let graph = graph(&root.join(&folder).join("src"))?;
        let allowed =
            TO_BE_BROKEN.iter().find(|(known, _)| *known == folder).map_or(CIRCLE_MAX, |(_, most)| *most);
        let largest = circles(&graph).into_iter().max_by_key(BTreeSet::len).unwrap_or_default();
        let names: Vec<&str> = largest.iter().map(String::as_str).collect();
        if largest.len() > allowed {
            wrong.push(format!("{folder}: {} modules are a circle: {}", largest.len(), names.join(", ")));
        }
        if allowed > CIRCLE_MAX && largest.len() < allowed {
            wrong.push(format!(
                "{folder}: its largest circle has {} modules by now; say so in xtask/src/tidy/modules.rs",
                largest.len()
            ));
        }
    }
    Ok(())
}

/// Of each module at the crate's top, the others that it names. A file belongs to the module whose folder it is in;
/// tests do not count.
fn graph(src: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in source_files(src)? {
        let inner = file.strip_prefix(src).unwrap_or(&file);
        let parts: Vec<&str> = inner.iter().filter_map(|part| part.to_str()).collect();
        let Some(module) = parts.first().map(|part| part.trim_end_matches(".rs")) else { continue };
        if ["lib", "main"].contains(&module) || parts.iter().any(|part| part.contains("tests")) {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        graph.entry(module.to_owned()).or_default().extend(named(&text));
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, others) in &mut graph {
        others.retain(|other| other != module && known.contains(other));
    }
    Ok(graph)
}

/// The modules at the crate's top that a file names: behind `crate::`, in `use` and in line.
fn named(text: &str) -> BTreeSet<String> {
    let own = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let code: Vec<&str> = own.lines().map(|line| line.split("//").next().unwrap_or(line)).collect();
    let code = code.join("\n");
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => names.extend(first_words(list)),
            None => names.extend(first_word(rest)),
        }
    }
    names
}

/// The first word of each item of a list `a, b::c, d::{e, f}}`.
fn first_words(list: &str) -> impl Iterator<Item = String> + use<> {
    let (mut depth, mut item, mut items) = (0, String::new(), Vec::new());
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(std::mem::take(&mut item)),
            _ => item.push(c),
        }
    }
    items.push(item);
    items.into_iter().filter_map(|item| first_word(item.trim_start()))
}

fn first_word(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}

/// Modules that lead to one another: those that each reaches, and that reach it.
fn circles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|module| (module, reach(graph, module))).collect();
    let together = |one: &String, other: &String| {
        let leads = |from: &String, to: &String| reached.get(from).is_some_and(|all| all.contains(to));
        one == other || leads(one, other) && leads(other, one)
    };
    let mut left: BTreeSet<&String> = graph.keys().collect();
    let mut circles = Vec::new();
    while let Some(first) = left.pop_first() {
        let circle: BTreeSet<&String> = left.iter().copied().filter(|other| together(first, other)).collect();
        left.retain(|other| !circle.contains(other));
        circles.push(circle.into_iter().chain([first]).cloned().collect());
    }
    circles
}

fn reach<'g>(graph: &'g BTreeMap<String, BTreeSet<String>>, from: &String) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(graph.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_where_they_are_named() {
        let text = "use crate::a::B;\nuse crate::{c::{D, e}, f, // crate::no\n  g as h};\nfn x() { crate::i::y() }\n\
                    #[cfg(test)]\nmod tests {\n use crate::z;\n}\n";
        let names: Vec<String> = named(text).into_iter().collect();
        assert_eq!(names, ["a", "c", "f", "g", "i"]);
    }

    #[test]
    fn circles_are_found() {
        let arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("f", "a")];
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in arrows {
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
            graph.entry(to.to_owned()).or_default();
        }
        let sizes: Vec<usize> = circles(&graph).iter().map(BTreeSet::len).collect();
        assert_eq!(sizes, [3, 1, 1, 1]);
    }
}
