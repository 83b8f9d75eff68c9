//! C and C++ programs carry the same events as Rust ones, by `mote.h` and `libmote.so` or `libmote.a`, with gcc and
//! clang.

use crate::support::event::named;
use crate::support::{Record, Trace, has_tool, output_of, programs};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
use mote_layout::site::{Of, RECORD_BYTES, SECTION, SiteRecord};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Where a program gets the library from.
const LIBRARIES: [&str; 2] = ["-lmote", "-l:libmote.a"];

const C: [&[&str]; 2] = [&["gcc", "-std=c11"], &["clang", "-std=c11"]];
const CPP: [&[&str]; 2] = [&["g++", "-std=c++17"], &["clang++", "-std=c++17"]];

/// What a program may be compiled with.
const WAYS: [&[&str]; 8] = [
    &["-O0"],
    &["-O2"],
    &["-O2", "-fPIC"],
    &["-O0", "-fPIC", "-DMOTE_TESTED_BYTE"],
    &["-O2", "-fno-pie", "-no-pie"],
    &["-O2", "-fvisibility=hidden", "-ffunction-sections", "-Wl,--gc-sections"],
    &["-Os", "-fstack-protector-strong", "-DMOTE_TESTED_BYTE"],
    &["-O2", "-flto"],
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

fn sources(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| root().join("tests/programs/c").join(name)).collect()
}

/// A directory of programs.
struct Workshop(TempDir);

impl Workshop {
    fn new() -> Workshop {
        Workshop(tempfile::Builder::new().prefix("mote-c-").tempdir().expect("a temporary directory"))
    }

    /// Compiles; any warning is an error.
    #[track_caller]
    fn make(&self, name: &str, compiler: &[&str], way: &[&str], from: &[&str], link: &[&str]) -> PathBuf {
        let output = self.0.path().join(name);
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        command.arg(root().join("crates/traced/capi/include")).args(way).args(sources(from));
        if !link.is_empty() {
            command.arg("-L").arg(programs::library()).args(link);
        }
        command.arg("-o").arg(&output);
        output_of(&mut command);
        output
    }
}

/// Sources that are compiled in one way, to be linked with several libraries or by several linkers.
struct Objects<'w> {
    workshop: &'w Workshop,
    compiler: &'w [&'w str],
    way: &'w [&'w str],
    files: Vec<PathBuf>,
}

impl<'w> Objects<'w> {
    #[track_caller]
    fn new(workshop: &'w Workshop, compiler: &'w [&str], way: &'w [&str], from: &[&str]) -> Objects<'w> {
        // What is the linker's, a compiler that only compiles complains of.
        let compiled: Vec<&str> =
            way.iter().copied().filter(|word| !word.starts_with("-Wl,") && *word != "-no-pie").collect();
        let compiled = [&compiled[..], &["-c"]].concat();
        let make = |name: &&str| workshop.make(&format!("{name}.o"), compiler, &compiled, &[*name], &[]);
        Objects { workshop, compiler, way, files: from.iter().map(make).collect() }
    }

    #[track_caller]
    fn link(&self, name: &str, link: &[&str]) -> PathBuf {
        let output = self.workshop.0.path().join(name);
        let mut command = Command::new(self.compiler[0]);
        command.args(self.way).args(&self.files).arg("-L").arg(programs::library()).args(link);
        output_of(command.arg("-o").arg(&output));
        output
    }
}

/// The compilers of this machine.
fn available(of: [&'static [&'static str]; 2]) -> Vec<&'static [&'static str]> {
    of.into_iter().filter(|compiler| has_tool(compiler[0])).collect()
}

/// clang's objects of link-time optimisation need a linker that the machine may not have.
fn can(compiler: &[&str], way: &[&str]) -> bool {
    !(compiler[0].starts_with("clang") && way.contains(&"-flto"))
}

fn path() -> String {
    programs::library().to_str().expect("text").to_owned()
}

fn run(command: &[&Path]) -> String {
    output_of(
        Command::new(command[0])
            .args(&command[1..])
            .env("LD_LIBRARY_PATH", path())
            .env_remove("MOTE_SESSION"),
    )
}

fn recorded(command: &[&Path]) -> Trace {
    let trace = Record::program(command).env("LD_LIBRARY_PATH", &path()).run().ends_with(0);
    assert_eq!(trace.lost_total(), 0);
    trace
}

/// Names and fields of the events, as mote and babeltrace2 agree about them; as many as the program says.
#[track_caller]
fn contents(command: &[&Path]) -> Vec<String> {
    let trace = recorded(command);
    let events = trace.events();
    assert_eq!(events.len() as u64, trace.printed("emitted"), "{}", trace.err);
    events.iter().map(|event| format!("{} {:?}", event.name, event.fields)).collect()
}

#[test]
fn the_header_compiles_everywhere_and_does_nothing_untraced() {
    let workshop = Workshop::new();
    let compilers = available(C).into_iter().map(|compiler| (compiler, &["events.c"][..], "emitted 42\n"));
    let plus_plus = available(CPP).into_iter();
    let plus_plus = plus_plus.map(|compiler| (compiler, &["events.cpp", "other.cpp"][..], "emitted 17\n"));
    for (compiler, sources, expected) in compilers.chain(plus_plus) {
        for way in WAYS.into_iter().filter(|way| can(compiler, way)) {
            let objects = Objects::new(&workshop, compiler, way, sources);
            for library in LIBRARIES {
                let program = objects.link("program", &[library]);
                assert_eq!(run(&[&program]), expected, "{compiler:?} {way:?} {library}");
            }
        }
    }
}

#[test]
fn cooperation_is_the_same_in_c() {
    let workshop = Workshop::new();
    let value = |out: &str, name: &str| {
        let line = out.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("no {name} in {out}"))
    };
    for compiler in available(C).into_iter().chain(available(CPP)) {
        let as_cpp: &[&str] = if compiler[0].ends_with("++") { &["-x", "c++"] } else { &[] };
        let compiler = [compiler, as_cpp].concat();
        for way in [WAYS[0], WAYS[1]] {
            let objects = Objects::new(&workshop, &compiler, way, &["cooperate.c"]);
            for library in LIBRARIES {
                let out = run(&[&objects.link("cooperate", &[library])]);
                let same =
                    |name, expected| assert_eq!(value(&out, name), expected, "{name} {compiler:?}: {out}");
                // Nobody is there, and what needs nobody works.
                for (name, expected) in
                    [("told", 0), ("process", 0), ("published", 0), ("shared", 0), ("window", 0)]
                {
                    same(name, expected);
                }
                for (name, expected) in [("before", 40), ("word", 42), ("behind", 0), ("opened", 1)] {
                    same(name, expected);
                }
                for name in ["outside_default", "thread_word", "no_word", "refused"] {
                    same(name, 1);
                }
            }
        }
    }
}

/// Asserts that this is what `own.c` has recorded.
#[track_caller]
fn assert_own(events: &[crate::support::Event]) {
    let notes = named(events, "mote:note");
    let texts: Vec<&str> = notes.iter().filter_map(|note| note.fields["text"].as_str()).collect();
    assert_eq!(texts[..2], ["plain", "7 of seven:   0.2"]);
    let cut = [(511, ""), (507, "\u{20ac}"), (508, "\u{20ac}"), (509, ""), (510, ""), (511, "")];
    assert_eq!(texts[2..], cut.map(|(len, end)| format!("{}{end}", "x".repeat(len))));
    let packets = named(events, "own:packet_in");
    let lens: Vec<u64> = packets.iter().map(|event| event.number("len")).collect();
    assert_eq!(lens, [1, 2, 3, 4, 5, 6]);
    assert_eq!((named(events, "own:lists").len(), named(events, "own:idle").len()), (2, 2));
}

#[test]
fn programs_of_c_have_switches_probes_and_quick_text_of_their_own() {
    let workshop = Workshop::new();
    for compiler in available(C).into_iter().chain(available(CPP)) {
        let as_cpp: &[&str] = if compiler[0].ends_with("++") { &["-x", "c++"] } else { &[] };
        let compiler = [compiler, as_cpp].concat();
        for (index, way) in WAYS.into_iter().enumerate().filter(|(_, way)| can(&compiler, way)) {
            if ![0, 2, 3, 7].contains(&index) {
                continue;
            }
            let objects = Objects::new(&workshop, &compiler, way, &["own.c", "own2.c"]);
            let program = objects.link("own", &[LIBRARIES[index % 2], "-pthread"]);
            // It looks by itself whether all is as it must be.
            assert_eq!(run(&[&program]), "emitted 18\n", "{compiler:?} {way:?}");
            if index == 2 || index == 3 {
                let events = ["-e", "mote:*", "-e", "own:*", "-x", "own:beat"];
                let record = Record::program(&[&program]).with(&events).env("LD_LIBRARY_PATH", &path());
                println!("{compiler:?} {way:?}");
                assert_own(&record.run().ends_with(0).events());
            }
        }
    }
}

#[test]
fn every_type_of_field_arrives_the_same_from_every_compiler() {
    let workshop = Workshop::new();
    let mut first: Option<Vec<String>> = None;
    for (index, compiler) in available(C).into_iter().chain(available(CPP)).enumerate() {
        for (way, library) in [(0, 0), (1, 1), (3, 0)] {
            let as_cpp: &[&str] = if compiler[0].ends_with("++") { &["-x", "c++"] } else { &[] };
            let compiler = [compiler, as_cpp].concat();
            let link = ["-x", "none", LIBRARIES[library]];
            let name = format!("events{index}");
            let program = workshop.make(&name, &compiler, WAYS[way], &["events.c"], &link[..]);
            let contents = contents(&[&program]);
            assert_eq!(first.get_or_insert_with(|| contents.clone()), &contents, "{compiler:?} {way}");
        }
    }
    let Some(first) = first else { return };
    let has = |text: &str| assert!(first.iter().any(|event| event.contains(text)), "{text} in {first:#?}");
    has("c:nothing {}");
    has("probe:bare {}");
    has(r#"probe:retry {"tries": Number(3), "why": String("busy")}"#);
    has(r#""d": Number(-9223372036854775808)"#);
    has(r#""null": String("(null)")"#);
    has(r#""empty": String("")"#);
    has(r#""times": Number(3)"#);
    has(&format!(r#"String("{}")"#, "y".repeat(59_999)));
    has(r#""end": Number(4276993775)"#);
    has(r#""f40": String("forty")"#);
}

#[test]
fn inline_functions_and_templates_of_two_files_leave_no_site_behind() {
    let workshop = Workshop::new();
    let linkers = ["-fuse-ld=bfd", "-fuse-ld=gold"].into_iter();
    let linkers: Vec<&str> = linkers.filter(|linker| has_tool(&linker.replace("-fuse-ld=", "ld."))).collect();
    for compiler in available(CPP) {
        for optimised in ["-O0", "-O2"] {
            let way = [optimised];
            let objects = Objects::new(&workshop, compiler, &way, &["events.cpp", "other.cpp"]);
            for linker in &linkers {
                let program = objects.link("cpp", &[linker, "-lmote"]);
                let sites = sites(&program);
                let of = |name: &str| sites.iter().filter(|site| site.contains(name)).count();
                if optimised == "-O0" {
                    assert_eq!(
                        (of(":in_inline"), of(":in_template")),
                        (1, 2),
                        "{compiler:?} {linker}: {sites:#?}"
                    );
                }
                let events = contents(&[&program]);
                assert!(events[0].starts_with("cpp:before_main"), "{events:#?}");
            }
        }
    }
}

/// `provider:name` of every site of a program; panics if one does not hold a NOP or has no valid description.
fn sites(program: &Path) -> Vec<String> {
    let bytes = std::fs::read(program).expect("the program");
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let at = |address: u64| {
        let data = elf.segments().find_map(|segment| {
            let offset = address.checked_sub(segment.address())?;
            segment.data().ok()?.get(offset as usize..)
        });
        data.unwrap_or_else(|| panic!("{address:#x} is not in the file"))
    };
    let section = elf.section_by_name(SECTION).expect("sites");
    let records = section.data().expect("readable").chunks_exact(RECORD_BYTES).zip(0..);
    let records = records.map(|(bytes, index)| {
        let record = SiteRecord::from_bytes(bytes.try_into().expect("16 bytes"));
        (record, section.address() + RECORD_BYTES as u64 * index)
    });
    let real = records.filter(|(record, _)| record.of() == Of::Event);
    real.map(|(record, address)| {
        let site = record.resolve(address);
        let (code, target) = site.code.expect("a site that is patched");
        assert_eq!(at(code)[..5], [0x0f, 0x1f, 0x44, 0, 0], "code of the site at {address:#x}");
        assert!(code.abs_diff(target) < 1 << 24, "target of the site at {address:#x}");
        let text = at(site.description);
        let described = mote_layout::parse::parse(text).expect("a description");
        format!("{}:{}", described.provider, described.name)
    })
    .collect()
}

#[test]
fn libraries_with_events_are_loaded_and_unloaded() {
    if !has_tool("gcc") {
        return;
    }
    let workshop = Workshop::new();
    let plugin = |name: &str, link: &str| {
        workshop.make(name, C[0], &["-O2", "-fPIC", "-shared"], &["plugin.c"], &[link])
    };
    let (shared, fixed) = (plugin("shared.so", LIBRARIES[0]), plugin("static.so", LIBRARIES[1]));
    let with = workshop.make("with", C[0], &["-O2"], &["dlopen.c"], &["-lmote"]);
    let without = workshop.make("without", C[0], &["-O2", "-DWITHOUT_EVENTS"], &["dlopen.c"], &[]);
    for command in [
        &[&*with, &*shared][..],
        &[&*with, &*shared, &*fixed],
        &[&*without, &*shared],
        &[&*without, &*fixed],
        &[&*without, &*fixed, &*shared],
    ] {
        let libraries = command.len() - 1;
        let trace = recorded(command);
        let events = trace.events();
        assert_eq!(named(&events, "plugin:run").len(), 5 * libraries, "{command:?}: {}", trace.err);
        assert_eq!(events.len() as u64, trace.printed("emitted"), "{command:?}");
    }
}

#[test]
fn a_program_and_its_libraries_are_announced_together_before_anything_of_them_runs() {
    let workshop = Workshop::new();
    for compiler in available(C) {
        let library =
            workshop.make("libleaf.so", compiler, &["-O2", "-fPIC", "-shared"], &["plugin.c"], &["-lmote"]);
        let directory = library.parent().and_then(Path::to_str).expect("text").to_owned();
        for way in WAYS.into_iter().filter(|way| can(compiler, way)) {
            let linked = ["-lmote", "-L", &directory, "-Wl,--no-as-needed", "-lleaf"];
            let program = workshop.make("whole", compiler, way, &["events.c"], &linked);
            let paths = format!("{}:{directory}", path());
            let trace = Record::program(&[&program]).env("LD_LIBRARY_PATH", &paths).run().ends_with(0);
            assert!(!trace.err.contains("no event matches"), "{compiler:?} {way:?}: {}", trace.err);
            let came: Vec<String> =
                trace.facts("process").iter().map(|fact| fact["how"].to_string()).collect();
            assert_eq!(came, ["\"start\""], "{compiler:?} {way:?}");
            assert_eq!(trace.events().len() as u64, trace.printed("emitted"), "{}", trace.err);
        }
    }
}

#[test]
fn a_program_exits_in_a_sandbox_that_kills_for_nearly_every_system_call() {
    let workshop = Workshop::new();
    for compiler in available(C) {
        for library in LIBRARIES {
            let program = workshop.make("locked", compiler, &["-O2"], &["locked.c"], &[library]);
            for everybody in [&[][..], &["everybody"]] {
                let command = [&[program.to_str().expect("text"), "100"], everybody].concat();
                assert_eq!(run(&command.iter().map(Path::new).collect::<Vec<_>>()), "emitted 200\n");
                let trace = Record::program(&command).env("LD_LIBRARY_PATH", &path()).run().ends_with(0);
                assert_eq!(trace.lost_total(), 0, "{command:?}");
                assert_eq!(
                    trace.events().len() as u64,
                    trace.printed("emitted"),
                    "{command:?} {}",
                    trace.err
                );
            }
        }
    }
}

const THREADS: &str = "60";

/// `unwinding` as somebody records it, whose status is its own, or says that there were more events than room.
fn unwinding(program: &Path, mode: &str, options: &[&str]) -> Trace {
    let trace = Record::program(&[program.as_os_str(), mode.as_ref(), THREADS.as_ref()])
        .env("LD_LIBRARY_PATH", &path())
        .with(&["--buffers", "8Mx32", "-e", "unwinding:end"])
        .with(options)
        .run();
    assert!(matches!(trace.status, 0 | 3), "{mode} {options:?}: {} {}{}", trace.status, trace.out, trace.err);
    let ended = trace.summary()["events"]["unwinding:end"].as_u64().unwrap_or(0);
    assert!(ended == 1 || trace.status == 3, "{mode} {options:?}: {}", trace.err);
    trace
}

#[test]
fn threads_and_exceptions_leave_the_middle_of_an_event() {
    let workshop = Workshop::new();
    // Most of a turn is the filter's, whose machine code is described to nobody.
    let filter = r#"text == "*zebra*" || text == "*lion*" || text == "*to find out that it*there""#;
    let (all, some) = (&["-e", "unwinding:*"][..], &["-e", "unwinding:*", "--filter", filter][..]);
    for compiler in available(CPP) {
        let program = workshop.make("unwinding", compiler, &["-O2"], &["unwinding.cpp"], &["-lmote"]);
        let count: u64 = THREADS.parse().expect("a number");
        for mode in ["exit", "inside", "cancel", "deferred"] {
            let trace = unwinding(&program, mode, all);
            let objects = if mode == "inside" { 2 * count } else { count };
            assert_eq!((trace.printed("joined"), trace.printed("destroyed")), (count, objects), "{mode}");
            let trace = unwinding(&program, mode, some);
            assert_eq!(trace.printed("joined"), count, "{mode} with a filter");
            // Where a filter is interrupted the thread ends, without destructors: the limit that the README names.
            let destroyed = trace.printed("destroyed");
            assert!(
                destroyed <= objects && (mode != "deferred" || destroyed == count),
                "{mode}: {destroyed}"
            );
        }
        for options in [all, some] {
            let trace = unwinding(&program, "throw", options);
            assert_eq!((trace.printed("caught"), trace.printed("destroyed")), (count * 2 / 3, count));
            let events = trace.events();
            let turns = |name| named(&events, name).iter().map(|one| one.number("turn")).collect::<Vec<_>>();
            // What a field throws leaves no event; what is thrown behind one leaves it.
            let thrown: Vec<u64> = (0..count).filter(|turn| turn % 3 != 0).collect();
            assert_eq!(turns("unwinding:thrown"), thrown, "{options:?}");
        }
    }
}

/// The instructions of a function of an object file.
fn instructions(object: &Path, name: &str) -> Vec<Instruction> {
    let bytes = std::fs::read(object).expect("the object");
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name)).expect("the function");
    let section = elf.section_by_index(symbol.section_index().expect("it is defined")).expect("its section");
    let code =
        section.data_range(symbol.address(), symbol.size()).expect("readable").expect("in the section");
    Decoder::with_ip(64, code, symbol.address(), DecoderOptions::NONE).into_iter().collect()
}

/// Up to the first return.
fn hot_path(mut code: Vec<Instruction>) -> Vec<Code> {
    let end = code.iter().position(|one| one.flow_control() == FlowControl::Return).expect("a return");
    code.truncate(end + 1);
    code.iter().map(Instruction::code).collect()
}

#[test]
fn a_disabled_event_of_c_is_one_nop() {
    let workshop = Workshop::new();
    for compiler in [C[0], &["g++", "-std=c++17", "-x", "c++"]] {
        if !has_tool(compiler[0]) {
            continue;
        }
        let object = workshop.make(
            "leaf.o",
            compiler,
            &["-O2", "-c", "-fno-asynchronous-unwind-tables"],
            &["leaf.c"],
            &[],
        );
        let mangled = |name: &str| match compiler[0] {
            "g++" => format!("_Z{}{name}i", name.len()),
            _ => name.to_owned(),
        };
        let bare = hot_path(instructions(&object, &mangled("leaf_bare")));
        for name in ["leaf", "declared"] {
            let with = hot_path(instructions(&object, &mangled(name)));
            assert_eq!(with[0], Code::Nop_rm32, "{name}: {with:?}");
            assert_eq!(with[1..], bare, "{name} of {compiler:?}");
        }
    }
}

#[test]
fn clang_too_calls_nothing_on_the_way_past_a_disabled_event() {
    if !has_tool("clang") {
        return;
    }
    let workshop = Workshop::new();
    let object = workshop.make("leaf.o", C[1], &["-O2", "-c"], &["leaf.c"], &[]);
    let code = hot_path(instructions(&object, "leaf"));
    assert_eq!(code.iter().filter(|code| **code == Code::Nop_rm32).count(), 1, "{code:?}");
    assert!(!code.contains(&Code::Call_rel32_64) && !code.contains(&Code::Call_rm64), "{code:?}");
}

#[test]
fn the_library_is_small_and_needs_only_libc() {
    let bytes = std::fs::read(programs::library().join("libmote.so")).expect("the library");
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let loaded: u64 = elf.segments().map(|segment| segment.file_range().1).sum();
    assert!(loaded <= 440 << 10, "{loaded} bytes of text and data");
    let names = |exported: bool| {
        let symbols = elf.dynamic_symbols().filter(move |symbol| symbol.is_definition() == exported);
        symbols.map(|symbol| symbol.name().expect("text").to_owned()).collect::<Vec<_>>()
    };
    // Not `__errno_location`: a thread that is sent into joining has its own put back (`mote_agent::late`).
    for banned in ["__tls_get_addr", "malloc", "free", "abort", "exit", "printf", "syscall"] {
        assert!(!names(false).iter().any(|name| name == banned), "it uses {banned}");
    }
    assert!(
        !names(false).iter().any(|name| name.contains("Unwind") || name.contains("rust")),
        "{:?}",
        names(false)
    );
    for expected in
        ["mote_record", "mote_record_fragments", "mote_add_object", "mote_remove_object", "mote_is_traced"]
    {
        assert!(names(true).iter().any(|name| name == expected), "{expected} in {:?}", names(true));
    }
}
