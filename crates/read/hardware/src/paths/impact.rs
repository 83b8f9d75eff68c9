//! What a tracer adds to a program: by event, and beside events.
//!
//! The instructions that a traced run has more than a bare one are of two kinds. Some are executed for each event: they
//! are the tracer's impact (Sharma 2017, section 5.4.5). Others are executed whatever the number of events is: to find
//! the recorder, to map its buffers, in threads of its own. Divided by the number of events, both together are a number
//! that becomes smaller with each event more; so they are told apart, by how often their paths were gone.

use super::diff::{Difference, Side, diff};
use super::functions::Named;
use std::collections::BTreeSet;

/// What the second one of two runs has more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impact {
    /// How many events it has for which instructions are counted.
    pub events: u64,
    /// Instructions of both.
    pub instructions: [u64; 2],
    /// All differences, as [`diff`] has them; and whether they are of events.
    pub differences: Vec<(Difference, bool)>,
}

impl Impact {
    /// Compares a bare run with one in which a tracer has recorded so many events.
    ///
    /// A path is one of events where one of both runs has called it at least `least` times, together with all paths
    /// behind it; and so is a caller of such a path that executes itself at least as many instructions more, or less.
    /// That is how many events there are of one kind; [`Impact::usual`] says it of several.
    #[must_use]
    pub fn of(sides: [Side<'_>; 2], events: u64, least: u64) -> Impact {
        let differences = diff(sides);
        let called: BTreeSet<&[Named]> = differences
            .iter()
            .filter(|one| least > 0 && one.calls.iter().flatten().any(|calls| *calls >= least))
            .map(|one| one.path.as_slice())
            .collect();
        let is_behind = |path: &[Named]| (1..=path.len()).any(|length| called.contains(&path[..length]));
        let is_caller = |path: &[Named]| called.iter().any(|called| called.starts_with(path));
        let is_of_events = |one: &Difference| {
            let grows = one.alone().is_none() && one.more().unsigned_abs() >= u128::from(least);
            is_behind(&one.path) || (grows && is_caller(&one.path))
        };
        let are: Vec<bool> = differences.iter().map(is_of_events).collect();
        Impact {
            events,
            instructions: sides.map(|side| side.tree.total()),
            differences: differences.into_iter().zip(are).collect(),
        }
    }

    /// Of kinds of events, by how many there are of each: those that nineteen of twenty events are of. Returns how many
    /// these are together, and of the rarest of them; what is rarer counts as what is executed once.
    #[must_use]
    pub fn usual(kinds: impl IntoIterator<Item = u64>) -> (u64, u64) {
        let mut kinds: Vec<u64> = kinds.into_iter().collect();
        kinds.sort_unstable_by(|one, other| other.cmp(one));
        let all: u64 = kinds.iter().sum();
        let mut sum = 0;
        for kind in kinds {
            sum += kind;
            if u128::from(sum) * 20 >= u128::from(all) * 19 {
                return (sum, kind);
            }
        }
        (0, 0)
    }

    /// How many instructions the traced run has more.
    #[must_use]
    pub fn more(&self) -> i128 {
        i128::from(self.instructions[1]) - i128::from(self.instructions[0])
    }

    /// How many of these are on the paths of events.
    #[must_use]
    pub fn of_events(&self) -> i128 {
        self.differences.iter().filter(|(_, is_of_events)| *is_of_events).map(|(one, _)| one.more()).sum()
    }

    /// Instructions for each event; nothing without events.
    #[must_use]
    pub fn for_each(&self, instructions: i128) -> Option<f64> {
        (self.events > 0).then(|| instructions as f64 / self.events as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::functions::Functions;
    use crate::paths::tree::{ROOT, Tree};
    use mote_pt::time::Span;

    /// A tree of lines `a;b;c`: own instructions, and how often it was called.
    fn tree(lines: &[(&str, u64, u64)], functions: &mut Functions) -> Tree {
        let mut tree = Tree::default();
        for (line, own, calls) in lines {
            let mut node = ROOT;
            for name in line.split(';') {
                node = tree.child(node, functions.number(&Named { name: name.to_owned(), is_kernel: false }));
            }
            tree.spend(node, *own, Span::UNKNOWN, Span::UNKNOWN);
            tree.node_mut(node).into_iter().for_each(|node| node.calls += calls);
        }
        tree
    }

    fn check(bare: &[(&str, u64, u64)], traced: &[(&str, u64, u64)], of_events: i128, names: &[&str]) {
        let (mut of_bare, mut of_traced) = (Functions::default(), Functions::default());
        let (bare, traced) = (tree(bare, &mut of_bare), tree(traced, &mut of_traced));
        let sides = [(&bare, &of_bare), (&traced, &of_traced)];
        let impact = Impact::of(sides.map(|(tree, functions)| Side { tree, functions }), 100, 100);
        let found: BTreeSet<&str> = impact
            .differences
            .iter()
            .filter(|(_, is_of_events)| *is_of_events)
            .map(|(one, _)| one.path.last().map_or("", |named| named.name.as_str()))
            .collect();
        assert_eq!((impact.of_events(), found), (of_events, names.iter().copied().collect()));
        assert_eq!(impact.more(), i128::from(traced.total()) - i128::from(bare.total()));
    }

    #[test]
    fn what_is_once_is_no_impact_of_events() {
        let bare = [("main", 1000, 0), ("main;work", 700, 100), ("load", 50, 1)];
        // The event is in line: its caller executes 5 more each time; and the way out of line is gone twice.
        let traced = [
            ("main", 1500, 0),
            ("main;work", 700, 100),
            ("main;probe", 4000, 100),
            ("main;probe;full", 600, 2),
            ("main;connect", 9000, 1),
            ("main;connect;parse", 9000, 500),
            ("load", 5000, 1),
        ];
        check(&bare, &traced, 5100, &["main", "probe"]);
    }

    #[test]
    fn kinds_that_are_rare_are_not_those_of_most_events() {
        for (kinds, expect) in [
            (&[][..], (0, 0)),
            (&[100], (100, 100)),
            (&[1, 3000, 1], (3000, 3000)),
            (&[50, 40, 10], (100, 10)),
            (&[7, 7], (14, 7)),
        ] {
            assert_eq!(Impact::usual(kinds.iter().copied()), expect, "{kinds:?}");
        }
    }

    #[test]
    fn a_function_that_is_wrapped_has_more_itself_and_calls_another_one() {
        let bare = [("main", 1000, 0), ("main;work", 700, 100)];
        let traced = [("main", 1000, 0), ("main;work", 1900, 100), ("main;work;work", 700, 100)];
        check(&bare, &traced, 1900, &["work"]);
    }

    #[test]
    fn a_path_that_another_one_takes_the_place_of_counts_less() {
        let bare = [("main", 1000, 0), ("main;old", 700, 100)];
        let traced = [("main", 1000, 0), ("main;new", 900, 100)];
        check(&bare, &traced, 200, &["new", "old"]);
        let none = Impact { events: 0, instructions: [3, 9], differences: Vec::new() };
        assert_eq!((none.more(), none.for_each(none.more())), (6, None));
    }
}
