//! The layer: what tracing tells, put into events.

use crate::callsite::Callsite;
use crate::describe::Point;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Records the events and spans of a `tracing` subscriber as mote events. Made by [`layer`](crate::layer).
#[derive(Debug)]
pub struct Layer(());

impl Layer {
    pub(crate) fn new() -> Layer {
        Layer(())
    }
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        Callsite::of(event.metadata()).record(Point::Event, |values| {
            values.add_id(context.event_span(event).map_or(0, |span| span.id().into_u64()));
            event.record(values);
        });
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        Callsite::of(attributes.metadata()).record(Point::New, |values| {
            let parent = context.span(id).and_then(|span| span.parent());
            values.add_id(id.into_u64());
            values.add_id(parent.map_or(0, |parent| parent.id().into_u64()));
            attributes.record(values);
        });
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            Callsite::of(metadata).record(Point::Record, |values| {
                values.add_id(id.into_u64());
                record.record(values);
            });
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            Callsite::of(metadata).record(Point::Follows, |values| {
                values.add_id(id.into_u64());
                values.add_id(follows.into_u64());
            });
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        record_id(Point::Enter, id, &context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        record_id(Point::Exit, id, &context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        record_id(Point::Close, &id, &context);
    }
}

fn record_id<S>(point: Point, id: &Id, context: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if let Some(metadata) = context.metadata(id) {
        Callsite::of(metadata).record(point, |values| values.add_id(id.into_u64()));
    }
}
