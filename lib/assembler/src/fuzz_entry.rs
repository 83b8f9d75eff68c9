//! Entry points for fuzzing: bytes in, no panic, bounded memory. Each is also a one-second test here.

use crate::elf::Object;
use crate::text::assemble;
use mote_bpf::Insn;
use mote_bpf::disassemble::Listing;

/// Reads an object; its programs come back from their listings.
pub fn object(bytes: &[u8]) {
    if let Ok(object) = Object::read(bytes, &[]) {
        for program in &object.programs {
            comes_back(&program.insns);
        }
    }
}

/// Assembles a text; what comes of it comes back from its listing.
pub fn text(bytes: &[u8]) {
    if let Ok(insns) = assemble(&String::from_utf8_lossy(bytes), None) {
        comes_back(&insns);
    }
}

fn comes_back(insns: &[Insn]) {
    let listing = Listing { insns, environment: None }.to_string();
    let back = assemble(&listing, None);
    assert!(back.as_deref() == Ok(insns), "{listing}\n{:?}", back.err());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Shape, Source, program};
    use std::time::{Duration, Instant};

    /// Changes a few characters of a text at a time, for a second.
    #[test]
    fn changed_texts_do_not_panic() {
        let (mut source, start) = (Source::new(1), Instant::now());
        for seed in 0.. {
            let insns = program(seed, &Shape { map: true, ..Shape::default() });
            let listing = Listing { insns: &insns, environment: None }.to_string().into_bytes();
            text(&listing);
            for _ in 0..20 {
                let mut changed = listing.clone();
                for _ in 0..1 + source.below(3) {
                    let at = source.below(changed.len() as u64) as usize;
                    match source.below(3) {
                        0 => changed[at] = source.pick(b" 0123456789abcdefrsw+-*/&|^<>=()[]:,.#%\nx"),
                        1 => drop(changed.remove(at)),
                        _ => changed[at] = source.bits() as u8,
                    }
                }
                text(&changed);
            }
            if start.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
    }

    /// An ELF header with random bytes at places that matter; objects of clang are changed in the loader's own tests.
    #[test]
    fn random_objects_do_not_panic() {
        let (mut source, start) = (Source::new(2), Instant::now());
        while start.elapsed() < Duration::from_secs(1) {
            let mut bytes: Vec<u8> = (0..256 + source.below(512)).map(|_| source.value() as u8).collect();
            bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            bytes[18..20].copy_from_slice(&[247, 0]);
            bytes[40..48].copy_from_slice(&64u64.to_le_bytes());
            bytes[58..62].copy_from_slice(&[64, 0, 3, 0]);
            object(&bytes);
        }
    }
}
