//! `mote __generate`: manual pages and shell completions, made of the flags as the verbs declare them. `cargo xtask
//! install` runs it.

use anyhow::Context;
use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write manual pages and shell completions below a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory, as /usr/share: with man/man1, and a folder of completions for each shell
    #[arg(value_name = "SHARE")]
    share: PathBuf,
}

/// Where shells look for completions below `share`.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/mote"),
    (Shell::Zsh, "zsh/site-functions/_mote"),
    (Shell::Fish, "fish/vendor_completions.d/mote.fish"),
];

/// Runs the verb, for `mote` with all its verbs.
pub(crate) fn run(args: &Args, mote: Command) -> anyhow::Result<ExitCode> {
    let mut mote = without_hidden(mote);
    for (shell, file) in COMPLETIONS {
        let mut script = Vec::new();
        generate(shell, &mut mote, "mote", &mut script);
        write(&args.share.join(file), &script)?;
    }
    mote.build();
    for verb in std::iter::once(&mote).chain(mote.get_subcommands().flat_map(with_those_below)) {
        let name = verb.get_display_name().unwrap_or_else(|| verb.get_name());
        write(&args.share.join(format!("man/man1/{name}.1")), &page(verb)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A verb, and the verbs below it.
fn with_those_below(verb: &Command) -> impl Iterator<Item = &Command> {
    let below = verb.get_subcommands().filter(|below| below.get_name() != "help");
    std::iter::once(verb).chain(below)
}

/// The command without verbs that only mote itself starts, and without `help`, which has the same in it.
fn without_hidden(mote: Command) -> Command {
    let shown: Vec<Command> = mote.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let about = mote.get_about().cloned().unwrap_or_default();
    let after = mote.get_after_help().cloned().unwrap_or_default();
    Command::new("mote")
        .about(about)
        .after_help(after)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(shown)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The manual page of a verb, or of `mote` itself.
fn page(verb: &Command) -> anyhow::Result<Vec<u8>> {
    let man = Man::new(verb.clone()).manual("mote").source(format!("mote {}", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if verb.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let more = verb.get_after_long_help().or_else(|| verb.get_after_help());
    let mut roff = Roff::new();
    sections(&mut roff, &more.map(ToString::to_string).unwrap_or_default());
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(if verb.get_name() == "mote" { "mote-record(1), mote-view(1)" } else { "mote(1)" })]);
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// What stands below the flags of a verb's help, as sections: examples keep their lines, sentences are filled.
fn sections(roff: &mut Roff, text: &str) {
    let mut is_begun = false;
    let mut is_as_written = false;
    for line in text.lines() {
        let is_indented = line.starts_with(' ');
        if is_as_written && !is_indented {
            roff.control("fi", []);
            is_as_written = false;
        }
        let (title, rest) = match line.strip_prefix("Exit status: ") {
            Some(rest) => (Some("EXIT STATUS"), rest),
            None if line == "Examples:" => (Some("EXAMPLES"), ""),
            None if !is_begun => (Some("NOTES"), line),
            None => (None, line),
        };
        if let Some(title) = title {
            roff.control("SH", [title]);
            is_begun = true;
        }
        if rest.is_empty() {
            if title.is_none() {
                roff.control("PP", []);
            }
            continue;
        }
        if is_indented && !is_as_written {
            roff.control("nf", []);
            is_as_written = true;
        }
        roff.text([roman(rest)]);
    }
    if is_as_written {
        roff.control("fi", []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_sentences_are_filled() {
        let mut roff = Roff::new();
        sections(&mut roff, "Examples:\n  a 'b'\n  c\n\nMore\nof it.\n\nExit status: 0 done,\n1 not.");
        let expected = ".SH EXAMPLES\n.nf\n  a 'b'\n  c\n.fi\n.PP\nMore\nof it.\n.PP\n.SH \"EXIT STATUS\"\n0 done,\n1 not.\n";
        assert_eq!(roff.to_roff(), expected);
    }
}
