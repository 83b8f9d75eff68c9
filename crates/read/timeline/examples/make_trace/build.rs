//! Builds recordings as `mote record` leaves them, for tests and measurements.

use mote_ctf::model::{
    ClockClass, EnvValue, EventClass, FieldClass, IntClass, Length, Roles, StreamClass, StructClass,
    TraceClass,
};
use mote_journal::{ClockSample, Fact, Journal, Session, Summary};
use mote_layout::packet::{
    CONTEXT_AT, CONTEXT_FIELDS, HEADER_BYTES, LOSS_AT, LOSS_AT_ENTRY, LOSS_FIELDS, LOSS_NAMES_ENTRY,
    PacketHeader, STREAM_PER_CPU,
};
use mote_layout::record;
use mote_loss::Cause;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Tick 0 in nanoseconds since 1970; a tick is a nanosecond.
pub(crate) const EPOCH: u64 = 1_795_188_852_000_000_000;

/// What to build.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Events of each stream.
    pub(crate) events: u64,
    /// Streams, each of one CPU and one thread: 1000, 1001...
    pub(crate) streams: u32,
    /// Mean ticks between two events of a stream; they vary from 0 to twice as much.
    pub(crate) step: u64,
    /// Packets are closed when they would grow beyond.
    pub(crate) packet_bytes: usize,
    /// Events lost (ring full) at the end of each packet.
    pub(crate) lost: u64,
    /// Every so many events, one with a text.
    pub(crate) text_every: u64,
    /// Write a journal.
    pub(crate) journal: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            events: 1000,
            streams: 2,
            step: 100,
            packet_bytes: 4096,
            lost: 0,
            text_every: 0,
            journal: true,
        }
    }
}

/// Id of the trace.
const UUID: [u8; 16] = *b"mote make_trace!";

/// Builds the recording in `dir`, which is made.
///
/// # Errors
/// As the file system.
pub(crate) fn build(dir: &Path, plan: &Plan) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let metadata = mote_ctf::write::tsdl(&trace_class()).map_err(io::Error::other)?;
    fs::write(dir.join("metadata"), metadata)?;
    for stream in 0..plan.streams {
        write_stream(&mut BufWriter::new(File::create(dir.join(format!("stream_{stream}")))?), plan, stream)?;
    }
    if plan.journal { write_journal(dir, plan) } else { Ok(()) }
}

fn trace_class() -> TraceClass {
    let mut context: Vec<(String, FieldClass)> = Vec::new();
    for (name, bits) in CONTEXT_FIELDS {
        let int = IntClass::new(bits, false);
        let int = match name {
            "timestamp_begin" => int.with_clock(0).with_roles(Roles::TIMESTAMP),
            "timestamp_end" => int.with_clock(0).with_roles(Roles::PACKET_END_TIMESTAMP),
            "content_size" => int.with_roles(Roles::CONTENT_LENGTH),
            "packet_size" => int.with_roles(Roles::TOTAL_LENGTH),
            "packet_seq_num" => int.with_roles(Roles::SEQUENCE_NUMBER),
            "events_discarded" => int.with_roles(Roles::DISCARDED),
            _ => int,
        };
        context.push((name.to_owned(), FieldClass::Int(int)));
    }
    let counters: Vec<&str> = Cause::ALL.iter().map(|cause| cause.name()).chain(LOSS_FIELDS).collect();
    let uint = |bits: u32, roles: Roles| FieldClass::Int(IntClass::new(bits, false).with_roles(roles));
    let uuid = match FieldClass::array(Length::Static(16), FieldClass::uint(8)) {
        FieldClass::Array(class) => {
            FieldClass::Array(mote_ctf::model::ArrayClass { roles: Roles::METADATA_UUID, ..class })
        }
        other => other,
    };
    let mut time = IntClass::new(record::TIME_BITS, false).with_clock(0).with_roles(Roles::TIMESTAMP);
    time.align = 1;
    TraceClass {
        uuid: Some(UUID),
        environment: vec![
            ("tracer_name".to_owned(), EnvValue::Str("mote".to_owned())),
            (LOSS_AT_ENTRY.to_owned(), EnvValue::Int(LOSS_AT as i64)),
            (LOSS_NAMES_ENTRY.to_owned(), EnvValue::Str(counters.join(" "))),
        ],
        packet_header: Some(StructClass::new([
            ("magic", uint(32, Roles::PACKET_MAGIC)),
            ("uuid", uuid),
            ("stream_id", uint(32, Roles::STREAM_CLASS_ID)),
            ("stream_instance_id", uint(32, Roles::STREAM_ID)),
        ])),
        clocks: vec![ClockClass {
            name: "monotonic".to_owned(),
            offset_seconds: (EPOCH / 1_000_000_000).cast_signed(),
            ..ClockClass::default()
        }],
        streams: vec![StreamClass {
            id: u64::from(STREAM_PER_CPU),
            clock: Some(0),
            packet_context: Some(StructClass {
                min_align: CONTEXT_AT as u32 * 8,
                ..StructClass::new(context)
            }),
            event_header: Some(StructClass::new([
                ("id", uint(record::ID_BITS, Roles::EVENT_CLASS_ID)),
                ("timestamp", FieldClass::Int(time)),
            ])),
            common_context: Some(StructClass::new([("vtid", FieldClass::uint(32))])),
            events: event_classes(),
            ..StreamClass::default()
        }],
        ..TraceClass::default()
    }
}

fn event_classes() -> Vec<EventClass> {
    let class = |id, name: &str, payload| EventClass {
        id,
        name: name.to_owned(),
        payload: Some(payload),
        ..EventClass::default()
    };
    vec![
        class(0, "bench:two", StructClass::new([("a", FieldClass::uint(32)), ("b", FieldClass::uint(64))])),
        class(1, "test:text", StructClass::new([("n", FieldClass::uint(64)), ("s", FieldClass::string())])),
    ]
}

/// The texts of `test:text`, in turn.
pub(crate) const TEXTS: [&[u8]; 4] =
    [b"plain", b"with \"quotes\", commas\nand lines", b"\xff\xfe not UTF-8 \x1b[31m", b""];

fn write_stream(to: &mut impl Write, plan: &Plan, stream: u32) -> io::Result<()> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(stream) << 40;
    let mut time = 1_000_000 + u64::from(stream);
    let mut packet = Vec::with_capacity(plan.packet_bytes);
    let mut header = PacketHeader {
        uuid: UUID,
        stream_class: STREAM_PER_CPU,
        stream,
        begin: time,
        end: time,
        content: 0,
        sequence: 0,
        cpu: stream,
        lost: Default::default(),
    };
    for n in 0..plan.events {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        time += if plan.step == 0 { 1 } else { seed % (2 * plan.step) };
        let text = plan.text_every > 0 && n % plan.text_every == 0;
        let bytes = if text { TEXTS[(n / plan.text_every) as usize % TEXTS.len()] } else { &[] };
        if HEADER_BYTES + packet.len() + record::PREFIX_BYTES + 9 + bytes.len() > plan.packet_bytes {
            close(to, &mut header, &mut packet, plan.lost)?;
        }
        if packet.is_empty() {
            header.begin = time;
        }
        header.end = time;
        packet.extend_from_slice(&record::header(time, u16::from(text)).to_le_bytes());
        packet.extend_from_slice(&(1000 + stream).to_le_bytes());
        if text {
            packet.extend_from_slice(&n.to_le_bytes());
            packet.extend_from_slice(bytes);
            packet.push(0);
        } else {
            packet.extend_from_slice(&(n as u32).to_le_bytes());
            packet.extend_from_slice(&(seed >> 20).to_le_bytes());
        }
    }
    if packet.is_empty() { to.flush() } else { close(to, &mut header, &mut packet, 0) }
}

fn close(to: &mut impl Write, header: &mut PacketHeader, packet: &mut Vec<u8>, lost: u64) -> io::Result<()> {
    header.lost.events[Cause::RingFull as usize] += lost;
    header.content = packet.len() as u64;
    to.write_all(&header.encode())?;
    to.write_all(packet)?;
    header.sequence += 1;
    packet.clear();
    to.flush()
}

fn write_journal(dir: &Path, plan: &Plan) -> io::Result<()> {
    let folder = dir.join(mote_journal::DIRECTORY);
    fs::create_dir_all(&folder)?;
    let mut journal = Journal::new(File::create(folder.join(mote_journal::FILE))?);
    journal.note(&Fact::Session(Session {
        version: "0".to_owned(),
        uuid: UUID.iter().map(|byte| format!("{byte:02x}")).collect(),
        host: "host".to_owned(),
        command: vec!["app".to_owned()],
        mode: "discard".to_owned(),
        sub_bytes: plan.packet_bytes as u64,
        sub_count: 4,
        cpus: plan.streams,
        clock: "monotonic".to_owned(),
        frequency: 1_000_000_000,
        patterns: Vec::new(),
        whole_system: false,
    }))?;
    for ticks in (0..=10).map(|n| n * 100_000_000) {
        journal.note(&Fact::Clock(ClockSample {
            ticks,
            monotonic_ns: ticks,
            realtime_ns: EPOCH + ticks,
            error_ns: 20,
        }))?;
    }
    for stream in 0..plan.streams {
        let name = format!("worker-{stream}");
        journal.note(&Fact::Thread { tid: 1000 + stream, pid: 999, at: 1_000_000, name })?;
    }
    journal.note(&Fact::End(Summary { processes: 1, threads: plan.streams, ..Summary::default() }))
}
