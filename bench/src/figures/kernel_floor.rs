//! The least that a program of the kernel costs at a system call: one that does nothing, and what is usual.
//!
//! They are attached as mote's programs are (`BPF_TRACE_RAW_TP`), so that what differs is what the programs do.

use anyhow::Context;
use mote_bpf::Reg;
use mote_bpf::helper::{GET_CURRENT_TASK_BTF, KTIME_GET_NS, RINGBUF_RESERVE, RINGBUF_SUBMIT};
use mote_bpf::op::{Cond, Size};
use mote_builder::Builder;
use mote_catalog::btf::Btf;
use mote_kernel::map::{Create, Map, MapType};
use mote_sys::bpf::ProgramType;
use mote_sys::bpf::link::{TRACE_RAW_TP, raw_tracepoint};
use mote_sys::bpf::program::{Loading, load};
use mote_sys::fd::Fd;

/// Bytes of the ring buffer.
const RING_BYTES: u32 = 1 << 24;

/// The least program of its kind that can be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    /// A program that does nothing, at the entry of all calls.
    Empty,
    /// The same at their return, too.
    EmptyBoth,
    /// One that reads the clock.
    Clock,
    /// One that asks for the running task.
    WhoRuns,
    /// The usual way: 16 bytes in eBPF's ring buffer, the time and a number. Nobody reads them, and when it is full
    /// nothing is written any more: there is room for twice as many as a workload makes.
    RingBuffer,
}

/// Programs that are attached as long as this is there.
#[derive(Debug)]
pub(super) struct Attached {
    _links: Vec<Fd>,
}

impl Floor {
    /// Its name among the peers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Floor::Empty => "empty",
            Floor::EmptyBoth => "empty-both",
            Floor::Clock => "clock",
            Floor::WhoRuns => "who-runs",
            Floor::RingBuffer => "bpf-ringbuf",
        }
    }

    /// Attaches it.
    ///
    /// # Errors
    /// The kernel lets no process attach programs, or not us.
    pub(super) fn attach(self) -> anyhow::Result<Attached> {
        let at: &[&str] = if self == Floor::EmptyBoth { &["sys_exit", "sys_enter"] } else { &["sys_enter"] };
        let map = if self == Floor::RingBuffer { Some(ring_buffer()?) } else { None };
        let maps: Vec<i32> = map.iter().map(Map::raw).collect();
        let instructions = self.instructions()?;
        let btf = Btf::of_kernel()?;
        let attach = |name: &&str| {
            let attach_btf_id = btf.tracepoint(name).context("this kernel has no such tracepoint")?;
            let loading = Loading {
                program_type: ProgramType::Tracing,
                attach_type: TRACE_RAW_TP,
                attach_btf_id,
                name: "mote_floor",
                instructions: &instructions,
                maps: &maps,
            };
            let program = load(&loading, &mut []).context("the kernel takes no program")?;
            raw_tracepoint(&program, None).context("the kernel attaches no program")
        };
        Ok(Attached { _links: at.iter().map(attach).collect::<anyhow::Result<_>>()? })
    }

    fn instructions(self) -> anyhow::Result<Vec<u64>> {
        let mut b = Builder::new();
        match self {
            Floor::Empty | Floor::EmptyBoth => {}
            Floor::Clock => b.call(KTIME_GET_NS),
            Floor::WhoRuns => b.call(GET_CURRENT_TASK_BTF),
            Floor::RingBuffer => submit(&mut b),
        }
        b.mov(Reg::R0, 0);
        b.exit();
        let insns = b.finish().context("a program of the bench is wrong")?;
        Ok(insns.iter().map(|insn| u64::from_le_bytes(insn.to_bytes())).collect())
    }
}

fn submit(b: &mut Builder) {
    let full = b.label();
    b.map(Reg::R1, 0);
    b.mov(Reg::R2, 16);
    b.mov(Reg::R3, 0);
    b.call(RINGBUF_RESERVE);
    b.branch(Cond::Eq, Reg::R0, 0, full);
    b.mov(Reg::R6, Reg::R0);
    b.call(KTIME_GET_NS);
    b.store(Size::DW, Reg::R6, 0, Reg::R0);
    b.store(Size::DW, Reg::R6, 8, 42);
    b.mov(Reg::R1, Reg::R6);
    b.mov(Reg::R2, 0);
    b.call(RINGBUF_SUBMIT);
    b.bind(full);
}

fn ring_buffer() -> anyhow::Result<Map> {
    let (map_type, entries) = (MapType::RingBuffer, RING_BYTES);
    let create =
        Create { map_type, key_bytes: 0, value_bytes: 0, entries, flags: 0, inner: None, name: "mote_floor" };
    Map::make(&create).context("the kernel makes no ring buffer")
}
