//! Traces whose events are all written here: metadata and packets of one plain form.
//!
//! For traces that are made of something else, as a recording is converted or a result is written down. Packets have a
//! magic number, the stream class 0, their begin and end, sizes, and the CPU; events have a class, a time stamp, and
//! perhaps a context that all share. All fields lie at bytes, the low byte first.

use crate::decode::PACKET_MAGIC;
use crate::model::{
    Base, ClockClass, EnvValue, EventClass, FieldClass, IntClass, Roles, StreamClass, StructClass, TraceClass,
};

/// Bytes of events from which on a packet ends.
const PACKET_BYTES: usize = 64 << 10;

/// The class of a trace: the `cpu_id` is in the context of packets, `common` in that of events.
#[must_use]
pub fn trace_class(
    environment: Vec<(String, EnvValue)>,
    clock: ClockClass,
    common: Option<StructClass>,
    events: Vec<EventClass>,
) -> TraceClass {
    let int = |bits: u32, roles: Roles| FieldClass::Int(IntClass::new(bits, false).with_roles(roles));
    let time = |roles: Roles| FieldClass::Int(IntClass::new(64, false).with_roles(roles).with_clock(0));
    let magic = IntClass::new(32, false).with_roles(Roles::PACKET_MAGIC).with_base(Base::Hexadecimal);
    let stream = StreamClass {
        id: 0,
        clock: Some(0),
        packet_context: Some(StructClass::new([
            ("timestamp_begin", time(Roles::TIMESTAMP)),
            ("timestamp_end", time(Roles::PACKET_END_TIMESTAMP)),
            ("content_size", int(64, Roles::CONTENT_LENGTH)),
            ("packet_size", int(64, Roles::TOTAL_LENGTH)),
            ("cpu_id", int(32, Roles::NONE)),
        ])),
        event_header: Some(StructClass::new([
            ("id", int(32, Roles::EVENT_CLASS_ID)),
            ("timestamp", time(Roles::TIMESTAMP)),
        ])),
        common_context: common,
        events,
        ..StreamClass::default()
    };
    TraceClass {
        environment,
        packet_header: Some(StructClass::new([
            ("magic", FieldClass::Int(magic)),
            ("stream_id", int(32, Roles::STREAM_CLASS_ID)),
        ])),
        clocks: vec![clock],
        streams: vec![stream],
        ..TraceClass::default()
    }
}

/// A stream of such a trace: events become packets, which the owner of the file takes.
#[derive(Debug)]
pub struct Stream {
    cpu: u32,
    events: Vec<u8>,
    /// The first and the last time of these.
    times: Option<(u64, u64)>,
    packets: Vec<u8>,
}

impl Stream {
    /// A stream of events of a CPU, or of whatever has a number.
    #[must_use]
    pub fn new(cpu: u32) -> Stream {
        Stream { cpu, events: Vec::new(), times: None, packets: Vec::new() }
    }

    /// Adds an event. `fields` are the common context, if there is one, and the payload. An event that is before the
    /// last one begins a packet.
    pub fn event(&mut self, id: u32, time: u64, fields: &[&[u8]]) {
        if self.events.len() >= PACKET_BYTES || self.times.is_some_and(|(_, last)| time < last) {
            self.end_packet();
        }
        self.times = Some((self.times.map_or(time, |(first, _)| first), time));
        self.events.extend(id.to_le_bytes());
        self.events.extend(time.to_le_bytes());
        fields.iter().for_each(|field| self.events.extend_from_slice(field));
    }

    /// Takes the packets that are whole: to be written behind those before.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.packets)
    }

    /// Takes what is left.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.end_packet();
        self.packets
    }

    fn end_packet(&mut self) {
        let Some((first, last)) = self.times.take() else { return };
        [PACKET_MAGIC, 0].iter().for_each(|word| self.packets.extend(word.to_le_bytes()));
        // Two times, two sizes and the CPU follow.
        let bits = (8 + 4 * 8 + 4 + self.events.len()) as u64 * 8;
        [first, last, bits, bits].iter().for_each(|value| self.packets.extend(value.to_le_bytes()));
        self.packets.extend(self.cpu.to_le_bytes());
        self.packets.append(&mut self.events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fields, Packet, Schema};

    #[test]
    fn what_is_written_is_read() {
        let fields = StructClass::new([("size", FieldClass::uint(16))]);
        let common = StructClass::new([("vtid", FieldClass::uint(32))]);
        let event = |id, name: &str| EventClass {
            id,
            name: name.to_owned(),
            payload: Some(fields.clone()),
            ..EventClass::default()
        };
        let events = vec![event(0, "a:one"), event(7, "a:seven")];
        let class = trace_class(Vec::new(), ClockClass::default(), Some(common), events);
        let schema =
            Schema::parse(super::super::tsdl(&class).expect("metadata").as_bytes()).expect("a schema");
        let mut stream = Stream::new(3);
        let mut expected = vec![(0, 100, 5, 1), (7, 200, 6, 2), (7, 150, 6, 3)];
        expected.extend((0..9000).map(|number| (7, 151 + number, 8, number as u16)));
        let mut bytes = Vec::new();
        for (id, time, tid, size) in &expected {
            stream.event(*id, *time, &[&u32::to_le_bytes(*tid), &size.to_le_bytes()]);
            bytes.append(&mut stream.take());
        }
        bytes.append(&mut stream.finish());
        let (mut at, mut packets, mut found) = (0, 0, Vec::new());
        let number = |fields: Fields<'_>, name| fields.integer(name).expect("a number");
        while at < bytes.len() {
            let mut packet = Packet::new(&schema, &bytes[at..]).expect("a packet");
            assert_eq!(packet.header.cpu_id, Some(3));
            (at, packets) = (at + packet.header.packet_bytes().expect("a size") as usize, packets + 1);
            while let Some(event) = packet.next_event().expect("an event") {
                let (tid, size) = (number(event.common(), "vtid"), number(event.payload(), "size"));
                found.push((event.class.id as u32, event.timestamp, tid as u32, size as u16));
            }
        }
        assert_eq!(packets, 4);
        assert!(found == expected, "{:?}", &found[..5]);
    }
}
