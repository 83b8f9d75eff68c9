//! A program that looks at its own event sites.

use mote_layout::site::{RECORD_BYTES, SiteRecord};
use std::time::{Duration, Instant};

unsafe extern "C" {
    #[link_name = "__start_mote_sites"]
    static FIRST: SiteRecord;
    #[link_name = "__stop_mote_sites"]
    static END: SiteRecord;
}

const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Patched sites of events, and how many of them hold the NOP. Switches are the program's: no recorder turns them.
pub(crate) fn nops() -> (usize, usize) {
    let first = (&raw const FIRST).addr();
    let count = ((&raw const END).addr() - first) / RECORD_BYTES;
    let sites: Vec<[u8; 5]> = (0..count)
        .filter_map(|index| {
            let at = (&raw const FIRST).wrapping_add(index);
            // SAFETY: inside the section, whose bounds the linker has set.
            let record = unsafe { at.read_unaligned() };
            if record.description == 0 {
                return None;
            }
            let (code, _) = record.resolve(at.addr() as u64).code?;
            // SAFETY: the record leads to five bytes of this program's text.
            Some(unsafe { std::ptr::with_exposed_provenance::<[u8; 5]>(code as usize).read_volatile() })
        })
        .collect();
    (sites.len(), sites.iter().filter(|code| **code == NOP).count())
}

/// Says how its sites are, emits events until they are NOPs again (two minutes at most), and says that.
pub(crate) fn until_disarmed() {
    let (sites, off) = nops();
    println!("pid {}\nsites {sites}\noff {off}", std::process::id());
    println!("started 1");
    let until = Instant::now() + crate::words::PATIENCE;
    let mut seq = 0u64;
    while nops().1 != sites && Instant::now() < until {
        mote::event!(e2e::waiting, seq: u64 = seq);
        seq += 1;
        std::thread::sleep(Duration::from_micros(200));
    }
    for seq in 0..1000 {
        mote::event!(e2e::afterwards, seq: u64 = seq);
    }
    println!("emitted {seq}\noff-at-end {}", nops().1);
}
