//! Maps with known content, as they are shown.

use super::*;
use crate::maps::{Entry, Key, KeyType, PLACES};
use mote_bpf::helper::{BUCKETS, bucket};

fn key(name: &str, ty: KeyType, offset: u32) -> Key {
    Key { name: name.to_owned(), ty, offset }
}

fn proto_and_tid(proto: &str, tid: u64) -> Vec<u8> {
    let mut bytes = proto.as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes.extend(tid.to_le_bytes());
    bytes
}

#[test]
fn what_is_shown_can_be_read_and_nothing_else() {
    let keys = || vec![key("len", KeyType::Unsigned, 0)];
    for (entry, shown) in [
        (Entry::count("count", keys()), true),
        (Entry::histogram("hist", key("len", KeyType::Unsigned, 0), keys()), true),
        (Entry::last("last", 3, keys()), true),
        (Entry::flag("flag"), true),
        (Entry::state("state", 8), false),
        (Entry::threads("threads", 8), false),
        (Entry::constants(vec![1]), false),
        (Entry::shared(), false),
        (Entry::shared_words(), false),
        (Entry::areas(), false),
        (Entry::dropped(), false),
    ] {
        assert_eq!(Aggregate::is_of(&entry.meaning), shown, "{entry:?}");
        assert_eq!(Aggregate::read(&entry, &Maps::new(), &[], 0).is_some(), shown, "{entry:?}");
    }
}

#[test]
fn counts_are_sorted_and_aligned() {
    let entry = Entry::count(
        "count by proto, $tid",
        vec![key("proto", KeyType::String(16), 0), key("$tid", KeyType::Unsigned, 16)],
    );
    let count = |n: u64| n.to_le_bytes().to_vec();
    let pairs = [
        (proto_and_tid("udp", 7), count(3)),
        (proto_and_tid("tcp", 4242), count(12)),
        (proto_and_tid("a text of 16 byt", 1), count(1)),
        (proto_and_tid("none", 1), count(0)),
        (vec![1], count(9)),
    ];
    let read = Aggregate::read(&entry, &Maps::new(), &pairs, 412).unwrap();
    let text = "\
count by proto, $tid
  proto             $tid count
  tcp               4242    12  ████████████████████
  udp                  7     3  █████
  a text of 16 byt…    1     1  ██
  412 events are not in the table: it is full
";
    assert_eq!(read.text(52, 10), text);
    let json = read.json();
    assert_eq!(json["rows"][0]["keys"]["proto"], "tcp");
    assert_eq!(json["rows"][1]["count"], 3);
    assert!(read.text(40, 1).contains("and 2 more"));
}

#[test]
fn tables_are_as_wide_as_the_terminal() {
    let keys = vec![key("path", KeyType::String(56), 0), key("comm", KeyType::String(32), 56)];
    let entry = Entry::count("count by path, comm", keys);
    let mut pair = b"/opt/vendor/releases/lib/server/bin/worker".to_vec();
    pair.resize(56, 0);
    pair.extend(b"a-name-of-more-than-20");
    pair.resize(88, 0);
    let read = Aggregate::read(&entry, &Maps::new(), &[(pair, 7u64.to_le_bytes().to_vec())], 1).unwrap();
    for width in 30..120 {
        let text = read.text(width, 10);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
    let narrow = read.text(50, 10);
    assert!(
        narrow.contains("/opt/") && narrow.contains("/bin/worker") && narrow.contains(" a-name"),
        "{narrow}"
    );
}

#[test]
fn what_is_written_as_json_is_shown_as_it_was() {
    let types = [
        KeyType::Signed,
        KeyType::Unsigned,
        KeyType::Hex,
        KeyType::Float,
        KeyType::Bool,
        KeyType::Nanos,
        KeyType::Labels(vec![("UP".to_owned(), 1, 2)]),
        KeyType::String(8),
    ];
    let keys = types.iter().zip(0..).map(|(ty, at)| key(&format!("{at}"), ty.clone(), 8 * at)).collect();
    let entry = Entry::count("all", keys);
    let row = |word: u64, text: &[u8; 8]| {
        let words = [word; 7].into_iter().flat_map(u64::to_le_bytes);
        (words.chain(*text).collect::<Vec<u8>>(), word.to_le_bytes().to_vec())
    };
    let pairs =
        [row(1, b"a\x1b\0\0\0\0\0\0"), row(1_500_000, b"12345678"), row(u64::MAX >> 12, b"x\0\0\0\0\0\0\0")];
    let same = |read: &Aggregate| {
        let json = serde_json::from_str(&read.json().to_string()).unwrap();
        assert_eq!(Aggregate::of_json(&json).unwrap().text(200, 10), read.text(200, 10), "{json}");
    };
    same(&Aggregate::read(&entry, &Maps::new(), &pairs, 3).unwrap());
    same(&Aggregate::read(&entry, &Maps::new(), &[], 0).unwrap());
    same(&Aggregate::flag("flag".to_owned(), true));
    for ty in types.into_iter().take(7).filter(|ty| !matches!(ty, KeyType::Float | KeyType::Bool)) {
        let entry = Entry::histogram("hist", key("v", ty, 0), vec![key("k", KeyType::Hex, 0)]);
        let pair = |value: u64, count: u64| {
            let place = u64::from(BUCKETS + bucket(value));
            ([7u64.to_le_bytes(), place.to_le_bytes()].concat(), count.to_le_bytes().to_vec())
        };
        same(&Aggregate::read(&entry, &Maps::new(), &[pair(1, 3), pair(2000, 1)], 0).unwrap());
    }
    for broken in ["{}", r#"{"kind":"counts","name":"x","dropped":0}"#, "[]", r#"{"kind":"new"}"#] {
        assert!(Aggregate::of_json(&serde_json::from_str(broken).unwrap()).is_none(), "{broken}");
    }
}

#[test]
fn histograms_have_bars_and_quantiles() {
    let entry = Entry::histogram(
        "hist len by proto",
        key("len", KeyType::Signed, 0),
        vec![key("proto", KeyType::String(8), 0)],
    );
    let pair = |proto: &str, value: i64, count: u64| {
        let mut bytes = proto.as_bytes().to_vec();
        bytes.resize(8, 0);
        let bucket = bucket(value.unsigned_abs());
        let place = if value < 0 { BUCKETS - 1 - bucket } else { BUCKETS + bucket };
        bytes.extend(u64::from(place).to_le_bytes());
        (bytes, count.to_le_bytes().to_vec())
    };
    let pairs = [pair("tcp", 5, 10), pair("tcp", -3, 2), pair("tcp", 1500, 8), pair("udp", 64, 1)];
    let read = Aggregate::read(&entry, &Maps::new(), &pairs, 0).unwrap();
    let Content::Histograms { list, .. } = &read.content else { panic!("no histograms") };
    assert_eq!(list[0].buckets, [(-3, -3, 2), (5, 5, 10), (1408, 1535, 8)]);
    assert_eq!((list[0].count(), list[0].quantile(0.5), list[0].quantile(1.0)), (20, Some(5), Some(1535)));
    let text = read.text(60, 10);
    assert!(text.contains("proto tcp: len: 20 values, median 5, 99 % 1535"), "{text}");
    assert!(text.contains("1408 .. 1535   8 █"), "{text}");
    assert_eq!(read.json()["histograms"][0]["buckets"][0], serde_json::json!([-3, -3, 2]));
}

#[test]
fn a_histogram_without_keys_is_one_value() {
    let entry = Entry::histogram("hist ns", key("ns", KeyType::Nanos, 0), Vec::new());
    let mut value = vec![0; PLACES as usize * 8];
    let at = (BUCKETS + bucket(250_000)) as usize * 8;
    value[at] = 4;
    let read = Aggregate::read(&entry, &Maps::new(), &[(vec![0; 4], value)], 0).unwrap();
    assert!(read.text(80, 1).contains("245.76us .. 262.143us  4 ██"), "{}", read.text(80, 1));
}

#[test]
fn the_last_events_are_in_order() {
    let fields =
        vec![key("len", KeyType::Signed, 0), key("state", KeyType::Labels(vec![("UP".to_owned(), 1, 2)]), 8)];
    let entry = Entry::last("last 2", 2, fields);
    let event = |number: u64, len: i64, state: u64| {
        [number.to_le_bytes(), len.to_le_bytes(), state.to_le_bytes()].concat()
    };
    let pairs = [
        (vec![0, 0, 0, 0], event(3, 0, 0)),
        (vec![1, 0, 0, 0], event(3, -5, 2)),
        (vec![2, 0, 0, 0], event(2, 9, 7)),
    ];
    let read = Aggregate::read(&entry, &Maps::new(), &pairs, 0).unwrap();
    assert_eq!(read.text(80, 10), "last 2\n  len state\n    9 7\n   -5 UP\n");
}

#[test]
fn hostile_texts_do_not_steer_a_terminal() {
    let entry = Entry::count("c", vec![key("t", KeyType::String(8), 0)]);
    let pairs = [(b"\x1b[31m\xff\xc3\xa9".to_vec(), 1u64.to_le_bytes().to_vec())];
    let read = Aggregate::read(&entry, &Maps::new(), &pairs, 0);
    assert!(read.is_none_or(|read| !read.text(80, 9).contains('\x1b')));
}
