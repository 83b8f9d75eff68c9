//! The modules of each crate, by what they name: circles of modules that can only be read together.
//!
//! They are looked at twice. All files of a crate are one graph, which shows circles that cross folders. And they are
//! looked at level by level, each folder as one: those at the crate's top, and those of each folder, with the folder's
//! own file as one of them. A name that a module re-exports counts as one of the module that it comes from, so that a
//! re-export hides no circle.

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
/// The name of a folder's own file.
const PARENT: &str = "self";

/// Most re-exports that a name is followed through.
const RE_EXPORTS_MAX: usize = 16;

/// A module's path from the crate's root.
type ModulePath = Vec<String>;

/// The modules of a crate, and what they name.
type Modules = BTreeMap<ModulePath, Named>;

/// Of each module, the others that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Folders of modules beside the plan that are checked, too.
const BESIDE: [&str; 5] =
    ["bench/src", "xtask/src", "tests/claims", "tests/support", "tests/programs/scenes"];

/// Checks the modules of all crates.
pub(super) fn check(root: &Path, crates: &[Crate], wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let of_crates = crates.iter().map(|one| format!("{}/src", one.folder()));
    for folder in of_crates.chain(BESIDE.map(str::to_owned)) {
        let modules = modules(&root.join(&folder))?;
        let arrows = arrows(&modules);
        level(&folder, &files(&arrows), wrong);
        let parents: BTreeSet<&[String]> =
            modules.keys().filter_map(|path| Some(path.split_last()?.1)).collect();
        for parent in parents {
            let place = [std::slice::from_ref(&folder), parent].concat().join("/");
            level(&place, &graph(&arrows, parent), wrong);
        }
    }
    Ok(())
}

/// Checks one graph.
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
        let mut path: ModulePath = inner.iter().filter_map(|part| part.to_str()).map(str::to_owned).collect();
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
    let tests: Vec<ModulePath> = tests.collect();
    modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    Ok(modules)
}

/// What a module names.
#[derive(Default)]
struct Arrows {
    /// The modules whose names it has.
    all: BTreeSet<ModulePath>,
    /// Those without what it only passes on to others.
    used: BTreeSet<ModulePath>,
}

/// What each module names: modules by their paths, wherever it has the names from.
fn arrows(modules: &Modules) -> BTreeMap<ModulePath, Arrows> {
    let known: BTreeSet<ModulePath> = modules.keys().flat_map(prefixes).collect();
    let names = Names { modules, known: &known };
    let of = |module: &ModulePath, named: &Named| {
        let words = named.words.iter().filter(|path| !known.contains(*path));
        let used = words.chain(&named.inline).chain(&named.uses);
        let used: BTreeSet<ModulePath> = used.map(|path| names.module_of(path, module, 0)).collect();
        let passed_on = named.re_exports.iter().map(|(_, path)| names.module_of(path, module, 0));
        Arrows { all: passed_on.chain(used.iter().cloned()).collect(), used }
    };
    modules.iter().map(|(path, named)| (path.clone(), of(path, named))).collect()
}

/// A module and those that it is in.
fn prefixes(path: &ModulePath) -> impl Iterator<Item = ModulePath> {
    (0..=path.len()).map(|len| path.iter().take(len).cloned().collect())
}

/// What names mean.
struct Names<'m> {
    modules: &'m Modules,
    /// All modules, also those that have no file of their own.
    known: &'m BTreeSet<ModulePath>,
}

impl Names<'_> {
    /// The module that a path in `here` leads to, through re-exports: the last one on the way.
    fn module_of(&self, path: &[String], here: &ModulePath, followed: usize) -> ModulePath {
        let mut module = ModulePath::new();
        for (at, name) in path.iter().enumerate() {
            let next = [module.as_slice(), std::slice::from_ref(name)].concat();
            if self.known.contains(&next) {
                module = next;
                continue;
            }
            let from = (followed < RE_EXPORTS_MAX).then(|| self.imported(&module, name, here)).flatten();
            let behind = path.get(at + 1..).unwrap_or_default();
            return match from {
                Some(from) if !path.starts_with(&from) => {
                    self.module_of(&[from.as_slice(), behind].concat(), here, followed + 1)
                }
                _ => module,
            };
        }
        module
    }

    /// What a module has a name from, if it imports it and `here` sees that: modules below see all imports, others
    /// those that are passed on.
    fn imported(&self, module: &ModulePath, name: &String, here: &ModulePath) -> Option<ModulePath> {
        let named = self.modules.get(module)?;
        let imports = if here.starts_with(module) { &named.imports } else { &named.re_exports };
        if let Some((_, path)) = imports.iter().find(|(import, _)| import == name) {
            return Some(path.clone());
        }
        if named.declared.contains(name) {
            return None;
        }
        let globs = imports.iter().filter(|(import, path)| import == "*" && path != module);
        let mut having = globs.filter(|(_, path)| self.has(path, name, module));
        having.next().map(|(_, path)| [path.as_slice(), std::slice::from_ref(name)].concat())
    }

    /// Whether a module gives a name to `here`, which imports all of its names.
    fn has(&self, module: &ModulePath, name: &String, here: &ModulePath) -> bool {
        let below = [module.as_slice(), std::slice::from_ref(name)].concat();
        let declares = |named: &Named| {
            let imports = if here.starts_with(module) { &named.imports } else { &named.re_exports };
            named.declared.contains(name) || imports.iter().any(|(import, _)| import == name)
        };
        self.known.contains(&below) || self.modules.get(module).is_some_and(declares)
    }
}

/// All files of a crate. What a file only passes on counts where the files below are its own; what it imports of a
/// folder counts where a name of it is used.
fn files(arrows: &BTreeMap<ModulePath, Arrows>) -> Graph {
    let name = |path: &ModulePath| if path.is_empty() { ROOT.to_owned() } else { path.join("/") };
    let mut graph = Graph::new();
    for (path, named) in arrows {
        let is_folder = arrows.keys().any(|other| other.len() > path.len() && other.starts_with(path));
        let named = if is_folder { &named.used } else { &named.all };
        graph.insert(name(path), named.iter().filter(|other| *other != path).map(name).collect());
    }
    graph
}

/// The modules below `parent`, by what they and the modules below them name, and the parent's own file, by what it
/// uses itself.
fn graph(arrows: &BTreeMap<ModulePath, Arrows>, parent: &[String]) -> Graph {
    let own = if parent.is_empty() { ROOT } else { PARENT };
    let node = |path: &ModulePath| {
        let below = path.strip_prefix(parent)?;
        Some(below.first().map_or(own, String::as_str).to_owned())
    };
    let mut graph = Graph::new();
    for (path, arrows) in arrows {
        let Some(from) = node(path) else { continue };
        let named = if from == own { &arrows.used } else { &arrows.all };
        let others = named.iter().filter_map(node).filter(|other| *other != from);
        let others: BTreeSet<String> = others.collect();
        graph.entry(from).or_default().extend(others);
    }
    graph
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
        let graph = graph(&arrows(&modules), &[]);
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
        assert_eq!(names(&graph(&arrows(&modules), &[]), "b"), ["a", "lib"]);
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
                level("lib/seeded", &graph(&arrows(&modules), &[]), &mut wrong);
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

    /// Levels show two folders that name each other here, and in each of them no circle: the files are five.
    #[test]
    fn circles_across_folders_are_found() {
        let found = |last: &str| {
            let modules = read(&[
                ("", "mod a; mod b; mod c;"),
                ("a", "mod x; mod y; pub(crate) use x::X;"),
                ("a::x", "use crate::b; pub struct X; fn f() { b::z::f() }"),
                ("a::y", "use crate::c::C;"),
                ("b", "pub(crate) mod z; mod w;"),
                ("b::z", "pub(crate) fn f() { super::w::f() }"),
                ("b::w", "pub(crate) fn f() { crate::a::y::f() }"),
                ("c", last),
            ]);
            let arrows = arrows(&modules);
            let (mut wrong, mut by_level) = (Vec::new(), Vec::new());
            level("lib/seeded", &files(&arrows), &mut wrong);
            level("lib/seeded", &graph(&arrows, &[]), &mut by_level);
            assert_eq!(by_level.len(), 0, "{by_level:?}");
            wrong
        };
        let circle = ["lib/seeded: 5 modules are a circle: a/x, a/y, b/w, b/z, c"];
        assert_eq!(found("use crate::a::X; pub struct C;"), circle);
        assert_eq!(found("pub struct C;").len(), 0);
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
        assert_eq!(names(&graph(&arrows(&modules), &[]), "a"), ["b"]);
        let below = graph(&arrows(&modules), &["a".to_owned()]);
        assert_eq!((names(&below, "x"), names(&below, "y")), (vec!["y".to_owned()], vec!["x".to_owned()]));
    }

    /// A folder's own file is one of the circle that it makes with the files of the folder, at each level.
    #[test]
    fn a_folders_own_file_is_in_the_circle() {
        let by_type = "use super::State; fn f(_: &State) {}";
        let by_function = "fn f() { super::own() }";
        let by_all = "use super::*; fn f(_: &State) {}";
        let through_the_root = "use crate::State; fn f(_: &State) {}";
        for to_parent in [by_type, by_function, by_all, through_the_root] {
            let found = |parent: &str, z: &str| {
                let modules = read(&[
                    ("", "mod a; pub use a::State;"),
                    ("a", parent),
                    ("a::x", to_parent),
                    ("a::y", "fn f() { super::x::f() }"),
                    ("a::z", z),
                ]);
                let mut wrong = Vec::new();
                level("lib/seeded/a", &graph(&arrows(&modules), &["a".to_owned()]), &mut wrong);
                wrong
            };
            let parent = "mod x; mod y; mod z; pub struct State; fn own() { z::f() }";
            let circle = ["lib/seeded/a: 4 modules are a circle: self, x, y, z"];
            assert_eq!(found(parent, "use super::y::f; fn g() { f() }"), circle, "{to_parent}");
            assert_eq!(found(parent, "").len(), 0, "{to_parent}");
            let by_import = "mod x; mod y; mod z; use z::f; pub struct State; fn own() { f() }";
            assert_eq!(found(by_import, "use super::y::f; fn g() { f() }"), circle, "{to_parent}");
            let passes_on = "mod x; mod y; mod z; pub use z::f; pub struct State; fn own() {}";
            assert_eq!(found(passes_on, "use super::y::f; fn g() { f() }").len(), 0, "{to_parent}");
        }
    }

    #[test]
    fn names_are_followed_through_several_modules() {
        let modules = read(&[
            ("", "mod a; mod b; pub use a::Type;"),
            ("a", "mod x; mod y; pub use x::Type; use std::fmt;"),
            ("a::x", "pub struct Type;"),
            ("a::y", "use crate::Type; use super::fmt;"),
            ("b", "fn f() { crate::Type::new() }"),
        ]);
        let arrows = arrows(&modules);
        assert_eq!(names(&graph(&arrows, &[]), "b"), ["a"]);
        assert_eq!(names(&graph(&arrows, &["a".to_owned()]), "y"), ["self", "x"]);
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
