//! The plan of the house: the folders that group the crates, what may know what, and which crates run in traced
//! processes.

use crate::workspace::cargo;
use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders, and those that the crates of each may depend on beside its own.
pub(crate) const GROUPS: [(&str, &[&str]); 6] = [
    ("lib", &[]),
    ("crates/base", &["lib"]),
    ("crates/traced", &["lib", "crates/base"]),
    ("crates/read", &["lib", "crates/base"]),
    ("crates/record", &["lib", "crates/base", "crates/read"]),
    ("crates/tools", &["lib", "crates/base", "crates/read", "crates/record", "crates/traced"]),
];

/// The folders whose crates run in traced processes, with all that they depend on.
const TRACED: [&str; 2] = ["crates/base", "crates/traced"];

/// A crate in one of the folders.
#[derive(Debug)]
pub(crate) struct Crate {
    /// The folder that it is in.
    pub(crate) group: String,
    /// The name of its own folder.
    pub(crate) name: String,
    /// Its name for cargo.
    pub(crate) package: String,
    /// The packages of ours that it depends on, but for its tests.
    pub(crate) dependencies: BTreeSet<String>,
    /// Those that its tests and examples depend on beside these.
    dependencies_of_tests: BTreeSet<String>,
    /// Of all these, those that are named without a version: cargo leaves them out of the package, for tests.
    without_version: BTreeSet<String>,
    /// It is meant for the public registry.
    pub(crate) is_published: bool,
}

impl Crate {
    /// Where it is, from the project's root.
    pub(crate) fn folder(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// All crates in the folders, as cargo knows them.
///
/// # Errors
/// Cargo fails.
pub(crate) fn crates(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let mut command = cargo();
    let output = command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root).output();
    let output = output.context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    Ok(packages.iter().filter_map(|package| of_package(root, package)).collect())
}

/// The version of all packages of ours.
///
/// # Errors
/// The workspace's manifest does not say it.
pub(crate) fn version(root: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let (_, package) =
        text.split_once("[workspace.package]").context("Cargo.toml has no [workspace.package]")?;
    let version = package.lines().find_map(|line| line.strip_prefix("version = \""));
    Ok(version.context("the workspace has no version")?.trim_end_matches('"').to_owned())
}

fn of_package(root: &Path, package: &Value) -> Option<Crate> {
    let folder = PathBuf::from(package["manifest_path"].as_str()?).parent()?.to_owned();
    let folder = folder.strip_prefix(root).ok()?.to_owned();
    let group = folder.parent()?.to_str()?.to_owned();
    let is_ours = GROUPS.iter().any(|(known, _)| *known == group);
    // Those of tests are of the kind "dev"; ours have a path.
    let ours = package["dependencies"].as_array()?.iter().filter(|one| one["path"].is_string());
    // Without a version any would do.
    let without_version = ours.clone().filter(|one| one["req"] == "*").collect();
    let (of_tests, others): (Vec<&Value>, Vec<&Value>) = ours.partition(|one| one["kind"] == "dev");
    let names =
        |list: Vec<&Value>| list.iter().filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect();
    is_ours.then_some(Crate {
        group,
        name: folder.file_name()?.to_str()?.to_owned(),
        package: package["name"].as_str()?.to_owned(),
        dependencies: names(others),
        dependencies_of_tests: names(of_tests),
        without_version: names(without_version),
        // A list of registries; null stands for any.
        is_published: package["publish"].is_null(),
    })
}

/// The packages that run in traced processes.
pub(crate) fn traced(crates: &[Crate]) -> BTreeSet<String> {
    let known: BTreeMap<&str, &Crate> = crates.iter().map(|one| (one.package.as_str(), one)).collect();
    let first = crates.iter().filter(|one| TRACED.contains(&one.group.as_str()));
    let mut open: Vec<&str> = first.map(|one| one.package.as_str()).collect();
    let mut traced = BTreeSet::new();
    while let Some(package) = open.pop() {
        if traced.insert(package.to_owned()) {
            let dependencies = known.get(package).into_iter().flat_map(|one| &one.dependencies);
            open.extend(dependencies.map(String::as_str));
        }
    }
    traced
}

/// What depends on what it must not know. Tests may know no more than the code beside them.
pub(crate) fn arrows_that_climb(crates: &[Crate]) -> Vec<String> {
    let group_of: BTreeMap<&str, &str> =
        crates.iter().map(|one| (one.package.as_str(), one.group.as_str())).collect();
    let mut wrong = Vec::new();
    for one in crates {
        let may = GROUPS.iter().find(|(group, _)| *group == one.group).map_or(&[][..], |(_, may)| may);
        let of_code = one.dependencies.iter().map(|dependency| ("depends", dependency));
        let of_tests =
            one.dependencies_of_tests.iter().map(|dependency| ("depends for its tests", dependency));
        for (depends, dependency) in of_code.chain(of_tests) {
            let group = group_of.get(dependency.as_str()).copied().unwrap_or("");
            if group != one.group && !may.contains(&group) {
                wrong.push(format!(
                    "{} {depends} on {dependency} in {group}, of which {} knows nothing",
                    one.folder(),
                    one.group
                ));
            }
        }
    }
    wrong
}

/// What cargo would not publish: a crate that is published, and names one of ours that is not, or without a version.
/// The packages themselves are built by `cargo xtask package`.
pub(crate) fn not_to_be_packaged(crates: &[Crate]) -> Vec<String> {
    let published: BTreeSet<&str> =
        crates.iter().filter(|one| one.is_published).map(|one| one.package.as_str()).collect();
    let mut wrong = Vec::new();
    for one in crates.iter().filter(|one| one.is_published) {
        let has_version = |name: &&String| !one.without_version.contains(*name);
        let folder = one.folder();
        for name in one.dependencies.iter().filter(|name| !has_version(name)) {
            wrong.push(format!("{folder} is published, and depends on {name} without a version"));
        }
        let of_tests = one.dependencies_of_tests.iter().filter(has_version);
        for name in one.dependencies.iter().chain(of_tests).filter(|name| !published.contains(name.as_str()))
        {
            wrong.push(format!("{folder} is published, and depends on {name}, which is not"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(group: &str, name: &str, dependencies: &[&str]) -> Crate {
        let dependencies = dependencies.iter().map(ToString::to_string).collect();
        Crate {
            group: group.to_owned(),
            name: name.to_owned(),
            package: format!("mote-{name}"),
            dependencies,
            dependencies_of_tests: BTreeSet::new(),
            without_version: BTreeSet::new(),
            is_published: true,
        }
    }

    #[test]
    fn arrows_go_where_the_plan_says() {
        let crates = [
            one("lib", "sys", &["mote-ring"]),
            one("crates/base", "ring", &["mote-sys"]),
            one("crates/traced", "agent", &["mote-ring", "mote-daemon"]),
            one("crates/record", "daemon", &["mote-ring", "mote-view", "mote-agent"]),
            one("crates/read", "view", &["mote-ring"]),
            one("crates/tools", "cli", &["mote-agent", "mote-daemon", "serde"]),
        ];
        let wrong = arrows_that_climb(&crates);
        let climbing = ["lib/sys", "crates/traced/agent", "crates/record/daemon"];
        assert_eq!(wrong.len(), climbing.len() + 1, "{wrong:?}");
        assert!(wrong.iter().zip(climbing).all(|(said, folder)| said.starts_with(folder)), "{wrong:?}");
    }

    #[test]
    fn tests_know_no_more_than_the_code_beside_them() {
        let of_tests = |group, name, dependency: &str| Crate {
            dependencies_of_tests: [dependency.to_owned()].into(),
            ..one(group, name, &[])
        };
        let crates = [
            of_tests("lib", "sys", "mote-ring"),
            of_tests("crates/base", "ring", "mote-sys"),
            of_tests("crates/record", "daemon", "mote-agent"),
            of_tests("crates/traced", "agent", "mote-ring"),
        ];
        let wrong = arrows_that_climb(&crates);
        let climbing = ["lib/sys depends for its tests", "crates/record/daemon depends for its tests"];
        assert_eq!(wrong.len(), climbing.len(), "{wrong:?}");
        assert!(wrong.iter().zip(climbing).all(|(said, begin)| said.starts_with(begin)), "{wrong:?}");
        assert!(traced(&crates).contains("mote-ring") && !traced(&crates).contains("mote-sys"));
    }

    #[test]
    fn what_traced_processes_need_runs_in_them() {
        let crates = [
            one("lib", "sys", &[]),
            one("lib", "ctf", &[]),
            one("crates/base", "ring", &["mote-sys"]),
            one("crates/read", "view", &["mote-ctf"]),
        ];
        assert_eq!(traced(&crates), ["mote-ring", "mote-sys"].map(str::to_owned).into());
    }

    #[test]
    fn published_crates_name_what_is_published() {
        let skip = || BTreeSet::from(["mote-skip".to_owned()]);
        let of_tests = |without_version| Crate {
            dependencies_of_tests: skip(),
            without_version,
            ..one("lib", "btf", &["mote-sys"])
        };
        let hidden = Crate { is_published: false, ..one("lib", "skip", &[]) };
        let sys = || one("lib", "sys", &[]);
        assert_eq!(not_to_be_packaged(&[sys(), hidden, of_tests(skip())]).len(), 0);
        let hidden = Crate { is_published: false, ..one("lib", "skip", &[]) };
        let wrong = not_to_be_packaged(&[sys(), hidden, of_tests(BTreeSet::new())]);
        assert_eq!(wrong, ["lib/btf is published, and depends on mote-skip, which is not"]);
        let without = Crate { without_version: ["mote-sys".to_owned()].into(), ..of_tests(BTreeSet::new()) };
        let wrong = not_to_be_packaged(&[sys(), one("lib", "skip", &[]), without]);
        assert_eq!(wrong, ["lib/btf is published, and depends on mote-sys without a version"]);
    }

    #[test]
    fn the_crates_are_found() {
        let crates = crates(&crate::workspace::root()).expect("cargo");
        let groups: BTreeSet<&str> = crates.iter().map(|one| one.group.as_str()).collect();
        assert_eq!(groups.len(), GROUPS.len(), "{groups:?}");
    }
}
