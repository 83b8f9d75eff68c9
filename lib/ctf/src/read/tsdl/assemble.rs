//! Puts the blocks together: clocks in order, events into streams, references to their targets.

use super::{EventBlock, Parsed, Reader, resolve};
use crate::error::{MetadataError, MetadataFault};
use crate::model::{ClockClass, Origin, Roles, StreamClass, StructClass};
use crate::read::roles::{has_role, infer};
use crate::read::{ClassPlaces, Metadata};
use std::collections::HashMap;

impl Reader<'_> {
    pub(super) fn finish(mut self) -> Result<Metadata, MetadataError> {
        let mut places = ClassPlaces { trace: self.trace_at, ..ClassPlaces::default() };
        self.add_clocks(&mut places)?;
        if self.trace.env_str("tracer_name").is_some_and(|name| name.starts_with("lttng")) {
            // LTTng's clocks say nothing and count from 1970.
            self.trace.clocks.iter_mut().for_each(|clock| clock.origin = Origin::UnixEpoch);
        }
        let indices = self.add_streams(&mut places)?;
        for block in std::mem::take(&mut self.events) {
            self.add_event(block, &indices, &mut places)?;
        }
        let mut trace = self.trace;
        let parser = self.parser;
        resolve::resolve(&mut trace, &places).or_else(|(kind, at)| parser.fault_at(at, kind))?;
        let mut oddities = parser.oddities;
        if let Err((kind, part)) = infer(&mut trace, &places, &mut oddities) {
            return Err(crate::read::place(parser.text, places.of(part), kind));
        }
        let metadata = Metadata { trace, oddities, places };
        check_ids(&metadata).map_err(|(kind, at)| crate::read::place(parser.text, at, kind))?;
        Ok(metadata)
    }

    fn add_clocks(&mut self, places: &mut ClassPlaces) -> Parsed<()> {
        self.clocks.resize(self.parser.clocks.len(), None);
        for (clock, first) in std::mem::take(&mut self.clocks).into_iter().zip(&self.parser.clock_places) {
            let Some((clock, at)) = clock else {
                return self.parser.fault_at(*first, MetadataFault::Unknown("clock of an integer's `map`"));
            };
            self.trace.clocks.push(ClockClass { ..clock });
            places.clocks.push(at);
        }
        Ok(())
    }

    /// Adds the streams; returns their indices by their numbers.
    fn add_streams(&mut self, places: &mut ClassPlaces) -> Parsed<HashMap<u64, usize>> {
        let several = self.streams.len() > 1;
        let mut indices = HashMap::new();
        for block in std::mem::take(&mut self.streams) {
            if several && !block.has_id {
                return self
                    .parser
                    .fault_at(block.at, MetadataFault::Expected("`id` in each of several streams"));
            }
            if indices.insert(block.class.id, self.trace.streams.len()).is_some() {
                return self.parser.fault_at(block.at, MetadataFault::Duplicate("stream"));
            }
            self.trace.streams.push(block.class);
            places.streams.push(block.at);
        }
        if self.trace.streams.is_empty() {
            indices.insert(0, 0);
            self.trace.streams.push(StreamClass::default());
            places.streams.push(self.trace_at);
        }
        places.events.resize(self.trace.streams.len(), Vec::new());
        Ok(indices)
    }

    fn add_event(
        &mut self,
        block: EventBlock,
        indices: &HashMap<u64, usize>,
        places: &mut ClassPlaces,
    ) -> Parsed<()> {
        let index = match block.stream {
            Some(id) => indices.get(&id).copied(),
            None if self.trace.streams.len() == 1 => Some(0),
            None => {
                let fault = MetadataFault::Expected("`stream_id`: there are several streams");
                return self.parser.fault_at(block.at, fault);
            }
        };
        let found =
            index.and_then(|index| Some((self.trace.streams.get_mut(index)?, places.events.get_mut(index)?)));
        let Some((stream, places)) = found else {
            return self.parser.fault_at(block.at, MetadataFault::Unknown("stream of an event"));
        };
        if !block.has_id && !stream.events.is_empty() {
            return self.parser.fault_at(block.at, MetadataFault::Expected("`id` in each of several events"));
        }
        stream.events.push(block.class);
        places.push(block.at);
        Ok(())
    }
}

/// Checks that packets and events tell their classes where there are several (CTF 1.8 sections 5.1 and 6.1.1).
fn check_ids(metadata: &Metadata) -> Result<(), (MetadataFault, usize)> {
    let has = |class: &Option<StructClass>, role: Roles| {
        class.iter().flat_map(|class| &class.members).any(|member| has_role(&member.class, role))
    };
    let Metadata { trace, places, .. } = metadata;
    if trace.streams.len() > 1 && !has(&trace.packet_header, Roles::STREAM_CLASS_ID) {
        let fault = MetadataFault::Expected("`stream_id` in `packet.header`: there are several streams");
        return Err((fault, places.trace));
    }
    for (stream, at) in trace.streams.iter().zip(&places.streams) {
        if stream.events.len() > 1 && !has(&stream.event_header, Roles::EVENT_CLASS_ID) {
            return Err((MetadataFault::Expected("`id` in `event.header`: there are several events"), *at));
        }
    }
    Ok(())
}
