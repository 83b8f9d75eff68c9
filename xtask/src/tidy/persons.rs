//! Threads, processes and programs are no persons: comments of what runs in traced processes, and of what would serve
//! any program, call none of them "somebody". Users are persons.

/// Words for persons.
const WORDS: [&str; 8] =
    ["anybody", "anyone", "everybody", "nobody", "somebody", "someone", "who", "whoever"];
/// Words by which a line is about persons.
const PERSONS: [&str; 4] = ["user", "users", "person", "persons"];
/// Where it is checked.
const FOLDERS: [&str; 3] = ["crates/base/", "crates/traced/", "lib/"];

/// Checks the comments of a Rust file that is no test.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    let is_in = |folders: &[&str]| folders.iter().any(|folder| name.starts_with(folder));
    if !is_in(&FOLDERS) || !name.contains("/src/") {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else { continue };
        let comment = comment.trim_start_matches(['/', '!']).trim().to_lowercase();
        // `# Who may touch what` is the title of a table of parties.
        let is_title = comment.starts_with("# ");
        let mut words = comment.split(|c: char| !c.is_alphanumeric());
        let is_person = words.clone().any(|word| PERSONS.contains(&word));
        if let Some(word) = words.find(|word| WORDS.contains(word)).filter(|_| !is_title && !is_person) {
            let number = number + 1;
            wrong.push(format!(
                "{name}:{number} says \"{word}\"; say which thread, process or program is meant"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_finds;
    use super::check;

    #[test]
    fn persons_are_found() {
        let text = "\
//! # Who may touch what
/// Nobody waits.
x(); // whoever is there
/// The user who owns it; anybody that waits for no user.
let who = \"nobody\";
/// One who writes.
";
        assert_finds(check, "lib/a/src/a.rs", text, &[2, 3, 6]);
        assert_finds(check, "lib/a/tests/a.rs", text, &[]);
        assert_finds(check, "crates/record/a/src/a.rs", text, &[]);
    }
}
