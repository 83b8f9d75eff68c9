//! The layer: what tracing tells, put into events.

use crate::callsite::Callsite;
use crate::describe::Point;
use crate::entered::{self, Owner};
use crate::ids;
use crate::values::Values;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// Records the events and spans of a `tracing` subscriber as mote events. Made by [`layer`](crate::layer).
#[derive(Debug)]
pub struct Layer(Owner);

impl Layer {
    pub(crate) fn new() -> Layer {
        Layer(Owner::new())
    }

    /// Our id of the span that an event is in; 0 when it is in none.
    pub(crate) fn span_of<S>(&self, event: &Event<'_>, context: &Context<'_, S>) -> u64
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let known = if event.is_contextual() { entered::current(self.0) } else { None };
        known.unwrap_or_else(|| context.event_span(event).map_or(0, |span| id_of(&span)))
    }
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        Callsite::of(event.metadata()).record(Point::Event, |values| {
            values.add_id(self.span_of(event, &context));
            event.record(values);
        });
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let id = name_span(&span);
        Callsite::of(attributes.metadata()).record(Point::New, |values| {
            values.add_id(id);
            values.add_id(span.parent().map_or(0, |parent| id_of(&parent)));
            attributes.record(values);
        });
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        at(Point::Record, id, &context, |values| record.record(values));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        at(Point::Follows, id, &context, |values| {
            values.add_id(context.span(follows).map_or(0, |span| id_of(&span)));
        });
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let (ours, callsite) = (id_of(&span), Callsite::of(span.metadata()));
        entered::enter(self.0, id, ours, callsite);
        callsite.record(Point::Enter, |values| values.add_id(ours));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        match entered::exit(self.0, id) {
            Some((ours, callsite)) => callsite.record(Point::Exit, |values| values.add_id(ours)),
            None => at(Point::Exit, id, &context, |_| ()),
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        at(Point::Close, &id, &context, |_| ());
    }
}

/// Our id of a span, kept with it: the registry uses its own ones again.
struct SpanId(u64);

/// Gives a span an id, unless another layer of ours has done so.
fn name_span<'a, R: LookupSpan<'a>>(span: &SpanRef<'a, R>) -> u64 {
    let mut extensions = span.extensions_mut();
    if let Some(SpanId(id)) = extensions.get_mut() {
        return *id;
    }
    let id = ids::next();
    extensions.replace(SpanId(id));
    id
}

/// Our id of a span; 0 of one that this layer has not seen made.
pub(crate) fn id_of<'a, R: LookupSpan<'a>>(span: &SpanRef<'a, R>) -> u64 {
    span.extensions().get().map_or(0, |SpanId(id)| *id)
}

/// Records what happens to a span: its id, then what `fill` adds.
fn at<S>(point: Point, id: &Id, context: &Context<'_, S>, fill: impl FnOnce(&mut Values))
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some(span) = context.span(id) else { return };
    Callsite::of(span.metadata()).record(point, |values| {
        values.add_id(id_of(&span));
        fill(values);
    });
}
