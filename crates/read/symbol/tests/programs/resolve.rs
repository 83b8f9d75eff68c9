//! Addresses of running programs are resolved, later, from what was noted about them.

use crate::common::{PROGRAM, Running, compile};
use mote_journal::Map;
use mote_symbol::{Begun, DebugFiles, Doubt, Options, Symbols, collect};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

const FLAGS: [&str; 3] = ["-g", "-O2", "-Wl,--build-id=sha1"];

/// Symbols that know one process.
fn symbols(pid: u32, maps: &[Map], options: Options) -> Symbols {
    let mut symbols = Symbols::new(options);
    symbols.add_process(pid, 100, Begun::Anew, maps);
    symbols
}

/// The lines of one address.
fn lines(symbols: &mut Symbols, pid: u32, address: u64, returns: bool) -> String {
    symbols.user_address(pid, 100, address, returns).lines().join(" < ")
}

#[test]
fn functions_lines_and_inlined_functions() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(dir.path(), "app", "gcc", PROGRAM, &FLAGS) else { return };
    let running = Running::start(&program);
    let (pid, maps) = (running.pid(), running.maps());
    let at = running.addresses.clone();
    drop(running);
    let mut symbols = symbols(pid, &maps, Options::default());
    let inner = lines(&mut symbols, pid, at["inner"], false);
    assert!(inner.contains("inner+0x0 (app.c:1") && inner.ends_with(") [app]"), "{inner}");
    let inside = lines(&mut symbols, pid, at["inside"], true);
    assert!(inside.starts_with("inlined (inlined) (app.c:7) [app] < inner+0x"), "{inside}");
    assert!(inside.ends_with("(app.c:11) [app]"), "{inside}");
    let back = lines(&mut symbols, pid, at["back"], true);
    assert!(back.starts_with("outer+0x") && back.ends_with("(app.c:15) [app]"), "{back}");
    let stack = symbols.user_stack(pid, 100, [at["inside"] - 1, at["back"], 0, 7]);
    let folded: Vec<String> = stack.iter().rev().flat_map(|frame| frame.folded()).collect();
    assert_eq!(folded, ["outer", "inner", "inlined"], "a stack ends at a null address");
    // In the mapping, but in no function; in no mapping; in no process.
    let text = maps.iter().find(|map| map.path == program.to_string_lossy()).expect("mapped");
    let padding = lines(&mut symbols, pid, text.end - 1, false);
    assert_eq!(padding, format!("{:#x} [app+{:#x}]", text.end - 1, text.end - 1 - text.start + text.offset));
    assert_eq!(lines(&mut symbols, pid, 7, false), "0x7");
    assert_eq!(lines(&mut symbols, 1, 7, false), "0x7");
    let doubts: Vec<&Doubt> = symbols.doubts().into_iter().map(|(doubt, _)| doubt).collect();
    assert!(doubts.contains(&&Doubt::NotMapped) && doubts.contains(&&Doubt::NoProcess(1)), "{doubts:?}");
}

#[test]
fn stripped_programs_have_their_debug_information_elsewhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(dir.path(), "app", "gcc", PROGRAM, &FLAGS) else { return };
    let running = Running::start(&program);
    let (pid, maps, at) = (running.pid(), running.maps(), running.addresses.clone());
    drop(running);
    let id = maps.iter().find(|map| map.path.ends_with("/app")).expect("mapped").build_id.clone();
    assert_eq!(id.len(), 40);
    let ids = dir.path().join("debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&ids).expect("a directory of the test");
    let debug = ids.join(format!("{}.debug", &id[2..]));
    let run = |tool: &str, more: &[&Path], options: &[&str]| {
        let done = Command::new(tool).args(options).args(more).status().expect("binutils come with gcc");
        assert!(done.success());
    };
    run("objcopy", &[&program, &debug], &["--only-keep-debug", "--compress-debug-sections"]);
    run("strip", &[&program], &[]);
    let debug = DebugFiles { dirs: vec![dir.path().join("debug")] };
    let mut with = symbols(pid, &maps, Options { debug, ..Options::default() });
    let back = lines(&mut with, pid, at["back"], true);
    assert!(back.starts_with("outer+0x") && back.ends_with("(app.c:15) [app]"), "{back}");
    let mut without =
        symbols(pid, &maps, Options { debug: DebugFiles { dirs: vec![] }, ..Options::default() });
    assert!(lines(&mut without, pid, at["back"], true).starts_with(&format!("{:#x} [app+0x", at["back"])));
    assert!(matches!(without.doubts()[..], [(Doubt::NoFunction(_), 1)]));
}

#[test]
fn a_binary_that_went_or_changed_gives_no_wrong_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(dir.path(), "app", "gcc", PROGRAM, &FLAGS) else { return };
    let running = Running::start(&program);
    let (pid, mut maps, at) = (running.pid(), running.maps(), running.addresses.clone());
    drop(running);
    let doubt = |maps: &[Map], options: Options| {
        let location = symbols(pid, maps, options).user_address(pid, 100, at["inner"], false);
        (location.functions.is_empty(), location.doubt.clone())
    };
    let label = std::sync::Arc::from(program.to_string_lossy());
    assert_eq!(doubt(&maps, Options::default()), (false, None));
    let other = PROGRAM.replace("HERE(at);", "HERE(at); HERE(at);");
    compile(dir.path(), "app", "gcc", &other, &FLAGS);
    assert_eq!(doubt(&maps, Options::default()), (true, Some(Doubt::Changed(std::sync::Arc::clone(&label)))));
    fs::write(&program, b"\x7fELF and nothing more").expect("writable");
    assert_eq!(doubt(&maps, Options::default()), (true, Some(Doubt::Damaged(label.clone()))));
    fs::remove_file(&program).expect("there");
    assert_eq!(doubt(&maps, Options::default()), (true, Some(Doubt::Missing(label.clone()))));
    // Without a build id there is only the time.
    compile(dir.path(), "app", "gcc", PROGRAM, &["-O2", "-Wl,--build-id=none"]);
    maps.iter_mut().for_each(|map| map.build_id.clear());
    let options = |not_after| Options { not_after, ..Options::default() };
    let hour = Duration::from_secs(3600);
    assert_eq!(doubt(&maps, options(Some(SystemTime::now() - hour))), (true, Some(Doubt::Newer(label))));
    assert!(doubt(&maps, options(Some(SystemTime::now() + hour))).1.is_none());
}

#[test]
fn a_removed_program_that_still_runs_has_its_build_id() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(dir.path(), "app", "gcc", PROGRAM, &FLAGS) else { return };
    let running = Running::start(&program);
    let kept = dir.path().join("kept");
    fs::copy(&program, &kept).expect("readable");
    fs::remove_file(&program).expect("there");
    let maps = running.maps();
    let map = maps.iter().find(|map| map.path.contains("/app")).expect("mapped");
    assert!(map.path.ends_with(" (deleted)"), "{}", map.path);
    if map.build_id.is_empty() {
        mote_skip::skip("/proc/PID/map_files needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN");
        return;
    }
    // The same build comes back to its place, as after a package was installed again.
    fs::rename(&kept, &program).expect("a directory of the test");
    let mut symbols = symbols(running.pid(), &maps, Options::default());
    let line = lines(&mut symbols, running.pid(), running.addresses["inner"], false);
    assert!(line.contains("inner+0x0 (app.c:1"), "{line}");
}

#[test]
fn names_of_cpp() {
    let source = r#"
        #include <cstdio>
        #include <unistd.h>
        namespace shop { struct Cart { __attribute__((noinline)) int checkout(int n) { asm volatile(""); return n; } }; }
        int main() {
            shop::Cart cart;
            int (shop::Cart::*f)(int) = &shop::Cart::checkout;
            printf("checkout %p\nend\n", (void *)(cart.*f));
            fflush(stdout);
            for (;;) { pause(); cart.checkout(1); }
        }"#;
    let dir = tempfile::tempdir().expect("a directory");
    for flags in [&["-g", "-Wno-pmf-conversions"][..], &["-Wno-pmf-conversions"]] {
        let Some(program) = compile(dir.path(), "cpp", "g++", source, flags) else { return };
        let running = Running::start(&program);
        let mut symbols = symbols(running.pid(), &running.maps(), Options::default());
        let line = lines(&mut symbols, running.pid(), running.addresses["checkout"], false);
        assert!(line.starts_with("shop::Cart::checkout(int)+0x0"), "{line}");
        assert_eq!(line.contains("(cpp.cpp:4)"), flags.contains(&"-g"), "{line}");
    }
}

#[test]
fn the_vdso_and_tables_of_run_time_compilers_are_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let pid = std::process::id();
    let maps = collect::maps(pid);
    let vdso = maps.iter().find(|map| map.path == "[vdso]").expect("x86-64 has one");
    let bytes = collect::vdso().expect("readable");
    let image = mote_symbol::Image::from_bytes(Path::new("[vdso]"), &bytes).expect("an ELF file");
    let clock = image.table.iter().find(|symbol| symbol.name == "__vdso_clock_gettime").expect("has it");
    let address = vdso.start + image.offset_of(clock.address).expect("loaded") + 1;
    fs::write(dir.path().join(collect::VDSO), &bytes).expect("writable");
    fs::write(dir.path().join(collect::perf_map_name(pid)), "7000 20 js:add\n").expect("writable");
    let mut maps = maps;
    maps.push(Map {
        start: 0x7000,
        end: 0x8000,
        offset: 0,
        path: "[anon]".to_owned(),
        build_id: String::new(),
    });
    let mut symbols = symbols(pid, &maps, Options::default());
    symbols.read_kept(dir.path()).expect("readable");
    let line = lines(&mut symbols, pid, address, false);
    assert!(line.contains("clock_gettime+0x1 [vdso]"), "{line}");
    assert_eq!(lines(&mut symbols, pid, 0x7004, false), "js:add+0x4 [jit]");
    assert_eq!(lines(&mut symbols, pid, 0x7020, false), "0x7020 [anon+0x20]");
    assert_eq!(symbols.doubts(), [(&Doubt::Generated, 1)]);
}

#[test]
fn a_table_in_tmp_is_found() {
    let pid = std::process::id();
    let path = Path::new("/tmp").join(collect::perf_map_name(pid));
    fs::write(&path, "10 10 f\n").expect("/tmp is writable");
    let now = SystemTime::now() + Duration::from_secs(60);
    let found = collect::perf_map(pid, now, None);
    fs::remove_file(&path).expect("there");
    assert_eq!(found.as_deref(), Some(&b"10 10 f\n"[..]));
    assert_eq!(collect::perf_map(pid, now, None), None);
    // A process that is gone, of which there can be none, and its table.
    let (gone, path) = (u32::MAX, Path::new("/tmp").join(collect::perf_map_name(u32::MAX)));
    fs::write(&path, "10 10 f\n").expect("/tmp is writable");
    let found = [SystemTime::UNIX_EPOCH, now].map(|since| collect::perf_map(gone, since, None).is_some());
    fs::remove_file(&path).expect("there");
    assert_eq!(found, [true, false]);
}

#[test]
fn a_table_of_another_user_is_not_taken() {
    // Of a process that is gone: one for each case, of which there can be none.
    let path = |pid: u32| Path::new("/tmp").join(collect::perf_map_name(pid));
    let find = |pid, owner| collect::perf_map(pid, SystemTime::UNIX_EPOCH, owner).is_some();
    let ours = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").expect("ours"));
    let (plain, link) = (u32::MAX - 1, u32::MAX - 2);
    fs::write(path(plain), "10 10 f\n").expect("/tmp is writable");
    let found = [None, Some(ours), Some(ours + 1)].map(|owner| find(plain, owner));
    std::os::unix::fs::symlink(path(plain), path(link)).expect("a link");
    let linked = find(link, Some(ours));
    fs::remove_file(path(link)).expect("there");
    fs::remove_file(path(plain)).expect("there");
    assert_eq!(found, [true, true, false]);
    assert!(!linked, "a link would lead a recorder to a file of somebody's choice");
}

#[test]
fn the_kernel_of_this_machine() {
    let text = match collect::kallsyms() {
        Ok(text) => text,
        Err(error) => {
            mote_skip::skip(error);
            return;
        }
    };
    let mut symbols = Symbols::new(Options::default());
    let unknown = symbols.kernel_address(1 << 63, false);
    assert_eq!(
        (unknown.lines(), &unknown.doubt),
        (vec!["0x8000000000000000 [kernel]".into()], &Some(Doubt::NoKernelSymbols))
    );
    let mut symbols = Symbols::new(Options::default());
    symbols.set_kernel(&text);
    let line = text.lines().find(|line| line.ends_with(" vfs_read")).expect("every kernel has it");
    let address = u64::from_str_radix(&line[..16], 16).expect("an address");
    let stack = symbols.kernel_stack([address + 5]);
    assert_eq!(stack[0].lines(), ["vfs_read+0x5 [kernel]"]);
    assert_eq!(stack[0].folded(), ["vfs_read_[k]"]);
}

#[test]
fn cut_and_broken_files_are_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(dir.path(), "app", "gcc", PROGRAM, &FLAGS) else { return };
    let whole = fs::read(&program).expect("readable");
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for round in 0..400 {
        let mut bytes = whole.clone();
        if round % 2 == 0 {
            bytes.truncate(random() % whole.len());
        }
        for _ in 0..random() % 40 {
            let len = bytes.len().max(1);
            // Headers, mostly.
            let at =
                if random() % 2 == 0 { random() % 1024 } else { len.saturating_sub(random() % 4096 + 1) };
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random() as u8;
            }
        }
        let path = dir.path().join("broken");
        fs::write(&path, &bytes).expect("writable");
        let Ok(image) = mote_symbol::Image::open(&path) else { continue };
        let dwarf = mote_symbol::dwarf(&path, &DebugFiles::default());
        let functions = dwarf.ok().and_then(mote_symbol::functions::Functions::new);
        for symbol in image.table.iter().take(50) {
            let _ = (
                image.offset_of(symbol.address),
                image.address_of(symbol.address),
                image.table.find(symbol.address),
            );
            let _ = functions.as_ref().map(|functions| functions.signature(symbol.address));
        }
    }
}
