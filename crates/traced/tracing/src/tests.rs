//! Descriptions and packed values of what real callsites tell.

use crate::describe::{Point, describe};
use crate::layer::Layer;
use crate::values::Values;
use mote_layout::Level;
use mote_layout::parse::{FieldType, parse};
use std::sync::{Arc, Mutex};
use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Keeps the description and the values of every event and new span.
#[derive(Clone, Default)]
struct Keep(Arc<Mutex<Vec<Kept>>>);

type Kept = (String, Vec<u8>);

impl Keep {
    fn add(&self, metadata: &tracing_core::Metadata<'_>, point: Point, fill: impl FnOnce(&mut Values)) {
        Values::with(|values| {
            fill(values);
            let description = describe(metadata, point, values.shape()).into_string().expect("text");
            let (bytes, len) = values.packed();
            assert!(bytes.len() >= len.next_multiple_of(8), "the last word cannot be read");
            self.0.lock().expect("not poisoned").push((description, bytes[..len].to_vec()));
        });
    }
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.add(event.metadata(), Point::Event, |values| event.record(values));
    }

    fn on_new_span(
        &self,
        attributes: &tracing_core::span::Attributes<'_>,
        _: &tracing_core::span::Id,
        _: Context<'_, S>,
    ) {
        self.add(attributes.metadata(), Point::New, |values| attributes.record(values));
    }
}

/// The one event that `emit` makes: its description, and its values without the ids.
fn one(emit: impl FnOnce()) -> Kept {
    let keep = Keep::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(keep.clone()), emit);
    let mut all = keep.0.lock().expect("not poisoned");
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// Checks the name, level and fields that the description of `emit`'s event has.
#[track_caller]
fn check(emit: impl FnOnce(), name: &str, level: Level, fields: &[&str]) -> Vec<u8> {
    let (text, bytes) = one(emit);
    let read = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    assert_eq!(format!("{}:{}", read.provider, read.name), name);
    assert_eq!(read.level, level);
    assert!(read.file.ends_with("tests.rs") && read.line > 0, "{}:{}", read.file, read.line);
    let found: Vec<String> = read
        .fields()
        .map(|field| match field.ty {
            FieldType::Scalar(scalar) => format!("{} {}", field.name, scalar.name()),
            FieldType::Str => format!("{} str", field.name),
            FieldType::Bytes => format!("{} bytes", field.name),
            other => panic!("unexpected type {other:?}"),
        })
        .collect();
    assert_eq!(found, fields);
    bytes
}

#[test]
fn every_type_of_field_has_its_own() {
    let bytes = check(
        || {
            tracing::info!(
                name: "all types",
                target: "app::net",
                a = 1_u8, b = -2_i32, c = 0.5, d = true, e = "text", f = &b"\x07\x08"[..], g = ?Some(1), "m{}", 1
            );
        },
        "app.net:all_types",
        Level::Info,
        &["span u64", "message str", "a u64", "b i64", "c f64", "d bool", "e str", "f bytes", "g str"],
    );
    let mut expected = b"m1\0".to_vec();
    expected.extend(1_u64.to_le_bytes());
    expected.extend((-2_i64).to_le_bytes());
    expected.extend(0.5_f64.to_le_bytes());
    expected.push(1);
    expected.extend(b"text\0\x02\0\x07\x08Some(1)\0");
    assert_eq!(bytes, expected);
}

#[test]
fn odd_names_become_names_that_traces_can_hold() {
    // The place is a part of the name: the line of the macro.
    let line = line!() + 1;
    let odd = || tracing::warn!(target: "a b::\"c\"\n", span = 2, "not a name:\n" = 1, "é" = 3);
    let fields = ["span u64", "span_ i64", "not_a_name__ i64", "_ i64"];
    check(odd, &format!("a_b._c__:tests_{line}"), Level::Warning, &fields);
    let empty = || tracing::trace!(target: "", "");
    check(empty, &format!("tracing:tests_{}", line + 3), Level::DebugLine, &["span u64", "message str"]);
}

#[test]
fn a_span_describes_only_the_values_that_it_has() {
    check(
        || drop(tracing::debug_span!(target: "app", "handle", path = "/", status = tracing::field::Empty)),
        "app:handle_new",
        Level::DebugFunction,
        &["span u64", "parent u64", "path str"],
    );
}

#[test]
fn text_ends_at_a_nul_and_too_much_of_it_is_too_big_for_an_event() {
    let (_, bytes) = one(|| tracing::info!(a = "be\0hind", b = %"x\0y", c = 1_u64));
    assert_eq!(bytes, b"be\0x\0\x01\0\0\0\0\0\0\0");
    let long = "x".repeat(1 << 20);
    let (_, bytes) = one(|| tracing::info!(long));
    assert!(bytes.len() > mote_layout::record::FIELDS_MAX && bytes.len() < 70_000, "{}", bytes.len());
}

/// With a global subscriber a value's `Debug` may come back here, to the same thread's buffers.
#[test]
fn a_value_that_emits_events_itself_does_not_disturb() {
    Values::with(|outer| {
        outer.add_id(1);
        Values::with(|inner| {
            inner.add_id(2);
            assert_eq!(inner.packed(), (&[2_u64.to_le_bytes(), [0; 8]].concat()[..], 8));
        });
        outer.add_id(3);
        assert_eq!(outer.packed().1, 16);
    });
}

/// Our layer, which also compares what it knows of spans with what the registry knows.
struct Compared(Layer, Arc<Mutex<Vec<(u64, u64)>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Compared {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.0.on_new_span(attributes, id, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.0.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.0.on_exit(id, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let theirs = context.event_span(event).map_or(0, |span| crate::layer::id_of(&span));
        self.1.lock().expect("not poisoned").push((self.0.span_of(event, &context), theirs));
    }
}

#[test]
fn the_span_of_an_event_is_the_registrys_however_spans_are_entered() {
    let found = Arc::new(Mutex::new(Vec::new()));
    let compared = || tracing_subscriber::registry().with(Compared(Layer::new(), found.clone()));
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut play = || {
        let spans: Vec<_> = (0..4).map(|number| tracing::info_span!("one", number)).collect();
        let mut entered = Vec::new();
        for _ in 0..2000 {
            if roll(2) == 0 && entered.len() < 8 {
                entered.push(spans[roll(4) as usize].enter());
            } else if !entered.is_empty() {
                // Out of turn as often as not.
                drop(entered.remove(roll(entered.len() as u64) as usize));
            }
            tracing::info!("somewhere");
            tracing::info!(parent: None, "outside");
            tracing::info!(parent: &spans[0], "said");
        }
    };
    // A thread with one subscriber, then one with a second inside of a span of the first.
    tracing::subscriber::with_default(compared(), || {
        play();
        let around = tracing::info_span!("around");
        let _inside = around.enter();
        tracing::subscriber::with_default(compared(), &mut play);
        play();
    });
    let found = std::mem::take(&mut *found.lock().expect("not poisoned"));
    assert_eq!(found.len(), 3 * 3 * 2000);
    for (at, (ours, registrys)) in found.iter().enumerate() {
        assert_eq!(ours, registrys, "event {at}");
    }
    assert!(found.iter().filter(|(ours, _)| *ours != 0).count() > found.len() / 2);
}

#[test]
fn a_filters_context_has_the_values() {
    #[derive(Clone, Default)]
    struct Look(Arc<Mutex<Vec<u64>>>);
    impl<S: Subscriber> tracing_subscriber::Layer<S> for Look {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            Values::with(|values| {
                values.add_id(77);
                event.record(values);
                *self.0.lock().expect("not poisoned") = values.words(1).to_vec();
            });
        }
    }
    let look = Look::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(look.clone()), || {
        tracing::info!(a = -3i64, b = 7u64, c = 1.5f64, d = true, e = "text", f = 2u64, g = "");
    });
    let words = look.0.lock().expect("not poisoned").clone();
    assert_eq!(words[..5], [77, -3i64 as u64, 7, 1.5f64.to_bits(), 1]);
    assert_eq!((words[6] - words[5], words[7], words[9] - words[8], words.len()), (4, 2, 0, 10));
}
