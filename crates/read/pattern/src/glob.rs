//! Patterns for names: `*` is any text, `?` any one character, everything else itself.

/// A text in which `*` stands for any characters, also none, and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<u8>);

impl Glob {
    /// The pattern that `text` says; any text is one.
    #[must_use]
    pub fn new(text: &str) -> Glob {
        Glob(text.as_bytes().to_vec())
    }

    /// Whether all of `name` fits.
    ///
    /// # Cost
    /// At most the product of both lengths.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (&self.0[..], name.as_bytes());
        let (mut p, mut n) = (0, 0);
        // Behind the last `*`, and how much of the name it has taken so far.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p + 1, n));
                    p += 1;
                }
                Some(&c) if c == name[n] || (c == b'?' && char_starts(name, n)) => {
                    p += 1;
                    n += if c == b'?' { char_len(name, n) } else { 1 };
                }
                _ => match star {
                    Some((behind, taken)) => {
                        star = Some((behind, taken + 1));
                        p = behind;
                        n = taken + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|c| *c == b'*')
    }
}

fn char_starts(name: &[u8], at: usize) -> bool {
    name[at] & 0xc0 != 0x80
}

/// Bytes of the character at `at`.
fn char_len(name: &[u8], at: usize) -> usize {
    1 + name[at + 1..].iter().take_while(|b| *b & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, name: &str, fits: bool| {
            assert_eq!(Glob::new(pattern).matches(name), fits, "{pattern} {name}");
        };
        for (pattern, name) in
            [("*", ""), ("a*c", "abbc"), ("a?c", "aéc"), ("*x*", "axbxc"), ("a**b", "ab"), ("", "")]
        {
            check(pattern, name, true);
        }
        for (pattern, name) in
            [("a", "ab"), ("a*c", "abcd"), ("?", ""), ("", "a"), ("*b", "a"), ("a?c", "ac"), ("A", "a")]
        {
            check(pattern, name, false);
        }
        check(&"*a".repeat(30), &"a".repeat(29), false);
    }
}
