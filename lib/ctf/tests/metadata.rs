//! Tables of odd and bad metadata: each text with what is said of it.
//!
//! A table is a file: cases, each of a line `## CLAUSE: what is odd`, the metadata, and a line `=> ` for each thing
//! that is said of it: the error, or the warnings, or `read`. `BLESS=1` writes what is said now.
//! Short words stand for what every case needs:
//!
//! - CTF 1.8: `@trace` for a whole `trace` block, `@nul` for a zero byte.
//! - CTF 2: `@preamble` and `@stream` for these fragments, `@event(...)` for an event whose payload has these
//!   members, `@uN` for a little-endian unsigned integer of N bits, `@rs` for a record separator.

use mote_ctf::Schema;
use std::fmt::Write;
use std::path::Path;

const WORDS_1_8: [(&str, &str); 2] =
    [("@trace", "trace { major = 1; minor = 8; byte_order = le; };"), ("@nul", "\0")];

const WORDS_2: [(&str, &str); 9] = [
    ("@rs", "\x1e"),
    ("@preamble", r#"{"type": "preamble", "version": 2}"#),
    ("@stream", r#"{"type": "data-stream-class"}"#),
    (
        "@event(",
        r#"{"type": "event-record-class", "payload-field-class": {"type": "structure", "member-classes": ["#,
    ),
    (")@", "]}}"),
    ("@u8", r#"{"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}"#),
    ("@u32", r#"{"type": "fixed-length-unsigned-integer", "length": 32, "byte-order": "little-endian"}"#),
    ("@u64", r#"{"type": "fixed-length-unsigned-integer", "length": 64, "byte-order": "little-endian"}"#),
    ("@s8", r#"{"type": "fixed-length-signed-integer", "length": 8, "byte-order": "little-endian"}"#),
];

/// What is said of metadata, a line each.
fn said(text: &str, words: &[(&str, &str)]) -> Vec<String> {
    let whole = words.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(word, meaning));
    match Schema::parse(whole.as_bytes()) {
        Err(error) => vec![format!("refused: {error}")],
        Ok(schema) if schema.warnings().is_empty() => vec!["read".to_owned()],
        Ok(schema) => schema.warnings().iter().map(|warning| format!("warning: {warning}")).collect(),
    }
}

/// Checks the table `name`; returns how many cases are refused, read with a warning, and read without.
fn check(name: &str, words: &[(&str, &str)]) -> [usize; 3] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let table = std::fs::read_to_string(&path).expect("the table");
    let (preface, cases) = table.split_once("## ").expect("a case");
    let (mut blessed, mut counts) = (preface.to_owned(), [0; 3]);
    for case in cases.split("\n## ") {
        let (what, rest) = case.split_once('\n').expect("metadata behind its title");
        let text: String =
            rest.lines().take_while(|l| !l.starts_with("=> ")).map(|l| format!("{l}\n")).collect();
        let said = said(text.trim_end_matches('\n'), words);
        let kinds = ["refused: metadata line ", "warning: metadata line ", "read"];
        let kind = kinds.iter().position(|kind| said[0].starts_with(kind));
        counts[kind.unwrap_or_else(|| panic!("{what}: no place in {said:?}"))] += 1;
        write!(blessed, "## {what}\n{}\n", text.trim_end_matches('\n')).expect("written");
        said.iter().for_each(|line| writeln!(blessed, "=> {line}").expect("written"));
        blessed.push('\n');
    }
    let blessed = format!("{}\n", blessed.trim_end());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &blessed).expect("written");
    }
    for (now, before) in blessed.split("\n## ").zip(table.split("\n## ")) {
        assert_eq!(now.trim_end(), before.trim_end(), "{name} (BLESS=1 takes what is said now)");
    }
    counts
}

#[test]
fn ctf_1_8() {
    let [refused, warned, read] = check("metadata-1.8.txt", &WORDS_1_8);
    assert!(refused >= 132 && warned >= 10 && read >= 17, "{refused} {warned} {read}");
}

#[test]
fn ctf_2() {
    let [refused, warned, read] = check("metadata-2.txt", &WORDS_2);
    assert!(refused > 70 && warned > 1 && read > 10, "{refused} {warned} {read}");
}
