//! Comments of items that say nothing: those of pronouns alone (`It is on, all of it.`), and of functions for others
//! those that only repeat the name.

/// Words that mean nothing without others.
#[rustfmt::skip]
const EMPTY: [&str; 56] = [
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "both", "by", "do", "does", "each", "for", "from", "had",
    "has", "have", "here", "in", "is", "it", "its", "itself", "more", "not", "of", "on", "one", "ones", "or", "other",
    "others", "same", "so", "some", "that", "the", "their", "them", "there", "these", "they", "this", "those", "to",
    "was", "were", "what", "when", "where", "which", "who", "whose", "with",
];

/// Checks the comments of a Rust file that is no test.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    if name.contains("/tests/") || name.starts_with("tests/") {
        return;
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut comment = String::new();
    for (number, line) in lines.iter().enumerate() {
        if let Some(said) = line.strip_prefix("///") {
            comment.extend([said, " "]);
        } else if !line.starts_with("#[") {
            let about = std::mem::take(&mut comment);
            let words = words(&about);
            if words.is_empty() {
                continue;
            }
            let number = number + 1;
            if words.iter().all(|word| EMPTY.contains(&word.as_str())) {
                wrong.push(format!("{name}:{number} has a comment of pronouns: {}", about.trim()));
            } else if function(line).is_some_and(|function| repeats(&words, function)) {
                wrong.push(format!(
                    "{name}:{number} has a comment that only repeats its name: {}",
                    about.trim()
                ));
            }
        }
    }
}

/// The words of a comment in small letters. Numbers, and names of the code, are words that say something.
fn words(comment: &str) -> Vec<String> {
    let words = comment.split(|c: char| !(c.is_alphanumeric() || "_`".contains(c)));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// The name of the function for others that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, name) = line.strip_prefix("pub")?.split_once("fn ")?;
    let is_function = !before.contains(['=', ':']) || before.contains("(in ");
    is_function.then(|| name.split(['(', '<']).next().unwrap_or_default())
}

/// Whether all words that mean something are of the name.
fn repeats(words: &[String], name: &str) -> bool {
    let singular = |word: &str| word.trim_end_matches('s').to_owned();
    let of_name: Vec<String> = name.split('_').map(singular).collect();
    let mut meaning = words.iter().filter(|word| !EMPTY.contains(&word.as_str()));
    meaning.all(|word| of_name.contains(&singular(word)))
}

#[cfg(test)]
mod tests {
    use super::super::assert_finds;
    use super::check;

    #[test]
    fn comments_that_say_nothing_are_found() {
        let text = "\
/// It is on, all of it.
On,
/// The socket in it.
#[must_use]
pub(crate) fn socket(&self) -> &CStr {
/// 0 or 1.
/// Nothing.
/// The socket's path.
pub fn socket(&self) {
/// Its names.
pub(in crate::emit) const fn name<T>() {
/// Its name.
pub name: String,
/// Its name.
fn name()
";
        assert_finds(check, "lib/a/src/a.rs", text, &[2, 5, 11]);
        assert_finds(check, "lib/a/tests/a.rs", text, &[]);
    }
}
