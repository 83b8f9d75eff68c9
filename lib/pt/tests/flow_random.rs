//! Random programs on a processor of the tests: the flow is exactly what was executed. `MOTE_RANDOM=10` runs ten times
//! as many.

mod flow_support;

use flow_support::machine::{Chances, Machine, Truth};
use flow_support::program::{Mix, Program};
use flow_support::random::Random;
use flow_support::writer::Habits;
use mote_pt::errata::Errata;
use mote_pt::flow::{Block, Event, Flow, Gap, Graph, Item, Progress, Sink};
use mote_pt::image::{Image, Memory, NoImage, Space};
use mote_pt::insn::Class;
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Packet, Tnt};
use std::ops::RangeInclusive;

/// Where a direct branch leaves what is traced is not always said.
fn errata() -> Errata {
    Errata { skl014: true, ..Errata::default() }
}

/// A case: all that is random in it comes from its number.
struct Case {
    program: Program,
    packets: Vec<Packet>,
    truth: Vec<Truth>,
    defers_tips: bool,
}

impl Case {
    fn new(number: u64) -> Case {
        let mut random = Random(number);
        let mut is = |n| random.once_in(n);
        let modes = is(3);
        let mix = Mix { far: is(2), ptwrite: is(3), cr3: is(4), filter: is(3), is_calm: is(2) };
        let habits = Habits {
            bits_max: if is(2) { 6 } else { 47 },
            defers: is(2),
            compresses_returns: !is(3),
            forgets_calls: is(2),
            noise: if is(3) { 5 } else { 0 },
            partial: if is(2) { 9 } else { 0 },
        };
        let mut rarely = |n| if random.once_in(2) { n } else { 0 };
        let chances = Chances {
            psb: rarely(50),
            interrupt: rarely(30),
            leave: rarely(70),
            overflow: rarely(100),
            tsx: rarely(40),
            power: rarely(40),
            modes,
            bias: if random.once_in(3) { 20 } else { 0 },
            fup_on_ptw: random.once_in(2),
            // What stands behind MOV to CR3 is about it, if it has no address.
            pgd_has_ip: mix.cr3 || random.once_in(2),
            user_only: !mix.cr3 && random.once_in(2),
        };
        let bases = [0x40_0000, 0x7f55_1234_5000, 0xffff_ffff_8100_0000, 0xff12_3456_789a_b000];
        let base = if modes { bases[0] } else { random.pick(&bases) };
        let program = Program::random(&mut random, base, mix);
        let mut machine = Machine::new(&program, random, habits, chances);
        machine.run(400);
        let (packets, truth) = (machine.writer.packets, machine.truth);
        Case { program, packets, truth, defers_tips: habits.defers }
    }

    fn image(&self) -> Memory<'_> {
        let mut image = Memory::new();
        // In two segments: an instruction may lie in both.
        let (first, second) = self.program.bytes.split_at(self.program.bytes.len() / 2);
        image.add(Space::ANY, self.program.base, first).unwrap();
        image.add(Space::ANY, self.program.base + first.len() as u64, second).unwrap();
        image
    }

    fn flow<'c>(
        &'c self,
        packets: &'c [Packet],
        graph_bytes: usize,
    ) -> Flow<impl Iterator<Item = (u64, Result<Packet, ()>)> + 'c, Memory<'c>> {
        let packets = packets.iter().enumerate().map(|(offset, &packet)| (offset as u64, Ok(packet)));
        let flow = Flow::new(packets, self.image()).with_graph(Graph::new(graph_bytes));
        flow.with_filter(self.filter()).with_errata(errata())
    }

    fn filter(&self) -> Option<RangeInclusive<u64>> {
        (self.program.traced_end != u64::MAX).then(|| self.program.base..=self.program.traced_end - 1)
    }
}

/// What a flow says, as the truth is written.
fn truth_of(items: impl Iterator<Item = Item<mote_pt::flow::Instruction>>) -> Vec<Result<Truth, String>> {
    items
        .filter_map(|item| match item {
            Item::Code(insn) => Some(Ok(Truth::Insn {
                address: insn.address,
                len: insn.len,
                mode: insn.mode,
                is_speculative: insn.is_speculative,
            })),
            Item::Event { event: Event::Packet { packet, .. }, .. } if is_noise(packet) => None,
            Item::Event { event, .. } => Some(Ok(Truth::Event(event))),
            Item::Gap(gap) => Some(Err(gap.to_string())),
        })
        .collect()
}

/// Whether a packet says nothing about the flow.
fn is_noise(packet: Packet) -> bool {
    let is_of_time = matches!(packet, Packet::Cyc(_) | Packet::Mtc(_) | Packet::Tsc(_) | Packet::Tma { .. });
    is_of_time || matches!(packet, Packet::Cbr(_) | Packet::Mnt(_))
}

/// The numbers of so many cases, or a multiple of them.
fn cases(count: u64) -> std::ops::Range<u64> {
    let times = std::env::var("MOTE_RANDOM").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    0..count * times
}

#[track_caller]
fn check(number: u64, graph_bytes: usize) {
    let case = Case::new(number);
    let found = truth_of(case.flow(&case.packets, graph_bytes).instructions());
    let expect: Vec<Result<Truth, String>> = case.truth.iter().copied().map(Ok).collect();
    if found != expect {
        let at = found.iter().zip(&expect).take_while(|(found, expect)| found == expect).count();
        let from = at.saturating_sub(6);
        let show = |of: &[Result<Truth, String>]| {
            of.iter().skip(from).take(12).map(|one| format!("\n  {one:x?}")).collect::<String>()
        };
        panic!(
            "case {number} differs at {at} of {} and {}\nfound{}\nexpected{}",
            found.len(),
            expect.len(),
            show(&found),
            show(&expect),
        );
    }
}

#[test]
fn the_flow_is_what_was_executed() {
    for number in cases(4000) {
        check(number, 1 << 20);
    }
}

#[test]
fn code_that_was_forgotten_is_decoded_again() {
    for number in cases(1000) {
        check(number, 800);
    }
}

/// What a damaged trace may cost at most: blocks that one packet leads to.
const BLOCKS_PER_PACKET: usize = 10_000;

#[test]
fn blocks_are_the_instructions() {
    for number in cases(200) {
        let case = Case::new(number);
        let mut instructions =
            case.flow(&case.packets, 1 << 20).instructions().filter_map(|item| match item {
                Item::Code(insn) => Some(insn),
                _ => None,
            });
        for item in case.flow(&case.packets, 1 << 20).items() {
            let Item::Code(block) = item else { continue };
            let mut address = block.start;
            let mut class = Class::Sequential;
            for _ in 0..block.instructions {
                assert_eq!(class, Class::Sequential, "case {number}");
                let insn = instructions.next().unwrap();
                assert_eq!(insn.address, address);
                address = address.wrapping_add(u64::from(insn.len));
                class = insn.class;
            }
            assert_eq!((block.end, block.class), (address, class), "case {number}");
        }
        assert_eq!(instructions.next(), None, "case {number}");
    }
}

#[test]
fn damaged_traces_end_within_bounds() {
    let mut gaps = 0;
    for number in cases(3000) {
        let case = Case::new(number);
        let mut random = Random(!number);
        let mut packets = case.packets.clone();
        for _ in 0..1 + random.below(5) {
            damage(&mut random, &mut packets);
        }
        let limit = 1 << 14;
        let is_damaged = random.once_in(3);
        let packets = packets.iter().enumerate().map(|(offset, &packet)| {
            let packet = if is_damaged && offset % 97 == 96 { Err(()) } else { Ok(packet) };
            (offset as u64, packet)
        });
        let mut flow = Flow::new(packets.clone(), case.image()).with_graph(Graph::new(limit));
        let mut counts = Counts::default();
        while flow.advance(&mut counts) == Progress::More {
            assert!(flow.graph().bytes() <= 2 * limit, "case {number}");
        }
        gaps += counts.gaps;
        assert!(counts.blocks <= BLOCKS_PER_PACKET * packets.len(), "case {number}");
        assert!(counts.gaps <= 2 * packets.len(), "case {number}");
    }
    assert!(gaps > 3000, "{gaps} gaps");
}

#[test]
fn what_is_found_between_gaps_was_executed() {
    let (mut gaps, mut found_all, mut executed_all) = (0, 0, 0);
    for number in cases(2000) {
        let case = Case::new(number);
        let mut random = Random(!number);
        // Code that is not known, and packets that cannot be read.
        let (base, count) = (case.program.base, case.program.bytes.len());
        let hole = random.below(count);
        let behind = hole + random.below(count - hole).min(40);
        let mut image = Memory::new();
        image.add(Space::ANY, base, &case.program.bytes[..hole]).unwrap();
        image.add(Space::ANY, base + behind as u64, &case.program.bytes[behind..]).unwrap();
        let damage = [0; 3].map(|_| random.below(case.packets.len() * 2));
        let packets = case.packets.iter().enumerate().map(|(offset, &packet)| {
            (offset as u64, if damage.contains(&offset) { Err(()) } else { Ok(packet) })
        });
        let mut flow = Flow::new(packets, image).with_filter(case.filter()).with_errata(errata());
        if case.defers_tips {
            flow = flow.with_deferred_tips();
        }
        let found = truth_of(flow.instructions());
        gaps += found.iter().filter(|one| one.is_err()).count();
        let is_insn = |one: &&Truth| matches!(one, Truth::Insn { .. });
        let mut executed = case.truth.iter().filter(is_insn);
        executed_all += executed.clone().count();
        for insn in found.iter().flatten().filter(is_insn) {
            found_all += 1;
            assert!(executed.any(|executed| executed == insn), "case {number}: {insn:x?}");
        }
    }
    assert!(gaps > 2000, "{gaps} gaps");
    assert!(found_all > executed_all / 4, "{found_all} of {executed_all}");
}

#[derive(Default)]
struct Counts {
    blocks: usize,
    gaps: usize,
}

impl Sink for Counts {
    fn block(&mut self, block: &Block, graph: &Graph) {
        assert_eq!(graph.lengths(block).len(), block.instructions as usize);
        self.blocks += 1;
    }

    fn event(&mut self, _: u64, _: Event) {}

    fn gap(&mut self, _: Gap) {
        self.gaps += 1;
    }
}

fn damage(random: &mut Random, packets: &mut Vec<Packet>) {
    let count = packets.len().max(1);
    let (at, other) = (random.below(count), random.below(count));
    match random.below(6) {
        _ if packets.len() < 2 => {}
        0 => drop(packets.remove(at)),
        1 => packets.insert(at, packets[other]),
        2 => packets.swap(at, other),
        3 => packets.truncate(at.max(1)),
        4 => {
            let bits = random.next();
            let ip = Ip { compression: Compression::Update16, bits: bits & 0xff };
            packets[at] = match random.below(8) {
                0 => Packet::Tip(ip),
                1 => Packet::Fup(ip),
                2 => Packet::TipPge(ip),
                3 => Packet::TipPgd(ip),
                4 => Packet::Tnt(Tnt { bits, count: bits as u8, is_long: true }),
                5 => Packet::Psb,
                6 => Packet::Ovf,
                _ => Packet::ModeExec { is_64_bit: false, is_32_bit: bits & 2 == 0, interrupts: true },
            };
        }
        _ => {
            let some = packets[at..].iter().take(20).copied().collect::<Vec<_>>();
            packets.splice(other..other, some);
        }
    }
}

#[test]
fn address_spaces_without_code_take_no_memory() {
    let pips = (0..100_000).map(|number| Packet::Pip { cr3: number << 12, is_guest: false });
    let packets = [Packet::Psb, Packet::PsbEnd].into_iter().chain(pips);
    let packets = packets.map(|packet| (0, Ok::<_, ()>(packet)));
    let mut flow = Flow::new(packets, Spaces);
    flow.run(&mut Counts::default());
    assert_eq!(flow.graph().bytes(), 0);
}

/// An image whose address spaces are all different.
struct Spaces;

impl Image for Spaces {
    fn read(&self, _: Space, address: u64) -> Result<&[u8], NoImage> {
        Err(NoImage { address })
    }
}
