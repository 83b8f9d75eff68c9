//! Tests say by `mote_skip::skip` what they cannot test, and in no other way: a line that is not counted is a test that
//! seems to pass.

/// Where a skip is written and counted.
const ARE_OF_SKIPS: [&str; 2] = ["lib/skip/", "xtask/"];

/// How a text begins that is a skip, in small letters; no letter, digit or `_` follows, nor the text's end.
const WORDS: [&str; 4] = ["skip", "skips", "skipped", "skipping"];

/// Names texts that are printed as skips.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    if ARE_OF_SKIPS.iter().any(|place| name.starts_with(place)) {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        if code.split('"').skip(1).step_by(2).any(is_skip) {
            let number = number + 1;
            wrong.push(format!("{name}:{number} prints a skip by itself; say it by mote_skip::skip"));
        }
    }
}

/// Whether a text would be read as a skip by people.
fn is_skip(text: &str) -> bool {
    let said = text.trim_start_matches("\\n").trim_start();
    let word = said.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let follows = said[word.len()..].chars().next();
    WORDS.contains(&word.to_ascii_lowercase().as_str()) && matches!(follows, Some(' ' | ':' | '('))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    #[test]
    fn skips_in_other_words_are_found() {
        let text = "eprintln!(\"skipped: no gcc\");\nprintln!(\n    \"\\n  SKIP: {why}\",\n);\nlet a = \"x\"; b(\"Skipping it\");\n";
        assert_finds(check, "crates/read/view/tests/a.rs", text, &[1, 3, 5]);
        assert_finds(check, "lib/skip/src/lib.rs", text, &[]);
        let others =
            "// \"SKIP: x\"\nb(\"skipped\");\nb(\"--skip x\");\nb(\"skip_fields: 1\");\nb(\"no skip: x\");\n";
        assert_finds(check, "crates/read/view/tests/a.rs", others, &[]);
    }
}
