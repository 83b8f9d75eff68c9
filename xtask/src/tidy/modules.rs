//! The modules of each crate, by what they name: circles of modules that can only be read together.
//!
//! Modules below one another are looked at level by level: those at the crate's top, and those of each folder. A name
//! that a parent re-exports counts as one of the module that it comes from, so that a re-export hides no circle.

use super::paths::{self, Named};
use super::source_files;
use crate::plan::Crate;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Most modules of a circle.
const CIRCLE_MAX: usize = 3;

/// The name of the crate's root file.
const ROOT: &str = "lib";

/// What a parent has by itself: the names in its file, and those of all children that it imports with `*`.
struct Own<'m> {
    named: &'m Named,
    globs: Vec<(String, BTreeSet<String>)>,
}

/// A parent without a file.
static NOTHING: Named = Named {
    paths: Vec::new(),
    imports: Vec::new(),
    words: Vec::new(),
    declared: BTreeSet::new(),
    tests: Vec::new(),
};

/// The modules of a crate by their paths from its root, and what they name.
type Modules = BTreeMap<Vec<String>, Named>;

/// Of each module, the others that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Crates beside the plan whose modules are checked, too.
const BESIDE: [&str; 2] = ["bench", "xtask"];

/// Checks the modules of all crates.
pub(super) fn check(root: &Path, crates: &[Crate], wrong: &mut Vec<String>) -> anyhow::Result<()> {
    for folder in crates.iter().map(Crate::folder).chain(BESIDE.map(str::to_owned)) {
        let modules = modules(&root.join(&folder).join("src"))?;
        let parents: BTreeSet<&[String]> =
            modules.keys().filter_map(|path| Some(path.split_last()?.1)).collect();
        for parent in parents {
            let place = [std::slice::from_ref(&folder), parent].concat().join("/");
            level(&place, &graph(&modules, parent), wrong);
        }
    }
    Ok(())
}

/// Checks the modules of one level.
fn level(place: &str, graph: &Graph, wrong: &mut Vec<String>) {
    let largest = circles(graph).into_iter().max_by_key(BTreeSet::len).unwrap_or_default();
    let names: Vec<&str> = largest.iter().map(String::as_str).collect();
    if largest.len() > CIRCLE_MAX {
        wrong.push(format!("{place}: {} modules are a circle: {}", largest.len(), names.join(", ")));
    }
}

/// All modules that are files; tests are none, nor is the binary of a crate that has a library, which names that from
/// outside.
fn modules(src: &Path) -> anyhow::Result<Modules> {
    let has_library = src.join("lib.rs").is_file();
    let mut modules = Modules::new();
    for file in source_files(src)? {
        let inner = file.strip_prefix(src).unwrap_or(&file).with_extension("");
        let mut path: Vec<String> =
            inner.iter().filter_map(|part| part.to_str()).map(str::to_owned).collect();
        if has_library && path == ["main"] {
            continue;
        }
        path.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
        let named = paths::named(&fs::read_to_string(&file)?, &path);
        modules.insert(path, named);
    }
    let tests = modules.iter().flat_map(|(parent, named)| {
        named.tests.iter().map(move |test| [parent.as_slice(), std::slice::from_ref(test)].concat())
    });
    let tests: Vec<Vec<String>> = tests.collect();
    modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    Ok(modules)
}

/// The modules below `parent`, by what they and the modules below them name. The crate's root is one of those at the
/// top, for names that are its own; a folder's own file and those below it may name each other.
fn graph(modules: &Modules, parent: &[String]) -> Graph {
    let child_of = |path: &[String]| path.strip_prefix(parent).and_then(|rest| rest.first()).cloned();
    let children: BTreeSet<String> = modules.keys().filter_map(|path| child_of(path)).collect();
    let globs = globs(modules, parent, &children);
    let own = modules.get(parent).unwrap_or(&NOTHING);
    let own = &Own { named: own, globs };
    let mut graph: Graph = children.iter().map(|child| (child.clone(), BTreeSet::new())).collect();
    for (path, named) in modules {
        let Some(child) = child_of(path) else { continue };
        let others = named.paths.iter().filter_map(|path| path.strip_prefix(parent)?.first());
        let others = others.flat_map(|name| meaning(name, own, &children, &child_of));
        graph.entry(child.clone()).or_default().extend(others.filter(|other| *other != child));
    }
    if parent.is_empty() {
        let words = own.named.words.iter().flat_map(|word| meaning(word, own, &children, &child_of));
        graph.insert(ROOT.to_owned(), words.filter(|other| other != ROOT).collect());
    }
    graph
}

/// The modules that a name of the parent's stands for: itself, or where the parent has it from; the parent, when it is
/// its own.
fn meaning(
    name: &str,
    own: &Own<'_>,
    children: &BTreeSet<String>,
    child_of: &dyn Fn(&[String]) -> Option<String>,
) -> BTreeSet<String> {
    if children.contains(name) {
        return BTreeSet::from([name.to_owned()]);
    }
    let of = |wanted: &str| -> BTreeSet<String> {
        let imports = own.named.imports.iter().filter(|(import, _)| import == wanted);
        imports.filter_map(|(_, path)| child_of(path)).filter(|child| children.contains(child)).collect()
    };
    let found = of(name);
    if !found.is_empty() {
        return found;
    }
    let glob = own.globs.iter().find(|(_, names)| names.contains(name));
    BTreeSet::from([glob.map_or(ROOT, |(child, _)| child).to_owned()])
}

/// The children of which the parent imports all names (`pub use child::*`), and these names.
fn globs(
    modules: &Modules,
    parent: &[String],
    children: &BTreeSet<String>,
) -> Vec<(String, BTreeSet<String>)> {
    let imports = modules.get(parent).into_iter().flat_map(|named| &named.imports);
    let all = imports.filter(|(name, path)| name == "*" && path.starts_with(parent));
    let of = |path: &Vec<String>| {
        let child = path.get(parent.len()).filter(|child| children.contains(*child))?;
        let named = modules.get(path)?;
        let imported = named.imports.iter().map(|(name, _)| name);
        Some((child.clone(), named.declared.iter().chain(imported).cloned().collect()))
    };
    all.filter_map(|(_, path)| of(path)).collect()
}

/// Modules that lead to one another: those that each reaches, and that reach it.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
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

fn reach<'g>(graph: &'g Graph, from: &String) -> BTreeSet<&'g String> {
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

    fn read(files: &[(&str, &str)]) -> Modules {
        let path = |name: &str| {
            name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        files.iter().map(|(name, text)| (path(name), paths::named(text, &path(name)))).collect()
    }

    fn names(graph: &Graph, of: &str) -> Vec<String> {
        graph.get(of).into_iter().flatten().cloned().collect()
    }

    #[test]
    fn re_exports_lead_to_where_names_come_from() {
        let modules = read(&[
            ("", "mod a; mod b; mod c; pub use a::{Type, Other as Renamed}; fn own() { c::f() }"),
            ("a", ""),
            ("b", "use crate::Type; fn f() { crate::Renamed::new(); }"),
            ("c", "fn f() {}"),
            ("d", "fn f() { crate::own() }"),
        ]);
        let graph = graph(&modules, &[]);
        assert_eq!(names(&graph, "b"), ["a"]);
        assert_eq!(names(&graph, "d"), ["lib"]);
        assert_eq!(names(&graph, "lib"), ["c"]);
    }

    #[test]
    fn imports_of_all_names_lead_there_too() {
        let modules = read(&[
            ("", "mod a; mod b; pub use a::*;"),
            ("a", "pub struct Type; pub use deep::Deep; mod deep;"),
            ("a::deep", "pub struct Deep;"),
            ("b", "use crate::{Type, Deep, Own};"),
        ]);
        assert_eq!(names(&graph(&modules, &[]), "b"), ["a", "lib"]);
    }

    /// Whatever the way in which modules name one another, four of them in a circle are found, and three are not.
    #[test]
    fn a_circle_is_seeded_in_each_way() {
        let by_use = "use crate::b::{self, B};";
        let by_path = "fn f() { crate::b::f(); }";
        let by_super = "fn f() { let _: Vec<super::b::B> = super::b::all(); }";
        let by_name = "use crate::B;";
        let by_alias = "use crate::Renamed;";
        let by_glob = "fn f(_: crate::OfB) {}";
        let root = "mod a; mod b; mod c; mod d; pub use b::{B, C as Renamed}; pub use b::*;";
        for to_b in [by_use, by_path, by_super, by_name, by_alias, by_glob] {
            let found = |first: &str| {
                let modules = read(&[
                    ("", root),
                    ("a", to_b),
                    ("b", "pub struct B; pub struct OfB; use crate::c::C;"),
                    ("c", "pub struct C; use super::d;"),
                    ("d", first),
                ]);
                let mut wrong = Vec::new();
                level("lib/seeded", &graph(&modules, &[]), &mut wrong);
                wrong
            };
            assert_eq!(
                found("fn f() { crate::a::f() }"),
                ["lib/seeded: 4 modules are a circle: a, b, c, d"],
                "{to_b}"
            );
            assert_eq!(found("use crate::b::B;").len(), 0, "three are no circle: {to_b}");
        }
    }

    #[test]
    fn levels_below_are_graphs_of_their_own() {
        let modules = read(&[
            ("", "mod a; mod b;"),
            ("a", "mod x; mod y; pub(crate) use x::X;"),
            ("a::x", "use super::y::Y; use crate::b::B;"),
            ("a::y", "use super::X; use crate::a::x::deep;"),
            ("b", ""),
        ]);
        assert_eq!(names(&graph(&modules, &[]), "a"), ["b"]);
        let below = graph(&modules, &["a".to_owned()]);
        assert_eq!((names(&below, "x"), names(&below, "y")), (vec!["y".to_owned()], vec!["x".to_owned()]));
    }

    #[test]
    fn circles_are_found() {
        let arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("f", "a")];
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
            graph.entry(to.to_owned()).or_default();
        }
        let sizes: Vec<usize> = circles(&graph).iter().map(BTreeSet::len).collect();
        assert_eq!(sizes, [3, 1, 1, 1]);
    }
}
