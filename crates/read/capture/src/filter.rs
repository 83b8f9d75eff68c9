//! Which addresses were traced, where a filter says so: its places are in files, and files are mapped somewhere.

use crate::note::{Image, Note, What};
use mote_perfdata::filter::{Filter, Place};
use std::ops::RangeInclusive;

/// The addresses that a filter chooses in processes with these notes; all, where there is none.
///
/// # Errors
/// The text is no filter.
pub(crate) fn addresses<'n>(
    text: &str,
    notes: impl Iterator<Item = &'n Note> + Clone,
) -> Result<Vec<RangeInclusive<u64>>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let no_names = |name: &str, _: &str| Err(format!("nobody knows where `{name}` was"));
    let filter = Filter::parse(text, &no_names)?;
    let (stops, traced): (Vec<&Place>, Vec<&Place>) = filter.places.iter().partition(|place| place.stops);
    let mapped = |places: &[&Place]| -> Vec<RangeInclusive<u64>> {
        places.iter().flat_map(|place| of_place(place, notes.clone())).collect()
    };
    // Without ranges that are traced, everything is that stops nothing.
    let mut all = if traced.is_empty() { vec![0..=u64::MAX] } else { mapped(&traced) };
    for stop in mapped(&stops) {
        all = all.iter().flat_map(|range| without(range, &stop)).collect();
    }
    all.sort_unstable_by_key(|range| *range.start());
    all.dedup();
    Ok(all)
}

/// Where a place is: that of a file, wherever that is mapped.
fn of_place<'n>(place: &Place, notes: impl Iterator<Item = &'n Note>) -> Vec<RangeInclusive<u64>> {
    let last = place.start.saturating_add(place.bytes - 1);
    let Some(file) = &place.file else { return vec![place.start..=last] };
    let images = notes.filter_map(|note| match &note.what {
        What::Image(image) if image.path == *file => Some(image),
        _ => None,
    });
    images.filter_map(|image| in_image(image, place.start, last)).collect()
}

/// Where a part of a file is mapped, from one byte to another.
fn in_image(image: &Image, first: u64, last: u64) -> Option<RangeInclusive<u64>> {
    let end = image.offset.checked_add(image.bytes.checked_sub(1)?)?;
    let (first, last) = (first.max(image.offset), last.min(end));
    let at = |offset: u64| image.start.checked_add(offset - image.offset);
    if first <= last { Some(at(first)?..=at(last)?) } else { None }
}

/// A range without another one.
fn without(range: &RangeInclusive<u64>, other: &RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
    let (start, end) = (*range.start(), *range.end());
    if *other.end() < start || end < *other.start() {
        return vec![range.clone()];
    }
    let before = other.start().checked_sub(1).map(|last| start..=last);
    let behind = other.end().checked_add(1).map(|first| first..=end);
    before.into_iter().chain(behind).filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(start: u64, offset: u64, bytes: u64) -> Note {
        let what = What::Image(Image { start, bytes, path: "/bin/app".into(), offset, build_id: None });
        Note { pid: 7, tid: 7, cpu: None, instructions: None, time: None, what }
    }

    fn check(text: &str, expect: &[RangeInclusive<u64>]) {
        let notes = [image(0x40_1000, 0x1000, 0x1000), image(0x7000_0000, 0x1000, 0x2000)];
        assert_eq!(addresses(text, notes.iter()).as_deref(), Ok(expect), "{text}");
    }

    #[test]
    fn places_of_files_are_where_these_are_mapped() {
        check("", &[]);
        let both = [0x40_1100..=0x40_113f, 0x7000_0100..=0x7000_013f];
        check("filter 0x1100/0x40@/bin/app", &both);
        // As perf has several.
        check(
            "filter 0x1100/0x20@/bin/app,filter 0x1120/0x20@/bin/other",
            &[0x40_1100..=0x40_111f, 0x7000_0100..=0x7000_011f],
        );
        check("filter 0xffffffff81000000/0x100", &[0xffff_ffff_8100_0000..=0xffff_ffff_8100_00ff]);
        // A part of it is mapped, once.
        check("filter 0x1f00/0x200@/bin/app", &[0x40_1f00..=0x40_1fff, 0x7000_0f00..=0x7000_10ff]);
        check("filter 0x8000/0x10@/bin/app", &[]);
    }

    #[test]
    fn what_stops_tracing_is_not_traced() {
        check(
            "stop 0xffffffff81000000/0x100",
            &[0..=0xffff_ffff_80ff_ffff, 0xffff_ffff_8100_0100..=u64::MAX],
        );
        check("stop 0x0/0x10", &[0x10..=u64::MAX]);
        check("filter 0x10/0x30 stop 0x20/0x10", &[0x10..=0x1f, 0x30..=0x3f]);
        check("filter 0x10/0x10 stop 0x0/0x100", &[]);
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let of = |text: &str| addresses(text, std::iter::empty());
        assert!(of("filter main@/bin/app").is_err_and(|why| why.contains("`main`")));
        assert!(of("trace everything").is_err());
    }
}
