//! Lists that are written and read again, and such as nobody has written.

use mote_probelist::{Function, Inlined, Kind, List, Placeholder, Was};
use std::path::Path;

fn list() -> List {
    let function = |address, name: &str| Function {
        address,
        size: 32,
        name: name.to_owned(),
        file: Some("/src/app.c".to_owned()),
        line: Some(7),
    };
    let bare = Placeholder {
        offset: 0x1004,
        address: 0x401004,
        size: 5,
        kind: Kind::Enter,
        was: Was::Call,
        function: Some("main".to_owned()),
        file: None,
        line: None,
        inlined: Vec::new(),
        event: None,
        entry: None,
    };
    let whole = Placeholder {
        offset: 0x1010,
        address: 0x401010,
        kind: Kind::XrayEntry,
        was: Was::Nop,
        file: Some("a \"b\".c".to_owned()),
        line: Some(3),
        inlined: vec![Inlined { function: "twice".to_owned(), file: None, line: Some(9) }],
        event: Some("app:begun".to_owned()),
        ..bare.clone()
    };
    List {
        build_id: "00ff".to_owned(),
        text: "12".to_owned(),
        functions: vec![function(0x401000, "main"), function(0x401040, "_Zé\n")],
        placeholders: vec![bare, whole],
    }
}

fn text(list: &List) -> String {
    let mut bytes = Vec::new();
    list.write(&mut bytes).expect("memory");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn what_is_written_is_read_again() {
    for list in [list(), List { functions: Vec::new(), placeholders: Vec::new(), ..list() }] {
        let text = text(&list);
        assert_eq!(text.lines().count(), 1 + list.functions.len() + list.placeholders.len());
        assert_eq!(List::read(text.as_bytes()).expect("right"), list);
        // What is added later, and lines as other systems end them.
        let more = text.replacen("\"version\"", "\"new\":[{}],\"version\"", 1).replace('\n', "\r\n");
        assert_eq!(List::read(more.as_bytes()).expect("right"), list);
    }
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_string(&kind).expect("a word"), format!("{:?}", kind.word()));
    }
    let found = list();
    assert_eq!(found.function(0x401040).map(|function| function.name.as_str()), Some("_Zé\n"));
    assert_eq!(found.function(0x401041), None);
}

#[test]
fn a_list_is_of_one_binary() {
    let list = list();
    assert!(list.is_of("00ff", || None));
    assert!(!list.is_of("00fe", || Some("12".to_owned())));
    assert!(!list.is_of("", || Some("12".to_owned())));
    let without = List { build_id: String::new(), ..list };
    assert!(without.is_of("", || Some("12".to_owned())));
    assert!(!without.is_of("", || Some("13".to_owned())));
    assert!(!without.is_of("", || None));
    assert!(!without.is_of("00ff", || Some("12".to_owned())));
}

#[test]
fn what_is_no_list_is_refused_with_a_sentence() {
    let whole = text(&list());
    let header = whole.lines().next().expect("a line").to_owned();
    let changed = |from: &str, to: &str| {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "{from}");
        text
    };
    let cases = [
        (String::new(), "no probe list"),
        ("\n\n".to_owned(), "no probe list"),
        (whole.replacen('\n', "\n\n", 1), "line 2: EOF"),
        ("\u{7f}ELF".to_owned(), "no probe list"),
        ("{\"line\":\"function\",\"version\":1}".to_owned(), "no probe list"),
        (changed("\"version\":1", "\"version\":2"), "of version 2, and this mote reads version 1"),
        (changed("00ff", "../.."), "line 1: the build id"),
        (changed("00ff", &"0".repeat(1000)), "line 1: the build id"),
        (changed("\"text\":\"12\"", "\"text\":12"), "line 1: invalid type"),
        (header.replace("00ff", "").replace("12", ""), "of which binary"),
        (header.clone(), "says that it has 2 functions, and has 0"),
        (changed("\"placeholders\":2", "\"placeholders\":3"), "3 placeholders, and has 2"),
        (whole.replacen(&header, &format!("{header}\n{header}"), 1), "line 2: it is a second first line"),
        (changed("\"size\":32", "\"size\":-1"), "line 2: invalid value"),
        (changed("\"size\":32", "\"size\":18446744073709551615"), "line 2: its address or size"),
        (changed("\"name\":\"main\"", "\"name\":\"\""), "line 2: the function has no name"),
        (changed("\"address\":4198464", "\"address\":4198400"), "line 3: functions are not in the order"),
        (changed("\"offset\":4112", "\"offset\":18446744073709551615"), "line 5: its address or size"),
        (changed("\"address\":4198416", "\"address\":4198408"), "line 5: placeholders overlap"),
        (changed("xray-entry", "x-ray"), "line 5: unknown variant"),
        (changed("app:begun", &"x".repeat(2 << 20)), "line 5: it is longer than 1 MiB"),
        (format!("{}{}", &header[..header.len() - 1], "[".repeat(100_000)), "no probe list"),
    ];
    for (text, says) in cases {
        let why = List::read(text.as_bytes()).expect_err(says).to_string();
        assert!(why.contains(says), "{says}: {why}");
    }
}

#[test]
fn each_cut_and_each_changed_byte_is_a_list_or_an_error() {
    let whole = text(&list());
    let bytes = whole.as_bytes();
    let mut whole_ones = 0;
    for at in 0..bytes.len() {
        let cut = List::read(&bytes[..at]);
        // Only the line feed at the end may be missing.
        assert!(cut.is_err() || at + 1 == bytes.len(), "{at}");
        for change in [0x01, 0x20, 0x80, 0xff] {
            let mut changed = bytes.to_owned();
            changed[at] ^= change;
            whole_ones += usize::from(List::read(changed.as_slice()).is_ok());
        }
    }
    assert!(whole_ones > 0, "a changed name is a name");
}

#[test]
fn a_line_without_an_end_is_not_waited_for() {
    let endless = std::io::BufReader::new(std::io::repeat(b'x'));
    let why = List::read(endless).expect_err("no list").to_string();
    assert_eq!(why, "line 1: it is longer than 1 MiB");
}

#[test]
fn only_regular_files_are_opened() {
    for path in ["/dev/null", "/dev", "/no such file"] {
        let why = List::open(Path::new(path)).expect_err(path).to_string();
        assert!(why.starts_with(&format!("cannot read the probe list {path}: ")), "{why}");
    }
}
