//! What is known of each callsite: the mote events that have come from it.
//!
//! tracing tells the types of fields only with their values, so a callsite has a list of variants, nearly always
//! of one: for each shape that its values had, the event that was announced to the session.

use crate::describe::{Point, describe};
use crate::list::List;
use crate::values::{Shape, Values};
use mote::DynamicEvent;
use mote_layout::context::{DROP, RECORD};
use mote_ring::Fragment;
use tracing_core::Metadata;

/// Payloads up to this size are copied in words, larger ones as a whole (`mote::emit` has the same bound).
const SMALL_BYTES: usize = 256;

/// A callsite that was passed at least once.
pub(crate) struct Callsite {
    metadata: &'static Metadata<'static>,
    points: [List<Variant>; Point::COUNT],
}

/// The event for values of one shape.
struct Variant {
    shape: Box<Shape>,
    event: DynamicEvent,
}

const BUCKETS: usize = 256;
static CALLSITES: [List<Callsite>; BUCKETS] = [const { List::new() }; BUCKETS];

impl Callsite {
    /// The callsite with this metadata.
    pub(crate) fn of(metadata: &'static Metadata<'static>) -> &'static Callsite {
        let address = (&raw const *metadata).addr();
        #[expect(clippy::indexing_slicing, reason = "modulo the number of buckets: there is one")]
        let bucket = &CALLSITES[address / align_of::<Metadata<'_>>() % BUCKETS];
        bucket.iter().find(|known| std::ptr::eq(known.metadata, metadata)).unwrap_or_else(|| {
            let points = [const { List::new() }; Point::COUNT];
            bucket.push(Callsite { metadata, points }, |_| ())
        })
    }

    /// Records what happens at `point`, if it is on: `fill` adds the values.
    pub(crate) fn record(&self, point: Point, fill: impl FnOnce(&mut Values)) {
        let variants = self.variants(point);
        // The session chooses by name and level, which all variants share: one is off when any is.
        if variants.iter().next().is_some_and(|variant| !variant.event.event.is_on()) {
            return;
        }
        Values::with(|values| {
            fill(values);
            let known = variants.iter().find(|variant| *variant.shape == *values.shape());
            let variant = known.unwrap_or_else(|| self.add_variant(point, values.shape()));
            variant.write(point, values);
        });
    }

    fn variants(&self, point: Point) -> &List<Variant> {
        #[expect(clippy::indexing_slicing, reason = "as many as there are points")]
        &self.points[point as usize]
    }

    /// Announces the event for values of this shape. It is announced before others can find it: none is missed.
    #[cold]
    fn add_variant(&self, point: Point, shape: &Shape) -> &'static Variant {
        let description = Box::leak(describe(self.metadata, point, shape).into_boxed_c_str());
        let variant = Variant { shape: shape.into(), event: DynamicEvent::new(description) };
        self.variants(point).push(variant, |variant| mote::announce(&variant.event))
    }
}

impl Variant {
    fn write(&self, point: Point, values: &mut Values) {
        let event = &self.event.event;
        let verdict = if event.is_gated() {
            // SAFETY: the words are those of `describe`, which goes by the same point and shape.
            unsafe { event.judge(values.words(point.ids().len()).as_ptr()) }
        } else {
            RECORD
        };
        if verdict == DROP {
            return;
        }
        let (bytes, len) = values.packed();
        let from = bytes.as_ptr();
        if len <= SMALL_BYTES {
            // SAFETY: `packed` has 8 readable bytes behind the `len` of the values, so the last word is whole.
            event.noting_here(|| unsafe {
                mote::__private::record_judged(event, from, len, verdict);
            });
        } else {
            // SAFETY: `len` bytes of `bytes`, which lives until the call returns.
            event.noting_here(|| unsafe {
                mote::__private::record_fragments(event, &[Fragment { from, len }], len, verdict);
            });
        }
    }
}
