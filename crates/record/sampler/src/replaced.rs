//! What probes of functions have replaced on the stacks of sampled threads.
//!
//! While functions of a process are recorded, their return addresses on the stack are stubs' ([`mote_layout::stubs`]);
//! the real ones lie in slots of the thread, and are others a moment later. So the slots have to be copied with the
//! sample: a program that runs at each sample looks whether the process is in its map, and if so gives out the slots
//! that the thread has used last, as a record that lies before the sample's in the same memory. The map has what
//! [`crate::library`] has found in the process.
//!
//! # Cost
//! A sample of another process: to find out that it is one. Else some hundred nanoseconds, and 32 bytes for each call
//! under way, 4 KiB at most.

use crate::programs;
use crate::sampler::Kind;
use mote_bpf::Insn;
use mote_builder::{BuildError, Field};
use mote_catalog::btf::Btf;
use mote_generate::namespace::Task;
use mote_generate::stack_copy::thread_pointer;
use mote_layout::stubs::WORDS;
use mote_sys::bpf::program::{Loading, load};
use mote_sys::bpf::{Map, MapType, ProgramType};
use mote_sys::fd::Fd;
use mote_sys::{Errno, Result, perf};

/// Processes with functions at a time.
const PROCESSES: u32 = 4096;

/// The program at samples, and its maps.
#[derive(Debug)]
pub(crate) struct Replaced {
    thread_pointer: Field<Task, u64>,
    processes: Map,
    room: Map,
    /// Events by CPU, to which slots are given out; for each kind of samples its own.
    outputs: [Map; 2],
    events: Vec<Fd>,
}

impl Replaced {
    /// Makes the maps.
    ///
    /// # Errors
    /// `ENOENT` where the kernel does not say where thread pointers are.
    pub(crate) fn make(btf: &Btf, cpus: u32) -> Result<Replaced> {
        let output = || Map::create(MapType::PerfEventArray, 4, 4, cpus);
        Ok(Replaced {
            thread_pointer: thread_pointer(btf).ok_or(Errno(libc::ENOENT))?,
            processes: Map::create(MapType::Hash, 4, 8 * WORDS as u32, PROCESSES)?,
            room: Map::create(MapType::PerCpuArray, 4, programs::ROOM_BYTES, 1)?,
            outputs: [output()?, output()?],
            events: Vec::new(),
        })
    }

    /// Loads the program at samples of a kind; with `threads` it drops those of threads that are not chosen.
    pub(crate) fn load(&self, kind: Kind, threads: Option<&Map>) -> Result<Fd> {
        let insns = programs::sample(threads.is_some(), Some(self.thread_pointer));
        let threads = threads.unwrap_or(&self.processes);
        load_sample(insns, &[threads, &self.processes, &self.room, self.output(kind)])
    }

    fn output(&self, kind: Kind) -> &Map {
        let [running, leaving] = &self.outputs;
        match kind {
            Kind::Running => running,
            Kind::Leaving => leaving,
        }
    }

    /// Has the slots of samples of a kind on one CPU given out to the memory of an event.
    pub(crate) fn send(&mut self, kind: Kind, cpu: u32, to: &Fd) -> Result<()> {
        let event = perf::output(cpu)?;
        perf::send_to(&event, to)?;
        self.output(kind).update(&cpu.to_ne_bytes(), &event.raw().to_ne_bytes())?;
        self.events.push(event);
        Ok(())
    }

    /// Notes how slots are found in a process, or that it has none.
    pub(crate) fn note(&self, pid: u32, tops: Option<[u64; WORDS]>) {
        let key = pid.to_ne_bytes();
        // Where there is no room for it its stacks end; and it may not have been there.
        let _ = match tops {
            Some(tops) => self.processes.update(&key, tops.map(u64::to_ne_bytes).as_flattened()),
            None => self.processes.delete(&key),
        };
    }
}

/// Loads a program for samples.
pub(crate) fn load_sample(insns: std::result::Result<Vec<Insn>, BuildError>, maps: &[&Map]) -> Result<Fd> {
    let insns = insns.map_err(|_| Errno(libc::EINVAL))?;
    let words: Vec<u64> = insns.iter().map(|insn| u64::from_le_bytes(insn.to_bytes())).collect();
    let maps: Vec<i32> = maps.iter().map(|map| map.raw()).collect();
    let loading = Loading {
        program_type: ProgramType::PerfEvent,
        attach_type: 0,
        attach_btf_id: 0,
        name: "mote_sampled",
        instructions: &words,
        maps: &maps,
    };
    load(&loading, &mut [])
}
