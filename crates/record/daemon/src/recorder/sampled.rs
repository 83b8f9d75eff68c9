//! Functions that are sampled when rules ask for that (`fperf "db::*" for 2s`): their probes are in the code in these
//! times, and in no other.

use super::Recorder;
use crate::area::packets::{Asker, FunctionsRequest, Requests};
use crate::options::Options;
use crate::output::records::now;
use mote_journal::Fact;
use mote_session::Input;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most nanoseconds of one request: as many as a rule can have; a process may write more.
const MOST_NS: u64 = 3_600_000_000_000;

/// The functions, and when they are sampled.
pub(crate) struct Sampled {
    requests: Arc<Mutex<Requests>>,
    /// The patterns that rules had when the recording began.
    patterns: Vec<String>,
    /// Those that are sampled now, and until when, in nanoseconds of CLOCK_MONOTONIC.
    until: BTreeMap<String, u64>,
}

/// What has changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    begun: Vec<String>,
    ended: Vec<String>,
}

impl Sampled {
    /// Those that rules may have sampled, if there are some; none is sampled yet.
    pub(crate) fn of(options: &Options, requests: Arc<Mutex<Requests>>) -> Option<Sampled> {
        let patterns = options.asked_functions();
        (!patterns.is_empty()).then(|| Sampled::new(patterns, requests))
    }

    fn new(patterns: Vec<String>, requests: Arc<Mutex<Requests>>) -> Sampled {
        Sampled { requests, patterns, until: BTreeMap::new() }
    }

    /// How long it is until the next time is over.
    pub(super) fn patience(&self) -> Option<Duration> {
        let next = self.until.values().min()?;
        Some(Duration::from_nanos(next.saturating_sub(now())))
    }

    /// How it is, for a person.
    pub(super) fn status(&self) -> String {
        match self.until.keys().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => "\nfperf: no functions are sampled now; rules may ask for that".to_owned(),
            now => format!("\nfperf: sampled now: {}", now.join(", ")),
        }
    }

    fn take_requests(&self) -> Vec<FunctionsRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).take_functions()
    }

    /// Takes in what was asked for, by pattern and nanoseconds from now on, and ends what is over.
    fn take(&mut self, asked: impl Iterator<Item = (String, u64)>, now: u64) -> Changes {
        let mut changes = Changes::default();
        let asked = asked.map(|(pattern, ns)| (pattern, now.saturating_add(ns.min(MOST_NS))));
        for (pattern, until) in
            asked.filter(|(pattern, until)| self.patterns.contains(pattern) && *until > now)
        {
            let known = self.until.entry(pattern.clone()).or_insert_with(|| {
                changes.begun.push(pattern);
                until
            });
            *known = until.max(*known);
        }
        self.until.retain(|pattern, until| {
            let goes_on = *until > now;
            changes.ended.extend((!goes_on).then(|| pattern.clone()));
            goes_on
        });
        changes
    }
}

impl Recorder<'_> {
    /// Has functions sampled for which rules have asked since, and those no more whose time is over.
    pub(super) fn look_at_sampled(&mut self) {
        let Some(sampled) = &self.sampled else { return };
        let requests = sampled.take_requests();
        let asked: Vec<(String, u64)> = requests
            .into_iter()
            .filter_map(|FunctionsRequest { asker, pattern, ns }| {
                Some((self.function_pattern(asker, pattern)?.to_owned(), ns))
            })
            .collect();
        let Some(sampled) = &mut self.sampled else { return };
        let changes = sampled.take(asked.into_iter(), now());
        self.sample(changes);
    }

    /// The recording ends, and with it all that is sampled.
    pub(super) fn end_sampled(&mut self) {
        let Some(sampled) = &mut self.sampled else { return };
        let ended = std::mem::take(&mut sampled.until).into_keys().collect();
        self.note_sampled(&Changes { ended, begun: Vec::new() });
    }

    fn sample(&mut self, changes: Changes) {
        if changes == Changes::default() {
            return;
        }
        // What is noted is the time without a doubt: the probes are there a moment later, and gone a moment later.
        self.note_sampled(&changes);
        let now = self.sampled.iter().flat_map(|sampled| sampled.until.keys().cloned()).collect();
        self.take(Input::Sample(now));
    }

    fn note_sampled(&mut self, Changes { begun, ended }: &Changes) {
        let at = self.clock.source.ticks();
        let all =
            begun.iter().map(|pattern| (pattern, true)).chain(ended.iter().map(|pattern| (pattern, false)));
        for (pattern, is_on) in all {
            self.note(&Fact::Sampling { pattern: pattern.clone(), at, is_on });
        }
    }

    /// The pattern that the rules of a side have this number for; a process may have made it up.
    fn function_pattern(&self, asker: Asker, number: u64) -> Option<&str> {
        match asker {
            Asker::Process => self.session.filters().function_pattern(number),
            Asker::Kernel => {
                self.kernel.get().and_then(|kernel| kernel.wanting.rules.function_pattern(number))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::packets::Places;
    use crate::area::session::SessionArea;

    #[test]
    fn times_begin_anew_and_end() {
        let places = Arc::new(Places::new(SessionArea::new(false)));
        let requests = Arc::new(Mutex::new(Requests::new(places)));
        let mut sampled = Sampled::new(vec!["a".to_owned(), "b".to_owned()], requests);
        let mut take = |asked: &[(&str, u64)], now| {
            let asked = asked.iter().map(|(pattern, ns)| ((*pattern).to_owned(), *ns));
            let Changes { begun, ended } = sampled.take(asked, now);
            (begun.join(" "), ended.join(" "))
        };
        let changes = |begun: &str, ended: &str| (begun.to_owned(), ended.to_owned());
        assert_eq!(take(&[("a", 90), ("c", 90), ("b", 0)], 10), changes("a", ""));
        assert_eq!(take(&[("a", 100), ("b", 10), ("a", 70)], 50), changes("b", ""));
        assert_eq!(take(&[], 100), changes("", "b"));
        assert_eq!(take(&[], 150), changes("", "a"));
        assert_eq!(take(&[("a", u64::MAX)], 160), changes("a", ""));
        assert_eq!(take(&[], 160 + MOST_NS), changes("", "a"));
    }
}
