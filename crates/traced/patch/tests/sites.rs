//! Arming and disarming with nobody else there, what is refused, and what is left alone.

mod support;

use mote_patch::{Applied, Code, Edit, Error, Refusal, State};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::child;
use support::sites::{self, Site};

/// In a process with one thread, then in one with another thread beside.
fn alone_and_in_company(scenario: fn()) {
    child::passes(scenario);
    child::passes(|| in_company(scenario));
}

/// Runs `scenario` beside a thread that runs.
fn in_company(scenario: fn()) {
    static DONE: AtomicBool = AtomicBool::new(false);
    static BEGUN: AtomicBool = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            BEGUN.store(true, SeqCst);
            while !DONE.load(SeqCst) {
                std::thread::yield_now();
            }
        });
        while !BEGUN.load(SeqCst) {
            std::thread::yield_now();
        }
        scenario();
        DONE.store(true, SeqCst);
    });
}

fn now(site: &Site) -> State {
    // SAFETY: a site of the tests.
    unsafe { mote_patch::state(site.addr) }
}

fn protection(addr: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps.lines().find(|line| {
        let (range, _) = line.split_once(' ').expect("line");
        let (start, end) = range.split_once('-').expect("range");
        let number = |text| usize::from_str_radix(text, 16).expect("address");
        (number(start)..number(end)).contains(&addr)
    });
    line.expect("mapped").split(' ').nth(1).expect("protection").to_owned()
}

fn there_and_back() {
    let sites = sites::all();
    assert_eq!(sites.len(), 68);
    for site in sites {
        assert_eq!((site.pass(), now(site)), (0, State::Nop));
        let one = Applied { changed: 1, already: 0, refused: 0 };
        assert_eq!(sites::apply_all([site.arm()]), one);
        assert_eq!((site.pass(), now(site)), (1, State::Jump(site.target)));
        assert_eq!(sites::apply_all([site.arm()]), Applied { changed: 0, already: 1, refused: 0 });
        assert_eq!(sites::apply_all([site.arm_other()]), one);
        assert_eq!((site.pass(), now(site)), (2, State::Jump(site.other_target)));
        assert_eq!(sites::apply_all([site.disarm()]), one);
        assert_eq!((site.pass(), now(site)), (0, State::Nop));
        assert_eq!(protection(site.addr), "r-xp");
    }
    let all = |edit: fn(&Site) -> Edit| sites::apply_all(sites.iter().map(edit)).changed;
    assert_eq!(all(Site::arm), 68);
    assert!(sites.iter().all(|site| site.pass() == 1));
    assert_eq!(all(Site::disarm), 68);
    assert!(sites.iter().all(|site| site.pass() == 0));
}

#[test]
fn every_alignment() {
    alone_and_in_company(there_and_back);
}

#[test]
fn every_alignment_through_writable_pages() {
    alone_and_in_company(|| {
        child::refuse(libc::SYS_pwrite64, None, libc::EPERM);
        there_and_back();
    });
}

#[test]
fn edits_of_one_site_are_made_in_order() {
    alone_and_in_company(|| {
        let site = sites::all()[0];
        let applied = sites::apply_all([site.arm(), site.arm_other(), site.disarm(), site.arm()]);
        assert_eq!(applied, Applied { changed: 4, already: 0, refused: 0 });
        assert_eq!(site.pass(), 1);
    });
}

#[test]
fn refusals_leave_the_rest_to_be_done() {
    alone_and_in_company(|| {
        let [first, second, ..] = sites::all() else { panic!("sites") };
        let not_a_site = Edit { addr: first.target, to: Code::Nop };
        let too_far = Edit { addr: first.addr, to: Code::Jump(first.addr.wrapping_add(1 << 40)) };
        let (applied, refused) = sites::apply([not_a_site, too_far, second.arm()]);
        assert_eq!(applied, Ok(Applied { changed: 1, already: 0, refused: 2 }));
        // mov eax, 1
        let foreign = Refusal::Foreign([0xb8, 1, 0, 0, 0]);
        assert_eq!(refused, [(not_a_site, foreign), (too_far, Refusal::OutOfReach)]);
        assert_eq!((first.pass(), second.pass()), (0, 1));
    });
}

#[test]
fn a_debuggers_breakpoint_stays() {
    alone_and_in_company(|| {
        use std::os::unix::fs::FileExt;
        let site = sites::all()[3];
        let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").expect("mem");
        memory.write_all_at(&[0xcc], site.addr as u64).expect("breakpoint");
        let (applied, refused) = sites::apply([site.arm()]);
        assert_eq!(applied, Ok(Applied { changed: 0, already: 0, refused: 1 }));
        assert_eq!(refused[0].1, Refusal::Foreign([0xcc, 0x1f, 0x44, 0, 0]));
    });
}

#[test]
fn text_that_cannot_be_written_is_an_error() {
    alone_and_in_company(|| {
        child::refuse(libc::SYS_pwrite64, None, libc::EPERM);
        child::refuse(libc::SYS_mprotect, Some(libc::PROT_EXEC as u32), libc::EACCES);
        let site = sites::all()[0];
        let (applied, refused) = sites::apply([site.arm()]);
        let errno = mote_sys::Errno(libc::EACCES);
        assert_eq!(applied, Err(Error::NotWritable { addr: site.addr, errno }));
        assert_eq!(refused, []);
        assert_eq!((site.pass(), now(&site)), (0, State::Nop));
    });
}

#[test]
fn a_kernel_without_the_barrier_is_an_error() {
    child::passes(|| {
        in_company(|| {
            child::refuse(libc::SYS_membarrier, None, libc::ENOSYS);
            let site = sites::all()[0];
            let (applied, _) = sites::apply([site.arm()]);
            assert_eq!(applied, Err(Error::NoBarrier(mote_sys::Errno(libc::ENOSYS))));
            assert_eq!(now(&site), State::Nop);
        });
    });
}

#[test]
fn no_edits_are_no_work() {
    child::passes(|| assert_eq!(sites::apply_all([]), Applied::default()));
}

#[test]
fn errno_and_mask_stay() {
    alone_and_in_company(|| {
        child::block(libc::SIGUSR1);
        let mask = mote_sys::signal::block(0);
        child::refuse(libc::SYS_pwrite64, None, libc::EPERM);
        // SAFETY: the calling thread's errno.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *errno = 77 };
        sites::apply_all(sites::all().iter().map(Site::arm));
        // SAFETY: as above.
        assert_eq!(unsafe { *errno }, 77);
        assert_eq!(mote_sys::signal::block(0), mask);
    });
}
