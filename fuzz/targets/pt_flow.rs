//! Any packets through any code, of any processor: the flow ends, and addresses are those of the code.
#![no_main]

use mote_pt::errata::Errata;
use mote_pt::flow::{Event, Flow, Gap, Graph, Sink};
use mote_pt::image::{Memory, Space};
use mote_pt::insn::Block;
use mote_pt::packet::Decoder;

const BASE: u64 = 0x1000;

/// Counts what comes.
struct Counted {
    code: u64,
    said: u64,
}

impl Sink for Counted {
    fn block(&mut self, block: &Block, graph: &Graph) {
        let lengths = graph.lengths(block);
        assert_eq!(lengths.len(), block.instructions as usize);
        let bytes: u64 = lengths.iter().copied().map(u64::from).sum();
        assert_eq!(block.start + bytes, block.end);
        assert!(block.start >= BASE && block.end <= BASE + self.code);
    }

    fn event(&mut self, _: u64, _: Event) {
        self.said += 1;
    }

    fn gap(&mut self, _: Gap) {
        self.said += 1;
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(([code, low, high], rest)) = bytes.split_first_chunk::<3>() else { return };
    let (code, packets) = rest.split_at(rest.len().min(usize::from(*code)));
    let names = Errata::NAMES.iter().enumerate();
    let errata = names.filter(|(bit, _)| u16::from_le_bytes([*low, *high]) >> bit & 1 != 0);
    let errata = errata.fold(Errata::default(), |all, (_, name)| all.with(name).expect("it is known"));
    let mut image = Memory::new();
    image.add(Space::ANY, BASE, code).expect("the only one");
    let items = Decoder::new(packets, 0).with_errata(errata).map(|item| (item.offset, item.what));
    let flow = Flow::new(items, &image).with_errata(errata);
    let mut flow = if high & 0x80 != 0 { flow.without_branches() } else { flow };
    let mut counted = Counted { code: code.len() as u64, said: 0 };
    flow.run(&mut counted);
    // A packet says a few things at most.
    assert!(counted.said <= 8 * packets.len() as u64 + 8, "{} of {}", counted.said, packets.len());
});
