//! The header of a model: its first comment.
//!
//! ```text
//! @code FILE: ITEM, ITEM      the Rust items that it stands for
//! @digest HEX                 of those, when somebody last compared them with the model
//! @pass short | TITLE | -DX   must pass
//! @find short | TITLE | -DX   an error is injected, which must be found
//! @reach long | TITLE | -DX   a state that must be reached: an assertion that must fail
//! @miss long | TITLE | -DX    an injected error that is known not to show
//! ```
//! Words after the second `|` that do not begin with `-D`: `progress` (no cycle without progress), `fair` (weak
//! fairness), `accept` (never claims and acceptance cycles), `depth=N`, `memory=MIB`, `small` (so few states
//! that an optimised checker takes longer to compile than it saves).

use anyhow::{Context, bail};

/// What must come of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// No error.
    Pass,
    /// An error, because one was injected.
    Find,
    /// An "error", because the state must be reached.
    Reach,
    /// No error, although one was injected.
    Miss,
}

/// What the checker looks for in all states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Assertions and deadlocks.
    Safety,
    /// Cycles without progress.
    Progress,
    /// Never claims.
    Accept,
}

/// One row of a model's table of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) title: String,
    pub(super) expect: Expect,
    pub(super) is_long: bool,
    pub(super) defines: Vec<String>,
    pub(super) kind: Kind,
    pub(super) is_fair: bool,
    pub(super) is_small: bool,
    pub(super) depth: u64,
    pub(super) mebibytes: u64,
}

/// Items of one Rust file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) file: String,
    pub(super) items: Vec<String>,
}

/// What a model's comment says of it: the code that it stands for, and its runs.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) title: String,
    pub(super) code: Vec<Code>,
    pub(super) digest: String,
    pub(super) runs: Vec<Run>,
}

impl Header {
    /// Reads the first comment of a model.
    pub(super) fn parse(text: &str) -> anyhow::Result<Header> {
        let comment = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/"));
        let (comment, _) = comment.context("does not open with a comment")?;
        let mut header =
            Header { title: String::new(), code: Vec::new(), digest: String::new(), runs: Vec::new() };
        for line in comment.lines().map(words) {
            match line.split_once(' ') {
                Some(("@code", rest)) => header.code.push(code(rest)?),
                Some(("@digest", rest)) => header.digest = rest.trim().to_owned(),
                Some((word, rest)) if word.starts_with('@') => {
                    header.runs.push(run(word, rest).with_context(|| format!("`{line}`"))?);
                }
                _ if header.title.is_empty() => header.title = line.to_owned(),
                _ => {}
            }
        }
        if header.runs.is_empty() || header.digest.is_empty() {
            bail!("has no runs or no digest");
        }
        Ok(header)
    }
}

/// The text of a model with another digest in the line of its header that says it; all else stays as it is.
pub(super) fn with_digest(text: &str, digest: &str) -> String {
    let (header, code) = text.split_at(text.find("*/").unwrap_or(text.len()));
    let line = |line: &str| match line.split_once("@digest ") {
        Some((before, old)) if words(line).starts_with("@digest ") => {
            format!("{before}@digest {}", old.replacen(old.trim(), digest, 1))
        }
        _ => line.to_owned(),
    };
    header.split_inclusive('\n').map(line).collect::<String>() + code
}

/// A line of the comment without what makes it one.
fn words(line: &str) -> &str {
    line.trim().trim_start_matches('*').trim()
}

fn code(rest: &str) -> anyhow::Result<Code> {
    let (file, items) = rest.split_once(':').context("@code FILE: ITEM, ITEM")?;
    let items = items.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect();
    Ok(Code { file: file.trim().to_owned(), items })
}

fn run(word: &str, rest: &str) -> anyhow::Result<Run> {
    let mut parts = rest.splitn(3, '|').map(str::trim);
    let (Some(length), Some(title)) = (parts.next(), parts.next()) else { bail!("length and title") };
    let expect = match word {
        "@pass" => Expect::Pass,
        "@find" => Expect::Find,
        "@reach" => Expect::Reach,
        "@miss" => Expect::Miss,
        _ => bail!("no such word: {word}"),
    };
    let mut run = Run {
        title: title.to_owned(),
        expect,
        is_long: length != "short",
        defines: Vec::new(),
        kind: Kind::Safety,
        is_fair: false,
        is_small: false,
        depth: 1_000_000,
        mebibytes: 2000,
    };
    for word in parts.next().unwrap_or("").split_whitespace() {
        match word.split_once('=') {
            _ if word.starts_with("-D") => run.defines.push(word.to_owned()),
            Some(("depth", number)) => run.depth = number.parse()?,
            Some(("memory", number)) => run.mebibytes = number.parse()?,
            None if word == "progress" => run.kind = Kind::Progress,
            None if word == "accept" => run.kind = Kind::Accept,
            None if word == "fair" => run.is_fair = true,
            None if word == "small" => run.is_small = true,
            _ => bail!("no such word: {word}"),
        }
    }
    Ok(run)
}

impl Run {
    /// The commands, for a person who wants to see the counter-example.
    pub(super) fn command_line(&self) -> String {
        format!(
            "spin -a {} MODEL && cc -O2 {} -o pan pan.c && ./pan {}; then: spin -t -p {} MODEL",
            self.defines.join(" "),
            self.compile_flags().join(" "),
            self.pan_flags().join(" "),
            self.defines.join(" ")
        )
    }

    /// Flags to compile the checker with.
    pub(super) fn compile_flags(&self) -> Vec<String> {
        let kind: &[&str] = match self.kind {
            Kind::Safety => &["-DSAFETY"],
            Kind::Progress => &["-DNP", "-DNFAIR=3"],
            Kind::Accept => &["-DNFAIR=3"],
        };
        let memory = format!("-DMEMLIM={}", self.mebibytes);
        kind.iter().map(|flag| (*flag).to_owned()).chain(["-DCOLLAPSE".to_owned(), memory]).collect()
    }

    /// Flags of the checker itself.
    pub(super) fn pan_flags(&self) -> Vec<String> {
        let mut flags = vec![format!("-m{}", self.depth), "-w20".to_owned()];
        match self.kind {
            Kind::Safety => {}
            Kind::Progress => flags.push("-l".to_owned()),
            Kind::Accept => flags.push("-a".to_owned()),
        }
        if self.is_fair {
            flags.push("-f".to_owned());
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read() {
        let text = "/*\n * A thing.\n *\n * @code a.rs: one, two\n * @digest 12\n * @find short | no lock | -DX progress fair\n */";
        let header = Header::parse(text).unwrap();
        assert_eq!((header.title.as_str(), header.digest.as_str()), ("A thing.", "12"));
        assert_eq!(header.code[0].items, ["one", "two"]);
        let run = &header.runs[0];
        assert_eq!(
            (run.expect, run.kind, run.is_fair, run.is_long),
            (Expect::Find, Kind::Progress, true, false)
        );
        assert_eq!(run.defines, ["-DX"]);
    }

    #[test]
    fn a_digest_is_replaced_in_its_own_line_only() {
        let model = |digest: &str| {
            format!("/* none\n * none of @digest none\n *  @digest {digest}\n */\n/* @digest none */\nnone\n")
        };
        assert_eq!(with_digest(&model("none"), "0d15"), model("0d15"));
        assert_eq!(with_digest("/* T\n * @digest 1 */", "2"), "/* T\n * @digest 2 */");
        assert_eq!(with_digest("none", "2"), "none");
    }

    #[test]
    fn a_misspelt_run_is_refused() {
        assert!(Header::parse("/* T\n * @digest 1\n * @pas short | t |\n */").is_err());
        assert!(Header::parse("/* T\n * @digest 1\n * @pass short | t | fiar\n */").is_err());
    }
}
