//! Another process writes nonsense into maps: operations end, touch nothing outside, and do not crash.

mod common;

use common::shape;
use mote_bpf::{MapKind, MapShape};
use mote_sys::mem::Mapping;
use mote_vm::{Cursor, Map, Next, Update};

/// A map whose last byte is followed by a page that cannot be touched, and the words of its memory.
fn guarded(shape: &MapShape) -> (Map, *mut u64, usize) {
    let bytes = Map::bytes(shape);
    let pages = bytes.next_multiple_of(4096);
    let memory = Mapping::private(pages + 4096).expect("there is memory").leak();
    // SAFETY: a page of our own, to which nothing refers.
    let refused = unsafe { libc::mprotect(memory.wrapping_add(pages).cast(), 4096, libc::PROT_NONE) };
    assert_eq!(refused, 0);
    let at = memory.wrapping_add(pages - bytes);
    // SAFETY: the range lies before the guard and stays mapped.
    let map = unsafe { Map::create(at, shape) }.expect("a sound shape");
    (map, at.cast(), bytes / 8)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// Numbers that hurt: small ones, states with small indices, and anything.
    fn word(&mut self) -> u64 {
        let next = self.next();
        match next >> 62 {
            0 => next & 63,
            1 => (next & 0xff) << 34 | (next >> 8 & 3) << 32 | next >> 16 & 31,
            2 => 0,
            _ => next,
        }
    }
}

fn use_it(map: &Map, random: &mut Random) {
    let (key_bytes, value_bytes) = (map.shape().key_bytes as usize, map.shape().value_bytes as usize);
    let (mut key, mut value) = (vec![0; key_bytes], vec![0; value_bytes]);
    if let Some(first) = key.first_mut() {
        *first = random.next() as u8 % 40;
    }
    match random.next() >> 61 {
        0 | 1 => _ = map.add(&key, 3, 1),
        2 => _ = map.update(&key, &value, Update::Any),
        3 => _ = map.delete(&key),
        4 => _ = map.lookup(&key, &mut value),
        5 => drop(map.lost()),
        _ => {
            let mut cursor = Cursor::default();
            let mut entries = 0;
            while map.next(&mut cursor, &mut key, &mut value) {
                entries += 1;
            }
            assert!(entries <= map.shape().entries);
        }
    }
    if let Some(mut consumer) = map.consumer() {
        let mut buffer = [0; 256];
        for _ in 0..1000 {
            match consumer.next(&mut buffer) {
                Next::Record(_) => {}
                Next::Busy(_) => consumer.abandon(),
                Next::Empty | Next::TooSmall(_) | Next::Damaged => break,
            }
        }
    }
}

#[test]
fn nonsense_in_a_map_leads_to_no_access_outside() {
    let mut random = Random(3);
    let shapes = [
        shape(MapKind::Hash, 4, 8, 32),
        shape(MapKind::Hash, 40, 20, 5),
        shape(MapKind::LruHash, 8, 8, 16),
        shape(MapKind::Array, 4, 9, 7),
        shape(MapKind::PerCpuArray, 4, 8, 3),
        shape(MapKind::RingBuffer, 0, 0, 4096),
    ];
    for shape in shapes {
        for _ in 0..200 {
            let (map, words, count) = guarded(&shape);
            for _ in 0..40 {
                let at = words.wrapping_add(random.next() as usize % count.min(160));
                // SAFETY: a word of the map, which others access atomically.
                unsafe { std::sync::atomic::AtomicU64::from_ptr(at) }
                    .store(random.word(), std::sync::atomic::Ordering::Relaxed);
                use_it(&map, &mut random);
            }
        }
    }
}
