//! Which parts of a picture differ from the other capture.

use mote_hardware::paths::Difference;
use mote_view::page::{Change, Slice};
use std::collections::HashMap;

/// Paths that differ, by their names from the outermost on.
#[derive(Default)]
struct Places<'d> {
    inside: Vec<HashMap<&'d str, usize>>,
    changes: Vec<Option<Change>>,
}

/// The place of the root.
const ROOT: usize = 0;

impl<'d> Places<'d> {
    /// Those of a side.
    fn of(side: usize, differences: &'d [Difference]) -> Places<'d> {
        let mut places = Places::default();
        let root = places.add();
        for one in differences {
            let Some(change) = change(side, one) else { continue };
            let place = one.path.iter().fold(root, |place, named| places.enter(place, &named.name));
            places.changes[place] = Some(change);
        }
        places
    }

    fn add(&mut self) -> usize {
        self.inside.push(HashMap::new());
        self.changes.push(None);
        self.inside.len() - 1
    }

    fn enter(&mut self, place: usize, name: &'d str) -> usize {
        if let Some(inside) = self.inside[place].get(name) {
            return *inside;
        }
        let inside = self.add();
        self.inside[place].insert(name, inside);
        inside
    }
}

/// What a difference is for a side.
fn change(side: usize, one: &Difference) -> Option<Change> {
    if let Some(alone) = one.alone() {
        return (alone == side).then_some(Change::Alone);
    }
    let key = |side: usize| (one.instructions[side], one.calls[side]);
    Some(if key(side) > key(1 - side) { Change::More } else { Change::Less })
}

/// Marks the parts of a side's tree that the other one does not have so; with one that it has alone, all behind it.
pub(super) fn mark(root: &mut Slice, side: usize, differences: &[Difference]) {
    let places = Places::of(side, differences);
    let mut waiting = vec![(root, Some(ROOT), None)];
    while let Some((slice, place, inherited)) = waiting.pop() {
        slice.change = inherited.or_else(|| places.changes.get(place?).copied().flatten());
        let inherited = slice.change.filter(|change| *change == Change::Alone);
        for part in &mut slice.parts {
            let inside = place.and_then(|place| places.inside.get(place)?.get(part.name.as_str()).copied());
            waiting.push((part, inside, inherited));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_hardware::paths::Named;

    fn path(names: &str) -> Vec<Named> {
        names.split(' ').map(|name| Named { name: name.to_owned(), is_kernel: false }).collect()
    }

    fn slice(name: &str, parts: Vec<Slice>) -> Slice {
        Slice { name: name.to_owned(), own: 1, parts, ..Slice::default() }
    }

    #[test]
    fn parts_that_differ_are_marked_on_their_side() {
        let one =
            |names, calls, instructions| Difference { path: path(names), calls, instructions, paths: 1 };
        let differences = [
            one("main more", [None, Some(3)], [0, 30]),
            one("main work", [Some(1), Some(1)], [9, 5]),
            one("main often", [Some(1), Some(2)], [5, 5]),
        ];
        let tree = || {
            let more = slice("more", vec![slice("inner", Vec::new())]);
            let main = vec![more, slice("work", Vec::new()), slice("often", Vec::new())];
            slice("A", vec![slice("main", main), slice("work", Vec::new())])
        };
        let marked = |side| {
            let mut root = tree();
            mark(&mut root, side, &differences);
            let main = &root.parts[0];
            let all = [&root, main, &main.parts[0], &main.parts[0].parts[0], &main.parts[1], &main.parts[2]];
            let other = root.parts[1].change;
            assert_eq!(other, None, "another path has the name");
            all.map(|slice| slice.change)
        };
        use Change::{Alone, Less, More};
        assert_eq!(marked(0), [None, None, None, None, Some(More), Some(Less)]);
        assert_eq!(marked(1), [None, None, Some(Alone), Some(Alone), Some(Less), Some(More)]);
    }
}
