//! A string as it is written in a rule: bytes, and `*` for any of them.

use std::fmt;

/// What lies between the `*`: `"a*b"` is `a`, `b`; a string without a `*` is one part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StringPattern {
    parts: Vec<Vec<u8>>,
}

impl StringPattern {
    /// One that is exactly these bytes.
    pub fn exact(bytes: &[u8]) -> StringPattern {
        StringPattern { parts: vec![bytes.to_vec()] }
    }

    /// From what lies between the `*`. Several `*` in a row are one.
    pub(crate) fn new(parts: Vec<Vec<u8>>) -> StringPattern {
        let last = parts.len().saturating_sub(1);
        let parts: Vec<_> = parts
            .into_iter()
            .enumerate()
            .filter(|(at, part)| *at == 0 || *at == last || !part.is_empty())
            .map(|(_, part)| part)
            .collect();
        if parts.is_empty() { StringPattern::exact(b"") } else { StringPattern { parts } }
    }

    /// `*` behind it.
    pub(crate) fn open_end(mut self) -> StringPattern {
        self.parts.push(Vec::new());
        StringPattern::new(self.parts)
    }

    /// `*` before it.
    pub(crate) fn open_start(mut self) -> StringPattern {
        self.parts.insert(0, Vec::new());
        StringPattern::new(self.parts)
    }

    /// The bytes, when there is no `*`.
    pub fn as_exact(&self) -> Option<&[u8]> {
        if let [only] = &self.parts[..] { Some(only) } else { None }
    }

    /// What lies between the `*`.
    pub(crate) fn parts(&self) -> &[Vec<u8>] {
        &self.parts
    }

    /// Whether `*` alone.
    pub(crate) fn is_any(&self) -> bool {
        self.parts.len() == 2 && self.parts.iter().all(Vec::is_empty)
    }

    /// Fewest bytes that fit.
    pub(crate) fn bytes_min(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// As the helper `text_glob` takes it: `*`, `?` and `\` that mean themselves have a `\` before them.
    pub(crate) fn to_helper(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                out.push(b'*');
            }
            for &byte in part {
                if matches!(byte, b'*' | b'?' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
        }
        out
    }

    /// Whether all of `text` fits.
    ///
    /// # Cost
    /// Each middle part is looked for once; the leftmost place is always right.
    pub fn matches(&self, text: &[u8]) -> bool {
        let [first, middle @ .., last] = &self.parts[..] else {
            return self.parts.first().is_some_and(|only| only == text);
        };
        let Some(mut rest) = text.strip_prefix(&first[..]).and_then(|rest| rest.strip_suffix(&last[..]))
        else {
            return false;
        };
        for part in middle {
            let Some(at) = rest.windows(part.len()).position(|window| window == &part[..]) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

impl fmt::Display for StringPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"")?;
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                write!(f, "*")?;
            }
            for chunk in part.utf8_chunks() {
                for c in chunk.valid().chars() {
                    match c {
                        '*' | '"' | '\\' => write!(f, "\\{c}")?,
                        c if c.is_control() => write!(f, "\\x{:02x}", u32::from(c))?,
                        c => write!(f, "{c}")?,
                    }
                }
                chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
            }
        }
        write!(f, "\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> StringPattern {
        StringPattern::new(text.split('*').map(|part| part.as_bytes().to_vec()).collect())
    }

    #[test]
    fn patterns() {
        for (p, text, fits) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "abc", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*a", "a", false),
            ("*b*", "abc", true),
            ("a*b*c*d", "aXbXcXd", true),
            ("a*b*c*d", "aXcXbXd", false),
            ("*aab*", "aaab", true),
        ] {
            assert_eq!(pattern(p).matches(text.as_bytes()), fits, "{p} {text}");
        }
        assert!(pattern("a**b") == pattern("a*b"));
        assert_eq!(pattern("a*?").to_helper(), b"a*\\?");
    }
}
