//! Hostile maps: their memory holds anything, and changes between operations. All of them end, and stay inside.
#![no_main]

use mote_bpf::{MapKind, MapShape};
use mote_sys::mem::Mapping;
use mote_vm::{Cursor, Map, Next, Update};
use std::sync::atomic::{AtomicU64, Ordering};

const KINDS: [MapKind; 5] =
    [MapKind::Hash, MapKind::LruHash, MapKind::Array, MapKind::PerCpuArray, MapKind::RingBuffer];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, key_bytes, entries], steps)) = bytes.split_first_chunk() else { return };
    let kind = KINDS[kind as usize % KINDS.len()];
    let shape = match kind {
        MapKind::RingBuffer => MapShape { kind, key_bytes: 0, value_bytes: 0, entries: 4096, read_only: false },
        MapKind::Array | MapKind::PerCpuArray => {
            MapShape { kind, key_bytes: 4, value_bytes: 12, entries: u32::from(entries % 8) + 1, read_only: false }
        }
        _ => MapShape {
            kind,
            key_bytes: u32::from(key_bytes % 40) + 1,
            value_bytes: 12,
            entries: u32::from(entries % 16) + 1,
            read_only: false,
        },
    };
    let memory = Mapping::private(Map::bytes(&shape)).expect("there is memory");
    // SAFETY: the mapping outlives the map, and nobody else knows of it.
    let map = unsafe { Map::create(memory.base(), &shape) }.expect("a sound shape");
    let (mut key, mut value) = (vec![0; shape.key_bytes as usize], vec![0; shape.value_bytes as usize]);
    for step in steps.chunks_exact(12) {
        let at = usize::from(u16::from_le_bytes([step[0], step[1]])) % (memory.len() / 8).min(200);
        let word = u64::from_le_bytes(step[4..].try_into().expect("8 bytes"));
        // SAFETY: a word inside the mapping, aligned, accessed atomically by all.
        unsafe { AtomicU64::from_ptr(memory.base().cast::<u64>().wrapping_add(at)) }.store(word, Ordering::Relaxed);
        if let Some(first) = key.first_mut() {
            *first = step[2] % 20;
        }
        match step[3] % 6 {
            0 => drop(map.add(&key, 1, 1)),
            1 => drop(map.update(&key, &value, Update::Any)),
            2 => drop(map.delete(&key)),
            3 => drop(map.lookup(&key, &mut value)),
            4 => assert!(map.lost() <= u64::from(shape.entries)),
            _ => {
                let mut cursor = Cursor::default();
                let entries = std::iter::repeat_with(|| map.next(&mut cursor, &mut key, &mut value));
                assert!(entries.take_while(|there| *there).count() <= shape.entries as usize);
            }
        }
        let Some(mut consumer) = map.consumer() else { continue };
        for _ in 0..64 {
            match consumer.next(&mut value) {
                Next::Record(_) | Next::Empty => {}
                Next::Busy(_) => consumer.abandon(),
                Next::TooSmall(_) | Next::Damaged => break,
            }
        }
    }
});
