//! Maps from outside: what is put in comes out, what does not fit is counted.

mod common;

use common::{map, shape};
use mote_bpf::{MapKind, MapShape};
use mote_vm::{Cursor, Map, MapError, Next, Update};
use std::collections::HashMap;

fn all(map: &Map) -> HashMap<Vec<u8>, Vec<u8>> {
    let shape = map.shape();
    let (mut key, mut value) = (vec![0; shape.key_bytes as usize], vec![0; shape.value_bytes as usize]);
    let (mut cursor, mut entries) = (Cursor::default(), HashMap::new());
    while map.next(&mut cursor, &mut key, &mut value) {
        assert!(entries.insert(key.clone(), value.clone()).is_none(), "an entry is shown twice");
    }
    entries
}

#[test]
fn a_hash_does_what_a_standard_one_does() {
    // Sizes that are no multiples of words, one of exactly a word, and a long one.
    for (key_bytes, value_bytes) in [(1, 1), (4, 8), (8, 8), (13, 7), (32, 24), (512, 100)] {
        let map = map(&shape(MapKind::Hash, key_bytes, value_bytes, 200));
        let mut model = HashMap::new();
        let mut random = 7u64;
        for turn in 0..20_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut key = vec![0; key_bytes as usize];
            let last = key.len() - 1;
            key[last] = (random >> 33) as u8 % 150;
            let mut value = vec![turn as u8; value_bytes as usize];
            match random >> 60 {
                0..=5 => {
                    map.update(&key, &value, Update::Any).expect("there is room");
                    model.insert(key, value);
                }
                6..=7 => {
                    let there = model.contains_key(&key);
                    let done = map.update(&key, &value, Update::New);
                    assert_eq!(done, if there { Err(MapError::Exists) } else { Ok(()) });
                    model.entry(key).or_insert(value);
                }
                8..=9 => {
                    let there = model.contains_key(&key);
                    let done = map.update(&key, &value, Update::Existing);
                    assert_eq!(done, if there { Ok(()) } else { Err(MapError::Missing) });
                    model.entry(key).and_modify(|old| *old = value);
                }
                10..=12 => assert_eq!(map.delete(&key).is_ok(), model.remove(&key).is_some()),
                _ => {
                    let found = map.lookup(&key, &mut value).map(|()| value);
                    assert_eq!(found.ok(), model.get(&key).cloned());
                }
            }
        }
        assert_eq!(all(&map), model);
        assert_eq!((map.dropped(), map.lost()), (0, 0));
    }
}

#[test]
fn a_full_hash_counts_what_does_not_fit() {
    let map = map(&shape(MapKind::Hash, 4, 8, 100));
    let fit = (0..512u32).filter(|key| map.add(&key.to_le_bytes(), 0, 1).is_ok()).count();
    assert_eq!((fit, map.dropped()), (100, 412));
    assert_eq!(map.add(&7u32.to_le_bytes(), 0, 1), Ok(()), "entries that are there go on");
    assert_eq!(map.update(&1000u32.to_le_bytes(), &[0; 8], Update::Any), Err(MapError::Full));
    assert_eq!(map.delete(&7u32.to_le_bytes()), Ok(()));
    assert_eq!(map.add(&1000u32.to_le_bytes(), 0, 5), Ok(()), "a deleted entry makes room");
    assert_eq!(all(&map).len(), 100);
}

#[test]
fn an_lru_hash_keeps_what_is_used() {
    let map = map(&shape(MapKind::LruHash, 4, 8, 64));
    for turn in 0..10_000u32 {
        map.add(&u32::MAX.to_le_bytes(), 0, 1).expect("it is there or made");
        map.add(&turn.to_le_bytes(), 0, 1).expect("another gives way");
    }
    let entries = all(&map);
    assert_eq!(entries.len(), 64);
    assert_eq!(entries[&u32::MAX.to_le_bytes().to_vec()], 10_000u64.to_le_bytes());
    assert!(entries.contains_key(9_999u32.to_le_bytes().as_slice()));
    assert_eq!((map.dropped(), map.lost()), (0, 0));
}

#[test]
fn arrays_are_all_there() {
    let array = map(&shape(MapKind::Array, 4, 12, 3));
    array.update(&1u32.to_le_bytes(), &[5; 12], Update::Any).expect("there");
    let entries = all(&array);
    assert_eq!((entries.len(), &entries[&vec![1, 0, 0, 0]][..]), (3, &[5; 12][..]));
    let mut value = [0; 12];
    assert_eq!(array.lookup(&3u32.to_le_bytes(), &mut value), Err(MapError::Missing));
    assert_eq!(array.update(&1u32.to_le_bytes(), &value, Update::New), Err(MapError::Exists));
    assert_eq!(array.delete(&1u32.to_le_bytes()), Err(MapError::Size));
    assert_eq!(array.lookup(&[0; 3], &mut value), Err(MapError::Size));

    let copies = map(&shape(MapKind::PerCpuArray, 4, 8, 2));
    for copy in 0..mote_vm::map::COPIES {
        copies.add(&1u32.to_le_bytes(), copy, i64::from(copy)).expect("there");
    }
    let mut value = [0; 8];
    copies.lookup_copy(&1u32.to_le_bytes(), 63, &mut value).expect("there");
    assert_eq!(u64::from_le_bytes(value), 63);
}

#[test]
fn memory_of_another_map_is_refused() {
    let hash = shape(MapKind::Hash, 4, 8, 100);
    let mut memory = vec![0u64; Map::bytes(&hash) / 8];
    let at = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: `memory` outlives the maps and is not used otherwise.
    let open = |shape: &MapShape| unsafe { Map::open(at, shape) }.map(drop);
    assert_eq!(open(&hash), Err(MapError::Header));
    // SAFETY: as above.
    unsafe { Map::create(at, &hash) }.expect("made");
    assert_eq!(open(&hash), Ok(()));
    assert_eq!(open(&MapShape { entries: 99, ..hash }), Err(MapError::Header));
    assert_eq!(open(&MapShape { value_bytes: 0, ..hash }), Err(MapError::Shape));
    // SAFETY: refused before anything is read.
    assert_eq!(unsafe { Map::open(at.wrapping_add(1), &hash) }.map(drop), Err(MapError::Address));
}

#[test]
fn a_ring_buffer_that_was_never_written_is_empty() {
    let ring = map(&shape(MapKind::RingBuffer, 0, 0, 4096));
    assert_eq!(ring.consumer().expect("a ring buffer").next(&mut [0; 8]), Next::Empty);
    assert_eq!(ring.add(&[], 0, 1), Err(MapError::Size));
    assert!(map(&shape(MapKind::Array, 4, 8, 1)).consumer().is_none());
}
