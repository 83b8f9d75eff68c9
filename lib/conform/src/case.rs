//! Cases: a program, what it is run with, and what must come of it.
//!
//! Two kinds of files are read: tables of byte code (`NAME VERSION MEM CODE R0`, separated by tabs), and texts of
//! instructions, whose form is told at the head of `tests/cases.txt`.

use crate::{Input, hex};
use mote_assembler::text;
use mote_bpf::{Insn, MapKind, MapShape};

/// What must come of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// This result, and this memory if it is told.
    Ran {
        /// Result.
        r0: u64,
        /// The memory after.
        memory: Option<Vec<u8>>,
    },
    /// The verifier refuses it.
    Refused,
}

/// A program with what must come of it, as files of `bpf_conformance` say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the case in its file.
    pub name: String,
    /// The program and its memory.
    pub input: Input,
    /// What must come of it.
    pub expect: Expect,
}

/// What is wrong with a file: the line, from 1, or the case, and the problem.
pub type CaseError = String;

/// Instructions of bytes.
///
/// # Errors
/// A text when they are not whole instructions.
pub fn insns(bytes: &[u8]) -> Result<Vec<Insn>, CaseError> {
    let (whole, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(format!("{} bytes are not whole instructions of 8", bytes.len()));
    }
    Ok(whole.iter().map(|chunk| Insn::from_bytes(*chunk)).collect())
}

/// Reads a table of byte code; lines that begin with `#` are comments.
///
/// # Errors
/// [`CaseError`].
pub fn table(content: &str) -> Result<Vec<Case>, CaseError> {
    let lines = (1..).zip(content.lines()).filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    lines.map(|(at, line)| row(line).map_err(|problem| format!("line {at}: {problem}"))).collect()
}

fn row(line: &str) -> Result<Case, CaseError> {
    let columns: Vec<_> = line.split('\t').collect();
    let [name, _, memory, code, r0] = columns[..] else {
        return Err(format!("{} columns, not 5", columns.len()));
    };
    let bytes = |text| hex::decode(text).map_err(|error| error.to_string());
    let input = Input::new(insns(&bytes(code)?)?, bytes(memory)?);
    Ok(Case { name: name.to_owned(), input, expect: Expect::Ran { r0: number(r0)?, memory: None } })
}

fn number(text: &str) -> Result<u64, CaseError> {
    let digits = text.strip_prefix("0x").ok_or_else(|| format!("`{text}` does not begin with 0x"))?;
    u64::from_str_radix(digits, 16).map_err(|error| format!("`{text}`: {error}"))
}

/// Reads a text of cases.
///
/// # Errors
/// [`CaseError`].
pub fn cases(content: &str) -> Result<Vec<Case>, CaseError> {
    let parts = content.split("\ncase ").skip(1);
    parts.map(|part| case(part).map_err(|problem| format!("case {}: {problem}", first(part)))).collect()
}

fn first(part: &str) -> &str {
    part.lines().next().unwrap_or("").trim()
}

fn case(part: &str) -> Result<Case, CaseError> {
    let bytes = |text| hex::decode(text).map_err(|error| error.to_string());
    let (mut program, mut memory, mut maps) = (String::new(), Vec::new(), Vec::new());
    let (mut r0, mut after, mut refused) = (None, None, false);
    for line in part.lines().skip(1).map(str::trim) {
        if let Some(hex) = line.strip_prefix("mem ") {
            memory = bytes(hex)?;
        } else if let Some(words) = line.strip_prefix("map ") {
            maps.push(map(words)?);
        } else if let Some(hex) = line.strip_prefix("=> mem ") {
            after = Some(bytes(hex)?);
        } else if line == "=> refused" {
            refused = true;
        } else if let Some(digits) = line.strip_prefix("=> ") {
            r0 = Some(number(digits)?);
        } else {
            program += line;
            program.push('\n');
        }
    }
    let expect = match (refused, r0) {
        (true, None) => Expect::Refused,
        (false, Some(r0)) => Expect::Ran { r0, memory: after },
        _ => return Err("one `=> 0x..` or `=> refused` must be there".into()),
    };
    let insns = text::assemble(&program, None).map_err(|error| error.to_string())?;
    Ok(Case { name: first(part).to_owned(), input: Input { maps, ..Input::new(insns, memory) }, expect })
}

/// `array 4 8 16`
fn map(words: &str) -> Result<MapShape, CaseError> {
    let words: Vec<_> = words.split_whitespace().collect();
    let [kind, key, value, entries] = words[..] else {
        return Err("a map is `KIND KEY VALUE ENTRIES`".into());
    };
    let kind = match kind {
        "array" => MapKind::Array,
        "hash" => MapKind::Hash,
        other => return Err(format!("`{other}` is no kind of map that all engines have")),
    };
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("`{text}`: {error}"));
    let (key_bytes, value_bytes, entries) = (number(key)?, number(value)?, number(entries)?);
    Ok(MapShape { kind, key_bytes, value_bytes, entries, read_only: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_files_are_read() {
        let one = table("# a comment\nexit\tv1\t0102\t9500000000000000\t0x7\n").unwrap();
        assert_eq!(one[0].name, "exit");
        assert_eq!((one[0].input.insns.len(), &one[0].input.memory[..]), (1, &[1, 2][..]));
        let text = "# head\n\ncase a\nmem 01 02\nmap hash 4 8 16\nr0 = 5 # five\nexit\n=> 0x5\n=> mem 0102\n\n# b\ncase b\nexit\n=> refused\n";
        let two = cases(text).unwrap();
        assert_eq!(two[0].expect, Expect::Ran { r0: 5, memory: Some(vec![1, 2]) });
        assert_eq!(two[0].input.maps[0].entries, 16);
        assert_eq!((two[1].name.as_str(), &two[1].expect), ("b", &Expect::Refused));
    }

    #[test]
    fn what_is_wrong_is_told() {
        assert_eq!(table("a\tb\n").unwrap_err(), "line 1: 2 columns, not 5");
        assert_eq!(
            cases("\ncase x\nexit\n").unwrap_err(),
            "case x: one `=> 0x..` or `=> refused` must be there"
        );
        assert!(cases("\ncase x\nfrob\n=> 0x1").unwrap_err().contains("line 1, column 1"));
        assert!(insns(&[1, 2, 3]).is_err());
    }
}
