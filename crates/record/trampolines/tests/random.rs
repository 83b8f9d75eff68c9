//! Entries put together from instructions of real code, at random places of random address spaces; and what is no code.

#![cfg(target_arch = "x86_64")]

mod support;

use iced_x86::{Decoder, DecoderOptions, FlowControl as Flow, Instruction};
use mote_functions::{Function, Reason, Way};
use mote_layout::functions::{Plan, Scope};
use mote_trampolines::{By, Refusal, Request, Space};
use std::collections::BTreeMap;
use std::ops::Range;
use support::{File, oracle};

/// Numbers that are the same in each run (xorshift64: Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The bytes of instructions of this program, one by one, without those that name places nearby.
fn instructions() -> Vec<Vec<u8>> {
    let file = File::read(&std::env::current_exe().expect("known")).expect("it is there");
    let mut found = Vec::new();
    for function in &file.functions {
        let code = file.code(function.address);
        let code = &code[..code.len().min(function.len as usize)];
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        while decoder.can_decode() {
            let from = decoder.position();
            if !decoder.decode().is_invalid() {
                found.push(code[from..decoder.position()].to_vec());
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Code of a function of these instructions, and what an analysis that knows no branches into it says.
fn function(bytes: &[u8], address: u64, room: u64) -> Function {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let ends = |one: &Instruction| {
        matches!(
            one.flow_control(),
            Flow::Return | Flow::UnconditionalBranch | Flow::IndirectBranch | Flow::Exception
        )
    };
    let (mut window, mut first) = (Way::Trap(Reason::Short), 0);
    for number in 1.. {
        let one = decoder.decode();
        first = if number == 1 { one.len() } else { first };
        let taken = decoder.position();
        if taken >= 5 {
            window = Way::Window { instructions: number, bytes: taken as u8 };
        }
        if taken >= 5 || ends(&one) || matches!(one.flow_control(), Flow::Call | Flow::IndirectCall) {
            break;
        }
    }
    let way = if first >= 5 { Way::Jump } else { Way::Punned { nearest: 0, targets: 1 } };
    Function { address, len: bytes.len() as u64, room, name: None, way, otherwise: window, pad: None }
}

/// Functions one behind the other from `address` on.
fn functions(
    random: &mut Random,
    instructions: &[Vec<u8>],
    count: usize,
    address: u64,
) -> Vec<(Function, Vec<u8>)> {
    let (mut made, mut at) = (Vec::new(), address);
    for _ in 0..count {
        let mut bytes = Vec::new();
        while bytes.len() < 24 {
            bytes.extend(&instructions[random.below(instructions.len() as u64) as usize]);
        }
        let next =
            (at + bytes.len() as u64 + random.below(200)).next_multiple_of([1, 16][random.below(2) as usize]);
        made.push((function(&bytes, at, next - at), bytes));
        at = next;
    }
    made
}

fn requests(functions: &[(Function, Vec<u8>)]) -> Vec<Request<'_>> {
    let request = |(function, code): &'_ (Function, Vec<u8>)| (function.address, code.len());
    assert!(
        functions.windows(2).all(|two| request(&two[0]).0 + request(&two[0]).1 as u64 <= request(&two[1]).0)
    );
    let mut requests = Vec::new();
    for (function, code) in functions {
        let event = format!("mote1\n{:x}", function.address);
        requests.push(Request {
            event,
            values: support::values(requests.len()),
            scope: Scope::Anywhere,
            address: function.address,
            function,
            code,
            current: Some(code),
        });
    }
    requests
}

/// A space that has only these ranges taken.
fn space(taken: &[Range<u64>]) -> Space {
    let mut space = Space::from_maps("", 0);
    taken.iter().for_each(|range| space.take(range.clone()));
    space
}

#[test]
fn entries_of_random_instructions() {
    let (instructions, mut random) = (instructions(), Random(0x2545_f491_4f6c_dd1d));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..200 {
        let lowest = [0x40_0000, 0x5555_5555_4000, 0x7fff_f000_0000][round % 3];
        let address = lowest + random.below(1 << 24);
        let functions = functions(&mut random, &instructions, 100, address);
        let mut requests = requests(&functions);
        // What the caller's order is does not matter.
        requests.reverse();
        let end = functions.last().expect("some").0.address + 4096;
        let mut taken = Vec::new();
        taken.push(address / 4096 * 4096..end.next_multiple_of(4096));
        for _ in 0..random.below(60) {
            let at = (address.saturating_sub(1 << 31) + random.below(1 << 32)) / 4096 * 4096;
            taken.push(at..at + (1 + random.below(1 << 14)) * 4096);
        }
        let planned = mote_trampolines::plan(&requests, &mut space(&taken), 1 << 32);
        oracle::check(&requests, &planned);
        let again = mote_trampolines::plan(&requests, &mut space(&taken), 1 << 32);
        assert_eq!(planned.bytes, again.bytes, "the same");
        let plan = Plan::parse(&planned.bytes).expect("a plan");
        for memory in plan.memories() {
            let overlaps =
                |range: &&Range<u64>| range.start < memory.address + memory.len && memory.address < range.end;
            assert_eq!(taken.iter().find(overlaps), None, "{memory:x?}");
            assert!(memory.address >= 0x1_0000 && memory.address + memory.len <= 0x7fff_ffff_f000);
        }
        planned.done.iter().for_each(|(_, by)| *counts.entry(format!("{by:?}")).or_default() += 1);
        planned.refused.iter().for_each(|(_, why)| *counts.entry(format!("{why:?}")).or_default() += 1);
    }
    println!("{counts:?}");
}

#[test]
fn a_hundred_thousand_functions() {
    let (instructions, mut random) = (instructions(), Random(0x9e37_79b9_7f4a_7c15));
    let address = 0x5555_5555_4000;
    let functions = functions(&mut random, &instructions, 100_000, address);
    let requests = requests(&functions);
    let end = functions.last().expect("some").0.address + 4096;
    let begun = std::time::Instant::now();
    let mut space = space(&[]);
    space.take(address..end.next_multiple_of(4096));
    let planned = mote_trampolines::plan(&requests, &mut space, 1 << 32);
    let took = begun.elapsed();
    oracle::check(&requests, &planned);
    let count = |by| planned.done.iter().filter(|(_, one)| *one == by).count();
    let counts = [By::Jump, By::Punned, By::Window, By::Trap].map(count);
    let memories = Plan::parse(&planned.bytes).expect("a plan").memories().count();
    println!("{counts:?} of {} bytes, {memories} memories, {took:?}", end - address);
    // Calls among the first instructions, and nothing else.
    assert!(counts[3] * 100 < requests.len() * 10, "{counts:?}");
    assert!(memories < 40_000, "{memories}");
}

#[test]
fn a_function_has_one_probe() {
    let codes = [[0x55, 0x48, 0x89, 0xe5].repeat(8), [0xb8, 1, 0, 0, 0, 0xc3].repeat(5)];
    let addresses = [0x5555_5555_4000, 0x5555_5555_4020];
    let functions: Vec<_> =
        addresses.into_iter().zip(codes).map(|(at, code)| (function(&code, at, 32), code)).collect();
    let mut all = requests(&functions[..1]);
    all.extend(requests(&functions));
    // Another tool was there.
    all[2].current = Some(&[0xcc]);
    let planned = mote_trampolines::plan(&all, &mut space(&[]), 1 << 32);
    assert_eq!(planned.done, [(0, By::Punned)]);
    assert_eq!(planned.refused, [(1, Refusal::Overlaps), (2, Refusal::Changed)]);
    // One whose jump would lie over the other's first byte.
    all[1].address += 3;
    let planned = mote_trampolines::plan(&all[..2], &mut space(&[]), 1 << 32);
    assert_eq!(planned.done.iter().map(|(_, by)| *by).collect::<Vec<_>>(), [By::Trap, By::Punned]);
}

/// Bytes and ways that fit nothing.
#[test]
fn what_is_no_code_is_planned_or_refused() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..20_000 {
        let code: Vec<u8> = (0..random.below(40)).map(|_| random.below(256) as u8).collect();
        let window = Way::Window { instructions: random.below(256) as u8, bytes: random.below(256) as u8 };
        let punned = Way::Punned { nearest: random.below(u64::MAX).cast_signed(), targets: random.below(9) };
        let ways = [window, punned, Way::Jump, Way::Placeholder, Way::Unknown, Way::Trap(Reason::Call)];
        let mut way = || ways[random.below(ways.len() as u64) as usize];
        let (way, otherwise) = (way(), way());
        let address =
            [0, 5, 0x1000, 0x40_1000, 0x7fff_ffff_e000, 1 << 47, u64::MAX][random.below(7) as usize];
        let (len, room) = (random.below(40), [0, 3, 30, u64::MAX][random.below(4) as usize]);
        let function = Function { address, len, room, name: None, way, otherwise, pad: None };
        let request = Request {
            event: String::new(),
            values: Vec::new(),
            scope: Scope::Anywhere,
            address,
            function: &function,
            code: &code,
            current: None,
        };
        let planned = mote_trampolines::plan(&[request.clone(), request], &mut space(&[]), 1 << 32);
        assert_eq!(planned.done.len() + planned.refused.len(), 2);
        assert!(planned.done.len() < 2, "both lie at one place");
        assert!(Plan::parse(&planned.bytes).is_some());
    }
}
