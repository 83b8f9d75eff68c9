//! The rules of one side of a session (processes or kernel), in the order in which they were given. Later entries
//! override earlier ones.

use mote_filter::Rule;
use mote_pattern::Pattern;

/// The rules in force.
#[derive(Clone, Debug, Default)]
pub struct RuleList {
    entries: Vec<Entry>,
}

/// One entry.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A rule.
    Rule(Rule),
    /// Takes back what all rules before it say about the events of this pattern.
    Not(String),
}

impl RuleList {
    /// These rules, none of them taken back.
    pub fn new(rules: &[Rule]) -> RuleList {
        RuleList { entries: rules.iter().cloned().map(Entry::Rule).collect() }
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Rules that a person gave as expressions, in their order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Rule(rule) => Some(rule),
            Entry::Not(_) => None,
        })
    }

    /// Keeps the rules of which this is true.
    pub fn retain(&mut self, keep: impl Fn(&Rule) -> bool) {
        self.entries.retain(|entry| !matches!(entry, Entry::Rule(rule) if !keep(rule)));
        self.forget_idle();
    }

    /// Adds rules. One that only records takes the place of those that recorded the same pattern.
    pub fn add(&mut self, rules: Vec<Rule>) {
        for rule in rules {
            let replaces = |old: &Rule| {
                old.pattern() == rule.pattern()
                    && (old.source() == rule.source() || (old.only_records() && rule.only_records()))
            };
            self.entries.retain(|entry| !matches!(entry, Entry::Rule(old) if replaces(old)));
            self.entries.push(Entry::Rule(rule));
        }
        self.forget_idle();
    }

    /// Takes the rules with a pattern away, or, where there is none, what the others do about its events, if `are_on`
    /// says that there are some. Returns how many patterns meant something.
    pub fn take_back(&mut self, patterns: &[String], are_on: impl Fn(&str) -> bool) -> usize {
        let mut meant = 0;
        for pattern in patterns {
            let before = self.entries.len();
            self.entries.retain(|entry| !matches!(entry, Entry::Rule(rule) if rule.pattern() == pattern));
            if self.entries.len() < before {
                meant += 1;
            } else if are_on(pattern) {
                meant += 1;
                self.entries.push(Entry::Not(pattern.clone()));
            }
        }
        self.forget_idle();
        meant
    }

    /// What takes something back has to have something before it.
    fn forget_idle(&mut self) {
        let first = self.entries.iter().position(|entry| matches!(entry, Entry::Rule(_)));
        self.entries.drain(..first.unwrap_or(self.entries.len()));
        let mut said: Vec<String> = Vec::new();
        // Of equal ones only the last counts.
        let mut kept: Vec<Entry> = Vec::new();
        for entry in self.entries.drain(..).rev() {
            match &entry {
                Entry::Not(pattern) if said.contains(pattern) => continue,
                Entry::Not(pattern) => said.push(pattern.clone()),
                Entry::Rule(_) => {}
            }
            kept.push(entry);
        }
        kept.reverse();
        self.entries = kept;
    }

    /// The rules that stand for an event, by what patterns say: all that were given after it was last taken back.
    pub fn of(&self, provider: &str, name: &str) -> Vec<Rule> {
        let is_back =
            |entry: &Entry| matches!(entry, Entry::Not(text) if Pattern::new(text).matches(provider, name));
        let from = self.entries.iter().rposition(is_back).map_or(0, |at| at + 1);
        let later = self.entries.get(from..).unwrap_or_default();
        let rules = later.iter().filter_map(|entry| match entry {
            Entry::Rule(rule) => Some(rule.clone()),
            Entry::Not(_) => None,
        });
        rules.collect()
    }

    /// Whether it was taken back, whatever was said later.
    pub fn was_taken_back(&self, provider: &str, name: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| matches!(entry, Entry::Not(text) if Pattern::new(text).matches(provider, name)))
    }

    /// The rules as a person reads them, one line each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|entry| match entry {
            Entry::Rule(rule) => rule_text(rule),
            Entry::Not(pattern) => format!("not {pattern}"),
        })
    }
}

/// A rule for a person: its pattern, and what it says besides.
pub fn rule_text(rule: &Rule) -> String {
    if rule.source().starts_with(rule.pattern()) {
        rule.source().to_owned()
    } else {
        format!("{}: {}", rule.pattern(), rule.source())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rules: &RuleList) -> Vec<String> {
        rules.lines().collect()
    }

    #[test]
    fn what_comes_later_has_the_last_word() {
        let mut rules = RuleList::new(&[Rule::record("net:*"), Rule::record("disk:*")]);
        assert_eq!(rules.take_back(&["net:in".to_owned()], |_| true), 1);
        assert_eq!(lines(&rules), ["net:*", "disk:*", "not net:in"]);
        assert!(rules.of("net", "in").is_empty() && rules.was_taken_back("net", "in"));
        assert_eq!(rules.of("net", "out").len(), 2);
        rules.add(vec![Rule::parse("net:in if len > 3 do record").expect("a rule")]);
        assert_eq!(rules.of("net", "in").len(), 1);
        // The whole pattern goes, and with it nothing else.
        assert_eq!(rules.take_back(&["net:*".to_owned()], |_| false), 1);
        assert_eq!(lines(&rules), ["disk:*", "not net:in", "net:in if len > 3 do record"]);
        assert_eq!(rules.take_back(&["usb:*".to_owned()], |_| false), 0);
        assert_eq!(rules.take_back(&["disk:*".to_owned(), "net:in".to_owned()], |_| false), 2);
        assert!(rules.entries().is_empty());
    }

    #[test]
    fn a_new_filter_takes_the_old_ones_place() {
        let mut rules = RuleList::new(&[Rule::record("net:*")]);
        rules.add(vec![Rule::filter("net:*", "len > 3").expect("a rule")]);
        assert_eq!(lines(&rules), ["net:*: len > 3"]);
        rules.add(vec![Rule::count("net:*", "by proto").expect("a rule")]);
        assert_eq!(rules.rules().count(), 2);
    }
}
