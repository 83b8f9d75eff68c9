//! A program, verified and loaded, with its maps and with helpers that say what the test wants them to say.

use mote_bpf::disassemble::Listing;
use mote_bpf::environment::STEPS_MAX;
use mote_bpf::verify::verify_traced;
use mote_bpf::{Entry, Environment, Insn, MapShape, helper};
use mote_filter::Maps;
use mote_filter::interpret::{Facts, Word};
use mote_layout::context;
use mote_layout::cooperation::READABLE_BYTES;
use mote_layout::parse::Description;
use mote_layout::tracer;
use mote_vm::{Choice, Cursor, Engine, HelperFn, Map, Program, Setup, Update};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    /// What helpers answer from.
    static FACTS: RefCell<Facts> = RefCell::default();
    /// Events that were emitted.
    static EMITTED: RefCell<Vec<(u64, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
    /// Whether a speculation is open.
    static SPECULATION: Cell<bool> = const { Cell::new(false) };
    /// Keys that have a speculation open, and the key that it was begun with.
    static KEYS: RefCell<BTreeMap<(u64, u64), (u64, u64)>> = const { RefCell::new(BTreeMap::new()) };
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// A loaded program.
pub(crate) struct Machine {
    program: Program,
    insns: Vec<Insn>,
    maps: Vec<Map>,
    shapes: Vec<MapShape>,
    /// The maps' memory; dropped after the program.
    _memory: Vec<Box<[u64]>>,
}

extern "C" fn pid_tgid(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    FACTS.with_borrow(|facts| u64::from(facts.pid) << 32 | u64::from(facts.tid))
}

extern "C" fn cpu(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    FACTS.with_borrow(|facts| facts.cpu.into())
}

extern "C" fn now(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    FACTS.with_borrow(|facts| facts.now)
}

extern "C" fn elapsed(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    FACTS.with_borrow(|facts| facts.elapsed)
}

extern "C" fn comm(buffer: u64, size: u64, _: u64, _: u64, _: u64) -> u64 {
    FACTS.with_borrow(|facts| write_text(&facts.comm, buffer, size));
    0
}

extern "C" fn executable(buffer: u64, size: u64, _: u64, _: u64, _: u64) -> u64 {
    FACTS.with_borrow(|facts| write_text(&facts.executable, buffer, size))
}

extern "C" fn emit(id: u64, data: u64, size: u64, _: u64, _: u64) -> u64 {
    let mut bytes = vec![0; size as usize];
    // SAFETY: the verifier saw to it that there are `size` readable bytes at `data`.
    unsafe { std::ptr::copy_nonoverlapping(data as *const u8, bytes.as_mut_ptr(), bytes.len()) };
    EMITTED.with_borrow_mut(|emitted| emitted.push((id, bytes)));
    0
}

extern "C" fn speculate(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    SPECULATION.set(true);
    0
}

extern "C" fn end_speculation(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    SPECULATION.replace(false).into()
}

extern "C" fn speculate_by(kind: u64, value: u64, _: u64, _: u64, _: u64) -> u64 {
    KEYS.with_borrow_mut(|keys| keys.insert((kind, value), (kind, value)));
    0
}

extern "C" fn end_by(kind: u64, value: u64, _: u64, _: u64, _: u64) -> u64 {
    KEYS.with_borrow_mut(|keys| {
        let first = keys.get(&(kind, value)).copied();
        keys.retain(|_, of| Some(*of) != first);
        first.is_some().into()
    })
}

extern "C" fn elapsed_by(kind: u64, value: u64, _: u64, _: u64, _: u64) -> u64 {
    KEYS.with_borrow(|keys| {
        keys.get(&(kind, value)).map_or(u64::MAX, |_| FACTS.with_borrow(|facts| facts.now))
    })
}

extern "C" fn speculation(kind: u64, value: u64, how: u64, parent: u64, _: u64) -> u64 {
    KEYS.with_borrow_mut(|keys| {
        if let (true, Some(of)) =
            (how == u64::from(tracer::SPECULATION_JOIN), keys.get(&(kind, parent)).copied())
        {
            keys.entry((kind, value)).or_insert(of);
        }
        let found = keys.get(&(kind, value)).copied();
        if how == u64::from(tracer::SPECULATION_LEAVE) && found.is_some_and(|of| of != (kind, value)) {
            keys.remove(&(kind, value));
        }
        found.map_or(0, |(kind, value)| kept(kind, value))
    })
}

/// The verdict for a record that is kept aside with what this key has begun.
pub(crate) fn kept(kind: u64, value: u64) -> u64 {
    context::KEPT | kind << 8 | value << 16
}

/// Emits itself, so that tests see it.
extern "C" fn set_threshold(syscall: u64, ns: u64, _: u64, _: u64, _: u64) -> u64 {
    EMITTED.with_borrow_mut(|emitted| emitted.push((syscall, ns.to_le_bytes().to_vec())));
    0
}

/// Emits what it is given, so that tests see it.
extern "C" fn snapshot_packets(duration: u64, event: u64, time: u64, cpu: u64, thread: u64) -> u64 {
    let words = [event, time, cpu, thread].iter().flat_map(|word| word.to_le_bytes()).collect();
    EMITTED.with_borrow_mut(|emitted| emitted.push((duration, words)));
    0
}

extern "C" fn nothing(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    0
}

/// As `get_current_comm` writes a name.
fn write_text(text: &[u8], buffer: u64, size: u64) -> u64 {
    let mut bytes = vec![0; size as usize];
    let len = text.len().min(bytes.len() - 1);
    bytes[..len].copy_from_slice(&text[..len]);
    // SAFETY: the verifier saw to it that there are `size` writable bytes at `buffer`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer as *mut u8, bytes.len()) };
    len as u64
}

const HELPERS: &[(u32, HelperFn)] = &[
    (helper::GET_CURRENT_PID_TGID, pid_tgid),
    (helper::GET_SMP_PROCESSOR_ID, cpu),
    (helper::KTIME_GET_NS, now),
    (tracer::SPECULATED, elapsed),
    (helper::GET_CURRENT_COMM, comm),
    (tracer::GET_EXECUTABLE, executable),
    (tracer::EMIT, emit),
    (tracer::SPECULATE, speculate),
    (tracer::COMMIT, end_speculation),
    (tracer::DISCARD, end_speculation),
    (tracer::SNAPSHOT, nothing),
    (tracer::SET_THRESHOLD, set_threshold),
    (tracer::OPEN_KERNEL, nothing),
    (tracer::SNAPSHOT_PACKETS, snapshot_packets),
    (tracer::SPECULATE_BY, speculate_by),
    (tracer::COMMIT_BY, end_by),
    (tracer::DISCARD_BY, end_by),
    (tracer::SPECULATED_BY, elapsed_by),
    (tracer::SPECULATION, speculation),
];

/// The events that programs of this thread have emitted since it was asked.
pub(crate) fn emitted() -> Vec<(u64, Vec<u8>)> {
    EMITTED.take()
}

impl Machine {
    /// Verifies and loads a program.
    pub(crate) fn new(
        insns: &[Insn],
        event: &Description<'_>,
        maps: &Maps,
        engine: Choice,
    ) -> Result<Machine, String> {
        let shapes = maps.shapes();
        let words: Vec<_> = context::words(event).collect();
        let env = Environment {
            entry: Entry::Context(&words),
            maps: &shapes,
            helpers: tracer::HELPERS,
            steps_max: STEPS_MAX,
        };
        let listing = || Listing { insns, environment: None };
        let mut workspace = mote_vm::workspace().map_err(|error| format!("{error:?}"))?;
        let (verified, _) = verify_traced(insns, &env, READABLE_BYTES as u32, &mut workspace)
            .map_err(|why| format!("{}\n{why}", listing()))?;
        let mut memory: Vec<Box<[u64]>> = Vec::new();
        let mut made = Vec::new();
        for entry in maps.entries() {
            let (room, map) = make(&entry.shape, &entry.initial)?;
            memory.push(room);
            made.push(map);
        }
        let setup = Setup { maps: &made, helpers: HELPERS, engine, ..Setup::default() };
        let program = Program::load(&verified, &setup).map_err(|error| format!("{error:?}"))?;
        Ok(Machine { program, insns: insns.to_vec(), maps: made, shapes, _memory: memory })
    }

    pub(crate) fn engine(&self) -> Engine {
        self.program.engine()
    }

    /// All pairs of a map, and how many did not fit.
    pub(crate) fn pairs(&self, map: usize) -> (Vec<Pair>, u64) {
        let (map, shape) = (self.maps[map], self.shapes[map]);
        let mut pairs = Vec::new();
        let (mut key, mut value) = (vec![0; shape.key_bytes as usize], vec![0; shape.value_bytes as usize]);
        let mut cursor = Cursor::default();
        while map.next(&mut cursor, &mut key, &mut value) {
            pairs.push((key.clone(), value.clone()));
        }
        (pairs, map.dropped())
    }

    /// Writes a word of an array of one value.
    pub(crate) fn set_word(&self, map: usize, at: usize, word: u64) {
        let mut value = vec![0; self.shapes[map].value_bytes as usize];
        self.maps[map].lookup(&[0; 4], &mut value).unwrap();
        value[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        self.maps[map].update(&[0; 4], &value, Update::Any).unwrap();
    }

    pub(crate) fn listing(&self) -> String {
        Listing { insns: &self.insns, environment: None }.to_string()
    }

    /// Runs it on an event.
    pub(crate) fn run(&self, words: &[Word], facts: &Facts) -> Result<u64, String> {
        FACTS.set(facts.clone());
        let mut state = facts.state.clone();
        state.resize(READABLE_BYTES / 8, 0);
        let mut raw = Vec::new();
        let mut end = 0;
        for word in words {
            raw.push(match word {
                Word::Number(value) => *value,
                Word::Bytes(bytes) => {
                    end = bytes.as_ptr_range().end as u64;
                    bytes.as_ptr() as u64
                }
                Word::End => end,
            });
        }
        // SAFETY: 1. the words are those of the event's description, and what they point to lives in `words`; 2.
        // `HELPERS` have the signatures of `tracer::HELPERS` and of the built-in ones; 3. `self` holds the maps'
        // memory.
        unsafe { self.program.run(raw.as_ptr() as u64, state.as_ptr() as u64) }
            .map_err(|fault| format!("{fault:?}"))
    }
}

/// Memory with a map in it.
fn make(shape: &MapShape, initial: &[u8]) -> Result<(Box<[u64]>, Map), String> {
    let mut room = vec![0u64; Map::bytes(shape).div_ceil(8)].into_boxed_slice();
    // SAFETY: the memory is zeroed, as large as the map, and lives as long as the machine.
    let map =
        unsafe { Map::create(room.as_mut_ptr().cast(), shape) }.map_err(|error| format!("{error:?}"))?;
    if !initial.is_empty() {
        map.update(&[0; 4], initial, Update::Any).map_err(|error| format!("{error:?}"))?;
    }
    Ok((room, map))
}
