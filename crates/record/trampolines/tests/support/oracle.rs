//! A check of plans by the bytes that they put into a process.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl as Flow, Instruction};
use mote_layout::functions::{JUMP_BYTES, Kind, Memory, Plan, Probe, Scope, Value};
use mote_trampolines::{By, Planned, Request};

/// Checks all of a plan.
///
/// # Panics
/// Something is wrong with it.
pub(crate) fn check(requests: &[Request<'_>], planned: &Planned) {
    let plan = Plan::parse(&planned.bytes).expect("a plan");
    let memories: Vec<Memory> = plan.memories().collect();
    let guards: Vec<_> = plan.guards().collect();
    assert_eq!(plan.probe_count(), planned.done.len());
    assert_eq!(plan.probe_count() + planned.refused.len(), requests.len());
    for memory in &memories {
        assert!(
            memory.address % 4096 == 0 && memory.len % 4096 == 0 && memory.code_len <= memory.len,
            "{memory:x?}"
        );
        assert!(plan.code(memory).is_some(), "{memory:x?}");
    }
    assert!(memories.windows(2).all(|two| two[0].address + two[0].len < two[1].address), "{memories:x?}");
    assert!(guards.windows(2).all(|two| two[0].address < two[1].address), "guards are in order");
    assert!(guards.iter().all(|guard| plan.guard(guard.address) == Some(guard.copy)));
    let mut guarded = 0;
    let mut bodies = Vec::new();
    for (probe, (index, by)) in plan.probes().zip(&planned.done) {
        let one = One { plan: &plan, memories: &memories, request: &requests[*index], probe, by: *by };
        bodies.push((probe.body - 16, one.check()));
        guarded += probe.guards.count_ones() as usize;
    }
    assert_eq!(guarded, guards.len());
    bodies.sort_unstable();
    assert!(bodies.windows(2).all(|two| two[0].1 <= two[1].0), "bodies do not overlap");
}

struct One<'a> {
    plan: &'a Plan<'a>,
    memories: &'a [Memory],
    request: &'a Request<'a>,
    probe: Probe,
    by: By,
}

impl One<'_> {
    /// What the body begins with.
    fn begin(&self) -> &'static [u8] {
        if self.request.values == [Value::ENTRIES] && self.request.scope != Scope::Caller {
            // call [rip - 14]
            return &[0xff, 0x15, 0xf2, 0xff, 0xff, 0xff];
        }
        // push rax; lea rax, [rip + 6]; jmp [rip - 22]
        &[0x50, 0x48, 0x8d, 0x05, 6, 0, 0, 0, 0xff, 0x25, 0xea, 0xff, 0xff, 0xff]
    }

    /// Returns where the body ends.
    fn check(&self) -> u64 {
        let Probe { address, body, target, copy, guards, kind, old, new, .. } = self.probe;
        let text = self.plan.text(&self.probe).expect("a text");
        assert_eq!(text, format!("{}\0", self.request.event).as_bytes());
        let skipped = (address - self.request.address) as usize;
        let code = &self.request.code[skipped..];
        assert!(skipped == 0 || skipped == 4 && self.request.code[..4] == [0xf3, 0x0f, 0x1e, 0xfa]);
        assert!(old.iter().zip(code).all(|(old, byte)| old == byte), "{self}");
        let begin = self.begin();
        assert_eq!((body % 16, copy), (0, body + begin.len() as u64), "{self}");
        assert_eq!(self.memory(body - 16, 16 + begin.len()), [&[0; 16][..], begin].concat());
        match kind {
            Kind::Trap => {
                assert_eq!(
                    (new, guards, target),
                    ([0xcc, old[1], old[2], old[3], old[4]], 0, body),
                    "{self}"
                );
                assert_eq!(self.by, By::Trap);
            }
            Kind::Jump => self.check_jump(code),
        }
        self.check_copy(code)
    }

    fn check_jump(&self, code: &[u8]) {
        let Probe { address, body, target, guards, old, new, .. } = self.probe;
        let jump = decode(&new, address);
        assert_eq!((jump.code(), jump.near_branch_target()), (Code::Jmp_rel32_64, target), "{self}");
        if target != body {
            let stub = self.memory(target, 14);
            assert_eq!(stub[..6], [0xff, 0x25, 0, 0, 0, 0], "{self}");
            assert_eq!(stub[6..], body.to_le_bytes(), "{self}");
        }
        // Where an instruction began and something has changed from there on, a breakpoint is.
        let mut needed = 0;
        for (_, at, _) in instructions(code, address).skip(1) {
            let distance = (at - address) as usize;
            if distance < JUMP_BYTES && new[distance..] != old[distance..] {
                needed |= 1 << distance;
                self.check_guard(distance);
                assert!(self.plan.guard(at).is_some(), "{self}");
            }
        }
        if self.by == By::Window {
            assert_eq!(guards & needed, needed, "{self}");
        } else {
            assert_eq!((guards, needed), (0, 0), "{self}");
        }
    }

    /// A guard is a breakpoint, or, in a jump's highest byte, no instruction whatever follows.
    fn check_guard(&self, distance: usize) {
        let byte = self.probe.new[distance];
        let is_none = |next: u8| decode(&[byte, next, 0, 0, 0], 0).is_invalid();
        assert!(byte == 0xcc || distance == 4 && (0..=0xff).all(is_none), "{self}: {byte:#x}");
    }

    /// Compares the copy with what was there, and with where guards lead. Returns where its code ends.
    fn check_copy(&self, code: &[u8]) -> u64 {
        let mut at = self.probe.copy;
        let mut behind = None;
        for (original, from, end) in self.moved(code) {
            let guard = self.plan.guard(from);
            let distance = from - self.probe.address;
            if (1..5).contains(&distance) && self.by == By::Window {
                assert_eq!(guard, Some(at), "{self}");
                self.check_guard(distance as usize);
                assert!(self.probe.guards >> distance & 1 == 1, "{self}");
            }
            behind = (!ends(&original)).then_some(end);
            let copied = self.decode(at);
            if matches!(original.flow_control(), Flow::Call | Flow::IndirectCall) {
                assert_eq!(copied.code(), Code::Push_rm64, "{self}");
                assert_eq!(self.memory(copied.ip_rel_memory_address(), 8), end.to_le_bytes(), "{self}");
                let jump = self.decode(copied.next_ip());
                assert!(is_same_target(&original, &jump), "{self}: {original} {jump}");
                behind = None;
                at = jump.next_ip();
            } else {
                at = copied.next_ip();
                assert!(is_same(&original, &copied), "{self}: {original} {copied}");
            }
        }
        if let Some(behind) = behind {
            let jump = self.decode(at);
            assert_eq!((jump.code(), jump.near_branch_target()), (Code::Jmp_rel32_64, behind), "{self}");
            at = jump.next_ip();
        }
        at
    }

    fn moved(&self, code: &[u8]) -> Vec<(Instruction, u64, u64)> {
        let mut moved = Vec::new();
        for one in instructions(code, self.probe.address) {
            moved.push(one);
            let is_whole = one.2 >= self.probe.address + JUMP_BYTES as u64 || ends(&one.0);
            if self.by != By::Window || is_whole {
                break;
            }
        }
        moved
    }

    fn decode(&self, at: u64) -> Instruction {
        let memory = self.around(at);
        decode(&self.memory(at, (memory.address + memory.len - at).min(15) as usize), at)
    }

    fn around(&self, at: u64) -> &Memory {
        let number = self.memories.partition_point(|memory| memory.address <= at);
        let memory =
            &self.memories[number.checked_sub(1).unwrap_or_else(|| panic!("{self}: nothing at {at:x}"))];
        assert!(at < memory.address + memory.len, "{self}: nothing at {at:x}");
        memory
    }

    fn memory(&self, at: u64, len: usize) -> Vec<u8> {
        let memory = self.around(at);
        let code = self.plan.code(memory).expect("code");
        let from = (at - memory.address) as usize;
        assert!((from + len) as u64 <= memory.len, "{self}");
        (from..from + len).map(|at| code.get(at).copied().unwrap_or(0)).collect()
    }
}

impl std::fmt::Display for One<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x?} {:x?} {:x?}", self.request.function, self.by, self.probe)
    }
}

fn decode(bytes: &[u8], at: u64) -> Instruction {
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode()
}

/// Instructions with their begins and ends, up to one behind which nothing is run.
fn instructions(code: &[u8], address: u64) -> impl Iterator<Item = (Instruction, u64, u64)> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut is_over = false;
    std::iter::from_fn(move || {
        let one =
            (!is_over && decoder.can_decode()).then(|| decoder.decode()).filter(|one| !one.is_invalid())?;
        is_over = ends(&one);
        Some((one, one.ip(), one.next_ip()))
    })
}

fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        Flow::Return | Flow::UnconditionalBranch | Flow::IndirectBranch | Flow::Exception
    )
}

/// Whether the two do the same.
fn is_same(original: &Instruction, copied: &Instruction) -> bool {
    let (a, b) = (original, copied);
    if is_near_branch(a) {
        return is_near_branch(b) && a.mnemonic() == b.mnemonic() && is_same_target(a, b);
    }
    a == b
}

fn is_near_branch(instruction: &Instruction) -> bool {
    instruction.is_jmp_short_or_near() || instruction.is_jcc_short_or_near()
}

/// Whether the second jumps to where the first one does, or calls.
fn is_same_target(original: &Instruction, copied: &Instruction) -> bool {
    let near = |one: &Instruction| (one.near_branch_target() != 0).then(|| one.near_branch_target());
    let operand = |one: &Instruction| {
        let memory =
            (one.memory_base(), one.memory_index(), one.memory_displacement64(), one.segment_prefix());
        (one.op0_kind(), one.op0_register(), memory)
    };
    match near(original) {
        Some(target) => near(copied) == Some(target),
        None => operand(original) == operand(copied),
    }
}
