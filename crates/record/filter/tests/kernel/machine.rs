//! A program of the kernel's side, loaded into the kernel behind a small one that fills its context and calls it.
//!
//! What the program asks the kernel for (time, thread, ..) is answered by functions behind it that read what the test
//! wants them to say. The program as it is, with the kernel's own helpers, is loaded too, to see that it is accepted.

use mote_bpf::disassemble::Listing;
use mote_bpf::op::Size;
use mote_bpf::{Insn, MapKind, Reg, helper};
use mote_builder::Builder;
use mote_filter::interpret::{Facts, Word};
use mote_filter::maps::Meaning;
use mote_filter::{Compiled, ContextWord, Maps, STRING_ROOM};
use mote_layout::context::words_of;
use mote_layout::cooperation::{SLOTS, SharedHeader, area_bytes};
use mote_layout::parse::Description;
use mote_sys::Errno;
use mote_sys::bpf::program::{self, Loading};
use mote_sys::bpf::{Create, Map, MapType, ProgramType};
use mote_sys::fd::Fd;
use std::mem::offset_of;
use std::sync::OnceLock;

/// Where the facts are in their map.
const PID_TGID: u32 = 0;
const NOW: u32 = 8;
const CPU: u32 = 16;
const RESULT: u32 = 24;
/// The thread's entry.
const ENTRY: u32 = 32;
const COMM: u32 = 96;
/// Numbers of the event's words.
const NUMBERS: u32 = 112;
/// Texts and arrays.
const TEXTS: u32 = 512;
/// Bytes of a text or an array.
const ROOM: u32 = STRING_ROOM.next_multiple_of(8);

/// What came of loading.
pub(crate) enum Made {
    Ready(Machine),
    /// The kernel accepts it, but not with the functions that the test puts behind it.
    OnlyAccepted,
    NotPermitted,
    Refused(String),
}

/// A loaded program.
pub(crate) struct Machine {
    program: Fd,
    maps: Vec<Map>,
    facts_bytes: u32,
    shared: Option<usize>,
    entries: Vec<mote_filter::maps::Entry>,
}

pub(crate) fn listing(compiled: &Compiled) -> String {
    Listing { insns: &compiled.insns, environment: None }.to_string()
}

impl Machine {
    /// Loads it.
    pub(crate) fn load(compiled: &Compiled, event: &Description<'_>, maps: &Maps) -> Made {
        let words = event.fields().map(|field| 1 + u32::from(words_of(&field.ty).1.is_some())).sum::<u32>();
        let facts_bytes = TEXTS + words * ROOM;
        let area = match Map::create(MapType::Array, 4, area_bytes(SLOTS) as u32, 1) {
            Ok(area) => AREA.get_or_init(|| area),
            Err(Errno(1)) => return Made::NotPermitted,
            Err(why) => return Made::Refused(format!("an area: {why}")),
        };
        let made: Result<Vec<Map>, Errno> = maps
            .entries()
            .iter()
            .map(|entry| {
                let shape = entry.shape;
                if entry.meaning == Meaning::Areas {
                    return areas(area, shape.entries);
                }
                let kind = match shape.kind {
                    MapKind::Hash => MapType::Hash,
                    MapKind::LruHash => MapType::LruHash,
                    _ => MapType::Array,
                };
                Map::create(kind, shape.key_bytes, shape.value_bytes, shape.entries)
            })
            .chain([Map::create(MapType::Array, 4, facts_bytes, 1)])
            .collect();
        let made = match made {
            Ok(made) => made,
            Err(Errno(1)) => return Made::NotPermitted,
            Err(why) => return Made::Refused(format!("a map: {why}")),
        };
        let numbers: Vec<i32> = made.iter().map(Map::raw).collect();
        let whole = whole(compiled, event, numbers.len() as u32 - 1, false);
        if let Err(why) = load(&whole, &numbers) {
            return Made::Refused(format!("with the kernel's helpers: {why}"));
        }
        let whole = self::whole(compiled, event, numbers.len() as u32 - 1, true);
        match load(&whole, &numbers) {
            Ok(program) => Made::Ready(Machine {
                program,
                maps: made,
                facts_bytes,
                shared: maps.entries().iter().position(|entry| entry.name == "shared"),
                entries: maps.entries().to_vec(),
            }),
            // To its verifier, a function may use all the registers in which arguments are passed; a helper of the
            // kernel's does not.
            Err(why) if why.contains("BPF program is too large") => Made::OnlyAccepted,
            Err(why) => Made::Refused(why),
        }
    }

    /// Runs it on an event.
    pub(crate) fn run(&self, words: &[Word], facts: &Facts) -> u64 {
        let mut value = vec![0xAA; self.facts_bytes as usize];
        let mut put =
            |at: u32, bytes: &[u8]| value[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        put(PID_TGID, &(u64::from(facts.pid) << 32 | u64::from(facts.tid)).to_le_bytes());
        put(NOW, &facts.now.to_le_bytes());
        put(CPU, &u64::from(facts.cpu).to_le_bytes());
        put(ENTRY, &facts.tid.to_le_bytes());
        put(ENTRY + mote_filter::maps::AREA_INDEX_AT as u32, &1u32.to_le_bytes());
        put(ENTRY + mote_filter::maps::OWN_ID_AT as u32, &facts.tid.to_le_bytes());
        put(COMM, &[0; 16]);
        put(COMM, &facts.comm);
        let mut length = 0;
        for (at, word) in words.iter().enumerate() {
            let at = at as u32;
            match word {
                Word::Number(number) => put(NUMBERS + at * 8, &number.to_le_bytes()),
                Word::Bytes(bytes) => {
                    put(TEXTS + at * ROOM, bytes);
                    length = bytes.len() as u64;
                }
                Word::End => put(NUMBERS + at * 8, &length.to_le_bytes()),
            }
        }
        let facts_map = &self.maps[self.maps.len() - 1];
        facts_map.update(&[0; 4], &value).expect("the size is right");
        if let Some(shared) = self.shared {
            let mut value = vec![0; self.entries[shared].shape.value_bytes as usize];
            self.maps[shared].lookup(&[0; 4], &mut value).expect("it is there");
            for (at, word) in [
                (offset_of!(SharedHeader, target), facts.target),
                (offset_of!(SharedHeader, window_until), facts.window),
            ] {
                value[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            self.maps[shared].update(&[0; 4], &value).expect("it is there");
        }
        program::run_here(&self.program, &[]).expect("it runs");
        facts_map.lookup(&[0; 4], &mut value).expect("it is there");
        let at = RESULT as usize;
        u64::from_le_bytes(value[at..at + 8].try_into().expect("8 bytes"))
    }

    /// A map's value.
    pub(crate) fn value(&self, map: usize, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = vec![0; self.entries[map].shape.value_bytes as usize];
        self.maps[map].lookup(key, &mut value).ok().map(|()| value)
    }

    /// All pairs of a map.
    pub(crate) fn pairs(&self, map: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut key = vec![0; self.entries[map].shape.key_bytes as usize];
        let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        loop {
            let before = pairs.last().map(|pair| pair.0.clone());
            if self.maps[map].next_key(before.as_deref(), &mut key).is_err() {
                return pairs;
            }
            pairs.push((key.clone(), self.value(map, &key).unwrap_or_default()));
        }
    }
}

/// The one area that there is.
static AREA: OnceLock<Map> = OnceLock::new();

/// The area of the process, for programs that write there.
pub(crate) fn area() -> Option<&'static Map> {
    AREA.get()
}

/// The map of areas, of which the one with index 1 is there.
fn areas(area: &Map, entries: u32) -> Result<Map, Errno> {
    let areas = Map::make(&Create {
        map_type: MapType::ArrayOfMaps,
        key_bytes: 4,
        value_bytes: 4,
        entries,
        flags: 0,
        inner: Some(area),
        name: "areas",
    })?;
    areas.update(&1u32.to_le_bytes(), &area.raw().to_le_bytes())?;
    Ok(areas)
}

/// The caller, the program, and what answers its calls.
fn whole(compiled: &Compiled, event: &Description<'_>, facts: u32, stubs: bool) -> Vec<Insn> {
    let mut b = Builder::new();
    let filter = b.label();
    let base = -8 * compiled.words.len() as i16;
    let mut starts = Vec::new();
    for field in event.fields() {
        let (first, second) = words_of(&field.ty);
        starts.push(!matches!(first, mote_bpf::Word::Number { .. }));
        if second.is_some() {
            starts.push(false);
        }
    }
    for (slot, word) in compiled.words.iter().enumerate() {
        match *word {
            ContextWord::Field(at) if starts[usize::from(at)] => {
                b.map_value(Reg::R1, facts, TEXTS + u32::from(at) * ROOM);
            }
            ContextWord::Event(number) => b.mov(Reg::R1, number as i32),
            ContextWord::Field(at) => {
                b.map_value(Reg::R1, facts, NUMBERS + u32::from(at) * 8);
                b.load(Size::DW, Reg::R1, Reg::R1, 0);
            }
        }
        b.store(Size::DW, Reg::R10, base + slot as i16 * 8, Reg::R1);
    }
    b.mov(Reg::R1, Reg::R10);
    b.add(Reg::R1, i32::from(base));
    b.map_value(Reg::R2, facts, ENTRY);
    b.call_local(filter);
    b.map_value(Reg::R1, facts, RESULT);
    b.store(Size::DW, Reg::R1, 0, Reg::R0);
    b.mov(Reg::R0, 0);
    b.exit();
    b.bind(filter);
    let mut out = b.finish().expect("it is short");
    let begin = out.len();
    out.extend(&compiled.insns);
    if stubs {
        answer(&mut out, begin, facts);
    }
    out
}

/// Has functions answer what is asked of helpers.
fn answer(insns: &mut Vec<Insn>, begin: usize, facts: u32) {
    let end = insns.len();
    for (id, at) in [
        (helper::GET_CURRENT_PID_TGID, PID_TGID),
        (helper::KTIME_GET_NS, NOW),
        (helper::GET_SMP_PROCESSOR_ID, CPU),
        (helper::GET_CURRENT_COMM, COMM),
    ] {
        let function = insns.len();
        let mut used = false;
        for (call, insn) in insns.iter_mut().enumerate().take(end).skip(begin) {
            let mut bytes = insn.to_bytes();
            // `call`, of a helper.
            if bytes[0] == 0x85 && bytes[1] == 0 && bytes[4..] == (id as i32).to_le_bytes() {
                bytes[1] = 0x10;
                bytes[4..].copy_from_slice(&(function as i32 - call as i32 - 1).to_le_bytes());
                *insn = Insn::from_bytes(bytes);
                used = true;
            }
        }
        if !used {
            continue;
        }
        let mut b = Builder::new();
        if id == helper::GET_CURRENT_COMM {
            b.map_value(Reg::R2, facts, at);
            for word in [0, 8] {
                b.load(Size::DW, Reg::R3, Reg::R2, word);
                b.store(Size::DW, Reg::R1, word, Reg::R3);
            }
            b.mov(Reg::R0, 0);
        } else {
            b.map_value(Reg::R0, facts, at);
            b.load(Size::DW, Reg::R0, Reg::R0, 0);
        }
        b.exit();
        insns.extend(b.finish().expect("it is short"));
    }
}

fn load(insns: &[Insn], maps: &[i32]) -> Result<Fd, String> {
    let words: Vec<u64> = insns.iter().map(|insn| u64::from_le_bytes(insn.to_bytes())).collect();
    let loading = Loading {
        program_type: ProgramType::RawTracepoint,
        attach_type: 0,
        attach_btf_id: 0,
        name: "filter",
        instructions: &words,
        maps,
    };
    program::load(&loading, &mut []).map_err(|why| {
        let mut log = vec![0; 16 << 20];
        let _ = program::load(&loading, &mut log);
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        format!("{why}\n{}", lines[lines.len().saturating_sub(40)..].join("\n"))
    })
}
