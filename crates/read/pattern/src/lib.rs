//! Patterns of event names: `net:*`, `*:packet_*`, `net`; and names that look like one.
//!
//! A second user made it a crate: the recorder chooses events by patterns, `view` and `list` show by them.
#![forbid(unsafe_code)]

mod glob;

pub use glob::Glob;

/// A choice of events: a pattern with a colon is compared with `provider:name`, one without with the provider and with
/// the name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    glob: Glob,
    whole: bool,
}

impl Pattern {
    /// The pattern `text`.
    #[must_use]
    pub fn new(text: &str) -> Pattern {
        Pattern { glob: Glob::new(text), whole: text.contains(':') }
    }

    /// Whether it means the event `name` of `provider`.
    #[must_use]
    pub fn matches(&self, provider: &str, name: &str) -> bool {
        if self.whole {
            self.glob.matches(&format!("{provider}:{name}"))
        } else {
            self.glob.matches(provider) || self.glob.matches(name)
        }
    }
}

/// The patterns in a list with commas between them; those inside of parentheses and of `<>` belong to a pattern:
/// parameters of functions.
pub fn listed(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let apart = move |c: char| {
        match c {
            '(' | '<' => depth += 1,
            ')' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    list.split(apart).map(str::trim).filter(|one| !one.is_empty())
}

/// Up to three of `names` that are spelt like `pattern` (Jaro-Winkler above 0.6), the most similar first.
pub fn similar<'n>(pattern: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
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
    fn patterns_of_events() {
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
        ] {
            assert_eq!(Pattern::new(pattern).matches("net", "packet_in"), hit, "{pattern}");
        }
    }

    #[test]
    fn lists_of_patterns() {
        let parts: Vec<&str> = listed("sched, net:*,,uprobe:a:f(int, g<int, int>),b").collect();
        assert_eq!(parts, ["sched", "net:*", "uprobe:a:f(int, g<int, int>)", "b"]);
        assert_eq!(listed("a),b").count(), 2);
    }

    #[test]
    fn near_names() {
        let names = ["net:packet_in", "net:packet_out", "disk:read"];
        assert_eq!(similar("net:paket_in", names.into_iter())[0], "net:packet_in");
        assert!(similar("zzzz", names.into_iter()).is_empty());
    }
}
