//! Filters by address: as perf writes them, and by the names of functions.

use crate::hardware;
use anyhow::anyhow;
use mote_functions::{Lists, Object, Pattern, similar_names};
use mote_pattern::listed;
use mote_pmu::{Filter, Place};
use mote_symbol::Image;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// Reads a filter as perf writes it: `filter main @ ./app`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> anyhow::Result<Filter> {
    hardware::filter(text).map_err(|why| anyhow!("--filter: {why}"))
}

/// The same places, for packets that are synthesized.
pub(super) fn places(filter: Option<&Filter>) -> Vec<mote_synth::Place> {
    let place = |Place { stops, start, bytes, file }: &Place| mote_synth::Place {
        stops: *stops,
        file: file.clone(),
        at: *start..start.saturating_add(*bytes),
    };
    filter.map(|filter| filter.places.iter().map(place).collect()).unwrap_or_default()
}

/// Functions that were named, in the files that a program maps.
#[derive(Debug)]
pub(super) struct Functions {
    patterns: Vec<Pattern>,
    /// Those whose functions none is meant of.
    unfit: RefCell<Vec<Object>>,
    count: Cell<usize>,
}

impl Functions {
    /// By lists of patterns, with commas between them.
    ///
    /// # Errors
    /// What is wrong with one.
    pub(super) fn named(lists: &[String]) -> anyhow::Result<Rc<Functions>> {
        let patterns = lists.iter().flat_map(|list| listed(list)).map(Pattern::new);
        let patterns: Vec<Pattern> =
            patterns.collect::<Result<_, _>>().map_err(|why| anyhow!("--functions: {why}"))?;
        Ok(Rc::new(Functions { patterns, unfit: RefCell::default(), count: Cell::default() }))
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Where they are in a file; nowhere in one that cannot be read.
    pub(super) fn parts(&self, path: &Path) -> Vec<Range<u64>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !self.patterns.iter().any(|pattern| pattern.fits_file(&name)) {
            return Vec::new();
        }
        let (Ok(image), Ok(object)) = (Image::open(path), Object::of_file(path, &Lists::default())) else {
            return Vec::new();
        };
        let part = |start: u64, bytes: u64| {
            let offset = image.offset_of(start)?;
            Some(offset..offset.saturating_add(bytes))
        };
        let meant = object.meant(&self.patterns);
        let parts: Vec<_> = meant.iter().filter_map(|one| part(one.address, one.len)).collect();
        self.count.set(self.count.get() + parts.len());
        if parts.is_empty() {
            self.unfit.borrow_mut().push(object);
        }
        parts
    }

    /// What is to be said where none was found.
    pub(super) fn why_none(&self) -> Option<String> {
        let pattern = self.patterns.first().filter(|_| self.count.get() == 0)?;
        let similar = similar_names(&self.unfit.borrow(), pattern);
        Some(format!("nothing was traced: no function of the code that was mapped is called so{similar}"))
    }
}
