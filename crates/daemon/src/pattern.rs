//! Patterns of event names: `net:*`, `*:packet_*`, `net`.
//!
//! `*` stands for any characters, `?` for one. A pattern with a colon is compared with `provider:name`, one
//! without with the provider and with the name alone.

/// Whether `pattern` means the event `name` of `provider`.
pub fn matches(pattern: &str, provider: &str, name: &str) -> bool {
    if pattern.contains(':') {
        let full = format!("{provider}:{name}");
        glob(pattern.as_bytes(), full.as_bytes())
    } else {
        glob(pattern.as_bytes(), provider.as_bytes()) || glob(pattern.as_bytes(), name.as_bytes())
    }
}

/// Glob by the usual two-pointer walk: linear in practice, no recursion on hostile patterns.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'?') => {
                p += 1;
                t += 1;
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    p = *after + 1;
                    t = *from;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Up to three of `names` that look like `pattern`, nearest first.
pub fn near<'n>(pattern: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let bare = pattern.replace('*', "");
    let mut scored: Vec<(f64, &str)> = names
        .map(|name| (strsim::jaro_winkler(&bare, name), name))
        .filter(|(score, _)| *score > 0.6)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, hit) in [
            ("net:*", true),
            ("*:packet_in", true),
            ("net", true),
            ("packet_??", true),
            ("*", true),
            ("*:*", true),
            ("net:packet", false),
            ("disk:*", false),
            ("et", false),
            ("n*:*_in", true),
            ("n**t:packet_in*", true),
        ] {
            assert_eq!(matches(pattern, "net", "packet_in"), hit, "{pattern}");
        }
    }

    #[test]
    fn near_names() {
        let names = ["net:packet_in", "net:packet_out", "disk:read"];
        assert_eq!(near("net:paket_in", names.into_iter())[0], "net:packet_in");
        assert!(near("zzzz", names.into_iter()).is_empty());
    }
}
