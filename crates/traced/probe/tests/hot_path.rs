//! What an event executes from its site and back, counted in the code as it was linked: the same on any CPU.
//!
//! The way begins where the site's jump leads. It takes no conditional jump: what is in the way of an event leaves the
//! straight line. It ends with the return of the function that the event stands in. `mote pt impact` counts the same in
//! a file.

#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, reason = "it reads the machine code of this program")]

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};
use mote_layout::site::{Of, RECORD_BYTES, SiteRecord};
use mote_pt::insn::{LEN_MAX, Memory, straight};
use std::collections::HashSet;
use std::ffi::CStr;
use std::hint::black_box;

#[inline(never)]
fn two_ints(i: i32, v: u64) {
    mote::event!(hot_path::two_ints, i: i32 = i, v: u64 = v);
    // What comes behind: without it the event would be the function's last call.
    black_box(());
}

#[inline(never)]
fn none() {
    mote::event!(hot_path::none);
    black_box(());
}

#[inline(never)]
fn nine_strings(texts: &[&str; 9]) {
    let [a, b, c, d, e, f, g, h, i] = texts;
    mote::event!(
        hot_path::nine_strings,
        a: &str = a,
        b: &str = b,
        c: &str = c,
        d: &str = d,
        e: &str = e,
        f: &str = f,
        g: &str = g,
        h: &str = h,
        i: &str = i,
    );
    black_box(());
}

/// What was counted.
#[derive(Debug, Default)]
struct Counts {
    instructions: u32,
    /// Of memory, without what calls and returns do by themselves.
    loads: u32,
    /// Loads whose address is made of what another one has loaded.
    dependent: u32,
}

/// Bytes at an address of this program.
fn bytes_at<const N: usize>(address: u64) -> [u8; N] {
    // SAFETY: the callers give addresses in the code and in the read-only data of this program, and the decoder looks
    // at no more than an instruction; code is followed by other code.
    unsafe { std::ptr::with_exposed_provenance::<[u8; N]>(address as usize).read_unaligned() }
}

/// Where the site's jump of the event with this name leads.
fn target(name: &str) -> Option<u64> {
    unsafe extern "C" {
        static __start_mote_sites: u8;
        static __stop_mote_sites: u8;
    }
    let (first, end) = ((&raw const __start_mote_sites).addr(), (&raw const __stop_mote_sites).addr());
    let records = (first as u64..end as u64).step_by(RECORD_BYTES);
    let records = records.map(|at| (SiteRecord::from_bytes(bytes_at(at)), at));
    let sites = records.filter(|(record, _)| record.of() == Of::Event).map(|(record, at)| record.resolve(at));
    let mut codes = sites.filter_map(|site| {
        let text = std::ptr::with_exposed_provenance(site.description as usize);
        // SAFETY: the record of a site leads to its description.
        let text = unsafe { site.code.map(|_| CStr::from_ptr(text)) }?.to_str().ok()?;
        (text.lines().nth(1) == Some(name)).then_some(site.code?.1)
    });
    codes.next()
}

/// The registers whose value comes from memory.
#[derive(Default)]
struct Loaded(HashSet<Register>);

impl Loaded {
    fn has(&self, register: Register) -> bool {
        self.0.contains(&register.full_register())
    }

    /// Adds an instruction to the counts, and what it writes to the registers.
    fn step(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory, counts: &mut Counts) {
        let info = info.info(instruction);
        let reads = |access| {
            matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            )
        };
        let of_program = info.used_memory().iter().filter(|memory| memory.base() != Register::RSP);
        let loads: Vec<_> = of_program.filter(|memory| reads(memory.access())).collect();
        counts.loads += loads.len() as u32;
        let dependent = loads.iter().filter(|memory| self.has(memory.base()) || self.has(memory.index()));
        counts.dependent += dependent.count() as u32;
        let from_memory = !loads.is_empty()
            || info.used_registers().iter().any(|used| reads(used.access()) && self.has(used.register()));
        for used in info.used_registers() {
            if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) {
                let register = used.register().full_register();
                if from_memory && register != Register::RSP {
                    self.0.insert(register);
                } else {
                    self.0.remove(&register);
                }
            }
        }
    }
}

/// This program.
struct Own;

impl Memory for Own {
    fn code(&self, address: u64, to: &mut [u8; LEN_MAX]) -> usize {
        *to = bytes_at(address);
        LEN_MAX
    }

    fn pointer(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(bytes_at(address)))
    }
}

fn walk(name: &str) -> Option<Counts> {
    let (mut loaded, mut info) = (Loaded::default(), InstructionInfoFactory::new());
    let mut counts = Counts::default();
    let step = |instruction: &Instruction| loaded.step(instruction, &mut info, &mut counts);
    let instructions = straight(&Own, target(name)?, step).unwrap_or_else(|why| panic!("{name}: {why}"));
    // With the site's own jump.
    counts.instructions = 1 + instructions;
    Some(counts)
}

#[test]
fn a_small_event_takes_few_instructions() {
    two_ints(black_box(1), black_box(2));
    none();
    check("hot_path:two_ints", |counts| counts.instructions <= 50 && counts.dependent <= 10);
    check("hot_path:none", |counts| counts.instructions <= 50 && counts.dependent <= 10);
}

#[test]
fn short_texts_go_straight_into_the_ring() {
    nine_strings(black_box(&["foo"; 9]));
    // Through the packer they would be some 500.
    check("hot_path:nine_strings", |counts| counts.instructions <= 345);
}

/// Walks an event, where what users get was built.
fn check(name: &str, is_good: impl Fn(&Counts) -> bool) {
    if cfg!(debug_assertions) {
        mote_skip::skip("what users get is counted, the release");
        return;
    }
    let Some(counts) = walk(name) else {
        mote_skip::skip(format_args!("{name} tests a byte"));
        return;
    };
    println!("{name}: {counts:?}");
    assert!(is_good(&counts), "{name}: {counts:?}");
}
