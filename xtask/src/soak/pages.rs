//! Pictures of the pages that `mote pt ... --html` writes, made by a browser, dark and light: for people to look at.
//!
//! That a page's data is right, tests say without a browser. Here a browser draws it: what it says about errors in the
//! page is a failure; whether the page looks as it should, only a person can say.

use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The browser, and its package.
pub(super) const BROWSER: &str = "chromium";
/// What a page is drawn in, in pixels.
const WINDOW: &str = "1280,2200";
/// A picture with fewer bytes shows nothing.
const PICTURE_BYTES_MIN: u64 = 10_000;

/// A program with calls; `-DMORE`: with one more.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) int more(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * 7 % 13; return s; }
__attribute__((noinline)) int work(int n) {
  int s = 0;
  for (int i = 0; i < n; i++) s += i % 3;
#ifdef MORE
  s += more(n);
#endif
  return s;
}
int main(void) {
  int s = 0;
  for (int i = 1; i < 200; i++) {
    char *p = malloc(i * 10);
    memset(p, i, i * 10);
    s += work(i) + p[0];
    free(p);
  }
  printf("%d\n", s);
  return 0;
}
"#;
/// Two machines with two vCPUs each, on two processors.
const MACHINES: &str = "random seed=7 cpus=2 machines=2 vcpus=2 length=20ms moves=3\n";

/// A verb that writes a page, and the captures that it reads.
struct Verb {
    name: &'static str,
    words: &'static [&'static str],
    /// It reads what a kernel has executed.
    needs_kernel: bool,
}

const VERBS: [Verb; 4] = [
    Verb { name: "delta", words: &["delta", "plain", "@malloc", "@free"], needs_kernel: false },
    Verb { name: "diff", words: &["diff", "plain", "more"], needs_kernel: false },
    Verb { name: "vm", words: &["vm", "machines"], needs_kernel: false },
    Verb { name: "syscalls", words: &["syscalls", "kernel"], needs_kernel: true },
];

/// What was drawn.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) pictures: u64,
    /// What browsers say of pages that are wrong.
    pub(super) wrong: Vec<String>,
    /// Pages that were not made, and why.
    pub(super) missing: Vec<String>,
}

/// Makes captures, pages and pictures in a folder, which is emptied before.
///
/// # Errors
/// A capture or a page cannot be made.
pub(super) fn draw(mote: &Path, kernel: Option<&Path>, folder: &Path) -> anyhow::Result<Drawn> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("cannot empty the folder of pages")?;
    }
    fs::create_dir_all(folder).context("cannot make the folder of pages")?;
    captures(mote, kernel, folder)?;
    let mut drawn = Drawn::default();
    for Verb { name, words, needs_kernel } in VERBS {
        if needs_kernel && kernel.is_none() {
            drawn.missing.push(format!("{name}: there is no kernel for a guest"));
            continue;
        }
        let page = format!("{name}.html");
        run(Command::new(mote).arg("pt").args(words).args(["--html", &page]).current_dir(folder))?;
        let text =
            fs::read_to_string(folder.join(&page)).with_context(|| format!("{page} was not written"))?;
        for colours in ["light", "dark"] {
            picture(folder, &format!("{name}-{colours}"), &with_colours(&text, colours)?, &mut drawn)?;
        }
    }
    Ok(drawn)
}

fn captures(mote: &Path, kernel: Option<&Path>, folder: &Path) -> anyhow::Result<()> {
    fs::write(folder.join("program.c"), PROGRAM).context("cannot write a program")?;
    fs::write(folder.join("machines.txt"), MACHINES).context("cannot write a schedule")?;
    for (name, more) in [("plain", None), ("more", Some("-DMORE"))] {
        let program = format!("./{name}.out");
        run(Command::new("cc")
            .args(["-O1", "-o", &program])
            .args(more)
            .arg("program.c")
            .current_dir(folder))?;
        synth(mote, folder, &["-o", name, "--", &program])?;
    }
    synth(mote, folder, &["--vm", "machines.txt", "-o", "machines"])?;
    let Some(kernel) = kernel.map(Path::display) else { return Ok(()) };
    let kernel = kernel.to_string();
    synth(mote, folder, &["--engine", "system", "--kernel", &kernel, "-o", "kernel", "--", "./plain.out"])
}

fn synth(mote: &Path, folder: &Path, words: &[&str]) -> anyhow::Result<()> {
    run(Command::new(mote).args(["pt", "synth"]).args(words).current_dir(folder))
}

/// A page in certain colours, whatever the browser prefers.
fn with_colours(page: &str, colours: &str) -> anyhow::Result<String> {
    const HEAD: &str = "<html lang=\"en\">";
    ensure!(page.contains(HEAD), "the page has no {HEAD}");
    Ok(page.replacen(HEAD, &format!("<html lang=\"en\" class=\"{colours}\">"), 1))
}

/// Lets the browser draw a page.
fn picture(folder: &Path, name: &str, page: &str, drawn: &mut Drawn) -> anyhow::Result<()> {
    let [html, png] = ["html", "png"].map(|kind| folder.join(format!("{name}.{kind}")));
    fs::write(&html, page).context("cannot write a page")?;
    // Its sandbox needs a user of its own; the pages are ours, and load nothing.
    let said = Command::new(BROWSER)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .arg(format!("--window-size={WINDOW}"))
        .arg(format!("--screenshot={}", png.display()))
        .arg(format!("file://{}", absolute(&html)?.display()))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {BROWSER}"))?;
    drawn.wrong.extend(errors(&String::from_utf8_lossy(&said.stderr)).map(|line| format!("{name}: {line}")));
    match fs::metadata(&png).map_or(0, |png| png.len()) {
        PICTURE_BYTES_MIN.. => drawn.pictures += 1,
        bytes => drawn.wrong.push(format!("{name}: the picture has {bytes} bytes")),
    }
    Ok(())
}

/// What a browser says of scripts that fail, and of what a page may not do.
fn errors(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter(|line| line.contains(":CONSOLE"))
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))
}

/// Runs a command that says something only where it fails.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let said = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    if !said.status.success() {
        bail!("{command:?} has failed ({}): {}", said.status, String::from_utf8_lossy(&said.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_says_of_a_page_is_found() {
        let said = "[1:2:1127/1.2:INFO:CONSOLE:7] \"Uncaught TypeError: x is null\", source: file:///a.html (7)\n\
                    [1:2:1127/1.3:ERROR:bus.cc(407)] Failed to connect to the bus\n\
                    9 bytes written to file a.png\n";
        assert_eq!(errors(said).count(), 1);
        assert!(
            with_colours("<!doctype html>\n<html lang=\"en\">", "dark").expect("a page").contains("\"dark\"")
        );
        assert!(with_colours("<html>", "dark").is_err());
    }
}
