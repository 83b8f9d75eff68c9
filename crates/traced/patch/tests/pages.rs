//! Sites that are changed by other pages: what a program and others see of it.

mod support;

use mote_patch::{Applied, State};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use support::child;
use support::sites::{self, Site};

/// Runs `scenario` beside a thread that blocks all signals and sleeps: no breakpoint may be written.
fn in_company(scenario: impl FnOnce()) {
    child::passes(|| {
        mote_patch::set_hops(mote_patch::Hops::Never);
        let (begin, begun) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            mote_sys::signal::block(!0);
            begin.send(()).expect("begun");
            std::thread::sleep(std::time::Duration::from_secs(60));
        });
        begun.recv().expect("begun");
        scenario();
        drop(thread);
    });
}

/// The lines of this program's text in `/proc/self/maps`.
fn texts() -> Vec<String> {
    let program = std::fs::read_link("/proc/self/exe").expect("exe");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let is_text = |line: &&str| line.contains(" r-xp ") && line.ends_with(program.to_str().expect("a path"));
    maps.lines().filter(is_text).map(str::to_owned).collect()
}

/// The addresses of a line.
fn range(line: &str) -> std::ops::Range<u64> {
    let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
    let number = |text| u64::from_str_radix(text, 16).expect("an address");
    number(start)..number(end)
}

/// Whether the program's text is what its file holds.
fn text_is_the_files() -> bool {
    let program = std::fs::File::open("/proc/self/exe").expect("exe");
    let memory = std::fs::File::open("/proc/self/mem").expect("mem");
    texts().iter().all(|line| {
        let range = range(line);
        let offset = u64::from_str_radix(line.split(' ').nth(2).expect("an offset"), 16).expect("a number");
        let mut bytes =
            [vec![0; (range.end - range.start) as usize], vec![0; (range.end - range.start) as usize]];
        memory.read_exact_at(&mut bytes[0], range.start).expect("memory");
        // The last page's end is behind that of the file.
        let len = program.read_at(&mut bytes[1], offset).expect("file");
        bytes[0][..len] == bytes[1][..len]
    })
}

#[test]
fn there_and_back_beside_a_thread_that_blocks_everything() {
    in_company(|| {
        let whole = texts();
        assert!(text_is_the_files());
        for _ in 0..3 {
            let all = Applied { changed: sites::all().len(), already: 0, refused: 0 };
            assert_eq!(sites::apply_all(sites::all().iter().map(Site::arm)), all);
            assert!(sites::all().iter().all(|site| site.pass() == 1) && !text_is_the_files());
            assert_eq!(sites::apply_all(sites::all().iter().map(Site::disarm)), all);
            assert!(sites::all().iter().all(|site| site.pass() == 0) && text_is_the_files());
        }
        // It may be mapped in pieces, of which none is lost, left over, or of another file.
        let ends = |lines: &[String]| (range(&lines[0]).start, range(&lines[lines.len() - 1]).end);
        let pieces = texts();
        assert_eq!(ends(&pieces), ends(&whole));
        assert!(pieces.windows(2).all(|pair| range(&pair[0]).end == range(&pair[1]).start), "{pieces:#?}");
        assert_eq!(mote_sys::signal::action(libc::SIGTRAP).expect("action").handler, libc::SIG_DFL);
    });
}

/// Sites one by one, from the last to the first: each block's spare is another one.
#[test]
fn in_no_order() {
    in_company(|| {
        let mut sites = sites::all().to_vec();
        sites.reverse();
        sites::apply_all(sites.iter().map(Site::arm));
        assert!(sites.iter().all(|site| site.pass() == 1));
        sites.rotate_left(40);
        for site in &sites {
            sites::apply_all([site.disarm()]);
            assert_eq!(site.pass(), 0);
        }
        assert!(text_is_the_files());
    });
}

/// What others have written to the same pages stays.
#[test]
fn bytes_of_others_stay() {
    in_company(|| {
        let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").expect("mem");
        // Between the sites there is nothing that is run.
        let other = sites::all()[3].addr as u64 - 1;
        memory.write_all_at(&[0x90], other).expect("written");
        for edit in [Site::arm, Site::disarm] {
            sites::apply_all(sites::all().iter().map(edit));
            // SAFETY: text.
            assert_eq!(unsafe { (other as *const u8).read_volatile() }, 0x90);
        }
        memory.write_all_at(&[0xcc], other).expect("written");
        assert!(text_is_the_files());
    });
}

/// Another copy of the library would lose what is written between its look at a page and the move of it.
#[test]
fn another_copy_is_waited_for() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    in_company(|| {
        let memory = mote_sys::fd::open(c"/proc/self/mem", libc::O_RDWR, 0).expect("mem");
        mote_sys::fd::lock(&memory).expect("locked");
        let patcher = std::thread::spawn(|| {
            sites::apply_all(sites::all().iter().map(Site::arm));
            assert!(IS_DONE.load(SeqCst), "it has not waited");
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(sites::all().iter().all(|site| site.pass() == 0));
        IS_DONE.store(true, SeqCst);
        mote_sys::fd::unlock(&memory);
        patcher.join().expect("it has patched");
        assert!(sites::all().iter().all(|site| site.pass() == 1));
    });
}

/// Without its file the text cannot be mapped once more, and beside such a thread nothing is changed.
#[test]
fn a_program_whose_file_is_gone() {
    let whole = std::env::current_exe().expect("exe");
    let program = whole.with_extension(format!("of-{}", std::process::id()));
    let run = |what: &str| {
        // A link, as a file that is written while another test forks could not be run.
        std::fs::hard_link(&whole, &program).expect("linked");
        let mut command = std::process::Command::new(&program);
        command.args(["--exact", "the_program_that_is_linked", "--ignored"]).env("WHAT", what);
        let is_well = command.env("PROGRAM", &program).status().expect("it runs").success();
        let _ = std::fs::remove_file(&program);
        is_well
    };
    assert!(run("stays"));
    assert!(run("replaced"), "another file has its path");
    assert!(run("removed"));
    assert!(run("pipe"), "one that has no writer has its path");
}

#[test]
#[ignore = "run by a_program_whose_file_is_gone"]
fn the_program_that_is_linked() {
    let Some(program) = std::env::var_os("PROGRAM").map(std::path::PathBuf::from) else { return };
    let what = std::env::var("WHAT").expect("what");
    if what != "stays" {
        std::fs::remove_file(&program).expect("removed");
    }
    if what == "replaced" {
        std::fs::copy(program.with_extension(""), &program).expect("copied");
    }
    if what == "pipe" {
        let path = CString::new(program.as_os_str().as_bytes()).expect("a path");
        // SAFETY: the path outlives the call.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    }
    in_company(|| {
        let all = sites::all().len();
        let (applied, _) = sites::apply(sites::all().iter().map(Site::arm));
        let (changed, refused) = if what == "stays" { (all, 0) } else { (0, all) };
        assert_eq!(applied, Ok(Applied { changed, already: 0, refused }));
        // SAFETY: a site.
        let is_on = |site: &Site| unsafe { mote_patch::state(site.addr) } == State::Jump(site.target);
        assert!(sites::all().iter().all(|site| is_on(site) == (what == "stays")));
    });
}
