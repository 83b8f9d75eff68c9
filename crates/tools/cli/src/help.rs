//! The texts that stand below the flags of each verb's help, as they are shown.

use clap::{Command, CommandFactory};

/// The command line, with the sentences of these texts as lines of the terminal; what is indented stays as it is
/// written.
pub(crate) fn command<C: CommandFactory>() -> Command {
    C::command().mut_subcommands(verb)
}

/// A verb, and those below it.
fn verb(command: Command) -> Command {
    let text = command.get_after_help().map(|text| filled(&text.to_string()));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(verb)
}

/// Joins the lines of a paragraph, as clap breaks lines only where they are too long.
fn filled(text: &str) -> String {
    let mut out = String::new();
    let mut is_open = false;
    for line in text.lines() {
        let is_sentence = !line.is_empty() && !line.starts_with(' ');
        match is_open && is_sentence {
            true => out.push(' '),
            false if !out.is_empty() => out.push('\n'),
            false => {}
        }
        out += line;
        // What ends with a colon is followed by a list, or by examples.
        is_open = is_sentence && !line.ends_with(':');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of a help, where nothing is known of the terminal.
    const COLUMNS: usize = 100;

    #[test]
    fn sentences_are_filled_and_lists_stay() {
        let text = "Examples:\n  one\n  two\n\nA sentence\nin two lines.\n\nExit status: 0\n";
        assert_eq!(filled(text), "Examples:\n  one\n  two\n\nA sentence in two lines.\n\nExit status: 0");
        assert_eq!(filled("Before:\nbehind\nit"), "Before:\nbehind it");
        assert_eq!(filled(""), "");
    }

    #[test]
    fn what_stays_as_it_is_written_fits() {
        let command = command::<crate::Cli>();
        let verbs =
            command.get_subcommands().flat_map(|verb| std::iter::once(verb).chain(verb.get_subcommands()));
        let texts = verbs.filter_map(|verb| Some((verb.get_name(), verb.get_after_help()?)));
        let (mut lines, mut long) = (0, Vec::new());
        for (verb, text) in texts {
            for line in text.to_string().lines().filter(|line| line.starts_with(' ')) {
                lines += 1;
                if line.chars().count() > COLUMNS {
                    long.push(format!("{verb}: {line}"));
                }
            }
        }
        assert!(lines > 100 && long.is_empty(), "{lines} lines; too long: {long:#?}");
    }
}
