//! `cargo xtask install --prefix DIR`: puts mote where programs of the system lie: the command with its manual pages
//! and completions, and what C and C++ programs need, which pkg-config(1) finds.

use crate::run::Counts;
use crate::workspace::cargo;
use crate::{plan, tools};
use anyhow::{Context, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of the build and of the source, and where each goes below the prefix, with its mode.
const FILES: [(&str, &str, u32); 4] = [
    ("target/release/mote", "bin/mote", 0o755),
    ("target/library/libmote.so", "lib/libmote.so", 0o755),
    ("target/library/libmote.a", "lib/libmote.a", 0o644),
    ("crates/traced/capi/include/mote.h", "include/mote.h", 0o644),
];

const PKG_CONFIG: &str = "lib/pkgconfig/mote.pc";

/// Does what the words after `install` ask for.
///
/// # Errors
/// Words that are not understood; something cannot be built or written.
pub(crate) fn chore(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let prefix = match words {
        ["--prefix", prefix] => *prefix,
        [word] => word.strip_prefix("--prefix=").context(USAGE)?,
        _ => bail!(USAGE),
    };
    let prefix = std::path::absolute(prefix).with_context(|| format!("`{prefix}` is no directory"))?;
    // Packagers have the files elsewhere than where they will lie in the end, as make(1) has it.
    let stage = std::env::var_os("DESTDIR").map(PathBuf::from);
    install(root, &prefix, stage.as_deref())?;
    println!("mote was installed below {}", prefix.display());
    if stage.is_none() {
        let lib = prefix.join("lib");
        println!("programs find libmote.so after `ldconfig`, or with LD_LIBRARY_PATH={}", lib.display());
    }
    Ok(())
}

const USAGE: &str = "say where: cargo xtask install --prefix /usr/local (with DESTDIR=DIR, below DIR)";

/// Builds mote, and puts its files below `prefix`, or below `stage` as if that were the root directory.
fn install(root: &Path, prefix: &Path, stage: Option<&Path>) -> anyhow::Result<()> {
    for (package, profile) in [("mote-cli", "release"), ("mote-capi", "library")] {
        let mut command = cargo();
        command.args(["build", "--profile", profile, "-p", package]).current_dir(root);
        if !command.status().context("cannot start cargo")?.success() {
            bail!("{package} cannot be built");
        }
    }
    let below = match stage {
        Some(stage) => stage.join(prefix.strip_prefix("/").unwrap_or(prefix)),
        None => prefix.to_owned(),
    };
    for (from, to, mode) in FILES {
        let to = below.join(to);
        make_room(&to)?;
        let copied = fs::copy(root.join(from), &to).map(|_| ());
        let copied = copied.and_then(|()| fs::set_permissions(&to, fs::Permissions::from_mode(mode)));
        copied.with_context(|| format!("cannot write {}", to.display()))?;
    }
    let text = fs::read_to_string(root.join("crates/traced/capi/mote.pc.in")).context("mote.pc.in")?;
    let to = below.join(PKG_CONFIG);
    make_room(&to)?;
    fs::write(&to, pkg_config(&text, prefix, &plan::version(root)?))
        .with_context(|| format!("cannot write {}", to.display()))?;
    let mut pages = Command::new(below.join("bin/mote"));
    output(pages.arg("__generate").arg(below.join("share")))?;
    Ok(())
}

/// Makes the folder of a file, and takes away what lies in its place: a program that runs keeps its own.
fn make_room(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _ = fs::remove_file(file);
    Ok(())
}

fn pkg_config(template: &str, prefix: &Path, version: &str) -> String {
    let lines = template.lines().filter(|line| !line.starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    text.replace("@PREFIX@", &prefix.to_string_lossy()).replace("@VERSION@", version)
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program for the installed library, in C.
const PROGRAM: &str = r#"#include <mote.h>
int main(void) {
    for (unsigned i = 0; i < 100; i++)
        mote_event(app, step, MOTE_INFO, "a step", mote_u32(number, i));
    return 0;
}
"#;

/// Installs mote into a directory, and uses it as its users would: compiles a program by what pkg-config says, records
/// it, looks at the events; reads each verb's manual page, and the completions.
///
/// # Errors
/// What does not work.
pub(crate) fn check(root: &Path, counts: &mut Counts) -> anyhow::Result<()> {
    let prefix = root.join("target/prefix");
    let _ = fs::remove_dir_all(&prefix);
    install(root, &prefix, None)?;
    c_program_is_recorded(&prefix)?;
    verbs_have_pages(&prefix, counts)?;
    completions_are_understood(&prefix, counts)?;
    fs::remove_dir_all(&prefix)?;
    counts.note("test result: ok. 3 passed; 0 failed");
    Ok(())
}

fn c_program_is_recorded(prefix: &Path) -> anyhow::Result<()> {
    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "mote"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = output(&mut flags)?;
    let (source, program, recording) = (prefix.join("app.c"), prefix.join("app"), prefix.join("recording"));
    fs::write(&source, PROGRAM)?;
    let mut compiler = Command::new("cc");
    output(compiler.arg(&source).args(flags.split_whitespace()).arg("-o").arg(&program))?;
    let mote = prefix.join("bin/mote");
    let mut record = Command::new(&mote);
    record.args(["record", "--output"]).arg(&recording).arg("--").arg(&program);
    output(record.env("LD_LIBRARY_PATH", prefix.join("lib")))?;
    let shown = output(Command::new(&mote).arg("view").arg(&recording))?;
    let steps = shown.lines().filter(|line| line.contains("app:step")).count();
    if steps != 100 {
        bail!("the installed `mote` shows {steps} of 100 events of the program in C");
    }
    println!("a program in C was compiled by what pkg-config says; its 100 events were recorded and shown");
    Ok(())
}

/// Each verb that `mote --help` names has a page, as each below it has, which groff understands without a warning.
fn verbs_have_pages(prefix: &Path, counts: &mut Counts) -> anyhow::Result<()> {
    let help = output(Command::new(prefix.join("bin/mote")).arg("--help"))?;
    let verbs = verbs(&help);
    if verbs.len() < 10 {
        bail!("only {} verbs were found in the help of `mote`", verbs.len());
    }
    let mut pages = vec!["mote.1".to_owned()];
    for verb in verbs {
        let help = output(Command::new(prefix.join("bin/mote")).args([verb, "--help"]))?;
        pages.extend(self::verbs(&help).iter().map(|below| format!("mote-{verb}-{below}.1")));
        pages.push(format!("mote-{verb}.1"));
    }
    let has_groff = tools::has("groff", counts);
    let mut number = 0;
    for page in pages {
        let path = prefix.join("share/man/man1").join(page);
        let text = fs::read_to_string(&path).with_context(|| format!("no page {}", path.display()))?;
        if !text.contains(".SH \"EXIT STATUS\"") {
            bail!("{} does not say what the exit status means", path.display());
        }
        number += 1;
        if has_groff {
            let mut groff = Command::new("groff");
            groff.args(["-man", "-Tutf8", "-ww", "-z"]).arg(&path).stdin(Stdio::null());
            let said = groff.output().context("cannot start groff")?.stderr;
            if !said.is_empty() {
                bail!("{}: {}", path.display(), String::from_utf8_lossy(&said).trim());
            }
        }
    }
    println!("{number} manual pages are there");
    Ok(())
}

/// The verbs that `mote --help` names.
fn verbs(help: &str) -> Vec<&str> {
    let table = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = table.take_while(|line| !line.is_empty());
    let names = rows.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").collect()
}

/// The shells that are there find no error in their completions, and bash completes a verb.
fn completions_are_understood(prefix: &Path, counts: &mut Counts) -> anyhow::Result<()> {
    let files = [
        ("bash", "bash-completion/completions/mote"),
        ("zsh", "zsh/site-functions/_mote"),
        ("fish", "fish/vendor_completions.d/mote.fish"),
    ];
    for (shell, file) in files {
        let file = prefix.join("share").join(file);
        let text = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
        if !text.contains("record") || text.contains("__generate") {
            bail!("{} does not have the verbs that users have", file.display());
        }
        if tools::has(shell, counts) {
            output(Command::new(shell).arg("-n").arg(&file))?;
        }
    }
    let bash = prefix.join("share/bash-completion/completions/mote");
    let ask =
        ". \"$0\"; COMP_WORDS=(mote snap); COMP_CWORD=1; _mote mote snap mote; echo \"${COMPREPLY[@]}\"";
    let said = output(Command::new("bash").args(["-c", ask]).arg(&bash))?;
    if said.trim() != "snapshot" {
        bail!("bash completes `mote snap` to `{}`", said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pkg_config_reads_is_complete() {
        let template = "# why\nprefix=@PREFIX@\nVersion: @VERSION@\n";
        let made = pkg_config(template, Path::new("/opt/m"), "1.2.3");
        assert_eq!(made, "prefix=/opt/m\nVersion: 1.2.3\n");
    }

    #[test]
    fn verbs_are_those_of_the_help() {
        let help = "Usage\n\nCommands:\n  record  Run\n            more\n  view    Print\n  help    Print\n\nOptions:\n";
        assert_eq!(verbs(help), ["record", "view"]);
    }

    #[test]
    fn a_place_must_be_said() {
        assert!(chore(Path::new("/"), &[]).unwrap_err().to_string().contains("--prefix"));
        assert!(chore(Path::new("/"), &["/usr"]).is_err());
    }
}
