//! Pages of our own process that become executable, as the kernel's programs have copied them.

use mote_jitcode::{Change, Collector, Error, What};
use std::io;
use std::sync::Mutex;

const PAGE: usize = 4096;
/// Each test would see what the others do: all of them are of one process.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

/// Programs at work, watching us; `None`, as a skip, without the right.
fn attach() -> Option<Collector> {
    match Collector::attach() {
        Ok(collector) => Some(collector),
        Err(Error::Kernel(mote_kernel::Error::Privilege(_)) | Error::Namespace) => {
            mote_skip::skip("programs of eBPF cannot be attached");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Private memory of some pages.
struct Memory {
    base: *mut u8,
    pages: usize,
}

impl Memory {
    fn new(pages: usize) -> Memory {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, anywhere.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Memory { base: base.cast(), pages }
    }

    fn start(&self) -> u64 {
        self.base as u64
    }

    /// Writes a byte to the begin of a page.
    fn write(&self, page: usize, byte: u8) {
        assert!(page < self.pages);
        // SAFETY: within the memory, which is writable.
        unsafe { self.base.wrapping_add(page * PAGE).write_volatile(byte) };
    }

    fn protect(&self, protection: i32) {
        self.protect_part(0, self.pages * PAGE, protection);
    }

    fn protect_part(&self, from: usize, bytes: usize, protection: i32) {
        // SAFETY: within the memory, at the begin of a page.
        let failed = unsafe { libc::mprotect(self.base.wrapping_add(from).cast(), bytes, protection) };
        assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: of this size, and nothing points there any more.
        unsafe { libc::munmap(self.base.cast(), self.pages * PAGE) };
    }
}

/// `CLOCK_MONOTONIC`.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
const DATA: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A change of memory: which page, how many, and what it begins with.
#[derive(Debug, PartialEq)]
enum Seen {
    Page(u64, u8),
    /// It may be written, too.
    Open(u64, u8),
    Rest(u64, u64),
    Moved(u64),
    Written(u64),
}

/// What was noted of the memory from `start` on, of so many pages, in a process.
fn seen(collector: &mut Collector, pid: u32, start: u64, pages: usize) -> Vec<Seen> {
    let mut all = Vec::new();
    let within = start..start + (pages * PAGE) as u64;
    let noted = collector.read(|change: Change<'_>| {
        if change.pid != pid as i32 || !within.contains(&change.start) {
            return Ok::<(), ()>(());
        }
        let page = (change.start - start) / PAGE as u64;
        all.push(match change.what {
            What::Copied { page: bytes, is_writable } => {
                assert_eq!((change.end - change.start, bytes.len()), (PAGE as u64, PAGE));
                if is_writable { Seen::Open(page, bytes[0]) } else { Seen::Page(page, bytes[0]) }
            }
            What::Executable => Seen::Rest(page, (change.end - change.start) / PAGE as u64),
            What::Moved { from } => Seen::Moved(from),
            What::Written => Seen::Written(page),
        });
        Ok(())
    });
    noted.expect("they are read");
    all
}

#[test]
fn pages_are_copied_when_they_become_executable() {
    let _alone = ONE_BY_ONE.lock();
    let Some(mut collector) = attach() else { return };
    let own = std::process::id();
    let memory = Memory::new(4);
    memory.write(0, 0xc3);
    memory.write(2, 0x90);
    // Nobody is watched yet.
    memory.protect(CODE);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), []);
    memory.protect(DATA);
    collector.watch(own as i32).expect("it is watched");
    memory.protect(CODE);
    // Pages that were never touched have no memory, and so no code.
    assert_eq!(seen(&mut collector, own, memory.start(), 4), [Seen::Page(0, 0xc3), Seen::Page(2, 0x90)]);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), []);
    memory.protect(DATA);
    memory.write(2, 0xcc);
    memory.protect_part(2 * PAGE, 1, CODE);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), [Seen::Page(2, 0xcc)]);
    memory.protect(CODE | libc::PROT_WRITE);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), [Seen::Open(0, 0xc3), Seen::Open(2, 0xcc)]);
    // What becomes readable only is no code; a call that fails changes nothing.
    memory.protect(libc::PROT_READ);
    // SAFETY: not the begin of a page: nothing is done.
    assert_ne!(unsafe { libc::mprotect(memory.base.wrapping_add(1).cast(), 1, CODE) }, 0);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), []);
    // SAFETY: within the memory; key 0 is every process's.
    if unsafe { libc::syscall(libc::SYS_pkey_mprotect, memory.base, PAGE, CODE, 0) } == 0 {
        assert_eq!(seen(&mut collector, own, memory.start(), 4), [Seen::Page(0, 0xc3)]);
    }
    collector.forget(own as i32);
    memory.protect(CODE);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), []);
    collector.watch_all();
    memory.protect(CODE);
    assert_eq!(seen(&mut collector, own, memory.start(), 4).len(), 2);
    assert_eq!(collector.lost(), [0, 0]);
}

#[test]
fn times_are_before_the_process_goes_on() {
    let _alone = ONE_BY_ONE.lock();
    let Some(mut collector) = attach() else { return };
    let own = std::process::id() as i32;
    collector.watch(own).expect("it is watched");
    let memory = Memory::new(1);
    for byte in 1..=100 {
        memory.protect(DATA);
        memory.write(0, byte);
        let before = monotonic_ns();
        memory.protect(CODE);
        let after = monotonic_ns();
        let mut copies = Vec::new();
        let noted = collector.read(|change| {
            if let What::Copied { page: bytes, .. } = change.what
                && (change.pid, change.start) == (own, memory.start())
            {
                copies.push((bytes[0], (before..=after).contains(&change.time_ns)));
            }
            Ok::<(), ()>(())
        });
        noted.expect("they are read");
        assert_eq!(copies, [(byte, true)]);
    }
}

#[test]
fn what_is_much_is_told_and_what_finds_no_room_is_counted() {
    let _alone = ONE_BY_ONE.lock();
    let Some(mut collector) = attach() else { return };
    let own = std::process::id();
    collector.watch(own as i32).expect("it is watched");
    let pages = 600;
    let memory = Memory::new(pages);
    (0..pages).for_each(|page| memory.write(page, page as u8));
    memory.protect(CODE);
    let all = seen(&mut collector, own, memory.start(), pages);
    let copied: Vec<u64> = all.iter().filter_map(|one| matches!(one, Seen::Page(..)).then_some(1)).collect();
    assert_eq!((copied.len(), all.len()), (512, 513));
    assert_eq!(all.last(), Some(&Seen::Rest(512, 88)));
    // Nobody reads: 4,096 slots are full after 8 times.
    for _ in 0..10 {
        memory.protect(DATA);
        memory.protect(CODE);
    }
    let all = seen(&mut collector, own, memory.start(), pages);
    assert!((3_800..4_096).contains(&all.len()), "{}", all.len());
    let [lost, unwatched] = collector.lost();
    assert!(lost > 0 && unwatched == 0, "{lost} {unwatched}");
    // There is room again.
    memory.protect(DATA);
    memory.protect_part(0, PAGE, CODE);
    assert_eq!(seen(&mut collector, own, memory.start(), pages), [Seen::Page(0, 0)]);
}

#[test]
fn memory_that_is_moved_is_told() {
    let _alone = ONE_BY_ONE.lock();
    let Some(mut collector) = attach() else { return };
    let own = std::process::id();
    collector.watch(own as i32).expect("it is watched");
    let mut memory = Memory::new(2);
    memory.write(0, 0xc3);
    memory.protect(CODE);
    let from = memory.start();
    let place = Memory::new(2);
    let (flags, bytes) = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, 2 * PAGE);
    // SAFETY: both are ours, and of this size; the old place is nothing's from here on.
    let to = unsafe { libc::mremap(memory.base.cast(), bytes, bytes, flags, place.base) };
    assert_eq!(to, place.base.cast());
    memory.pages = 0;
    std::mem::forget(memory);
    assert_eq!(seen(&mut collector, own, from, 2), [Seen::Page(0, 0xc3)]);
    // It was read together with that.
    // SAFETY: there is nothing.
    assert_eq!(unsafe { libc::mremap(from as *mut _, bytes, bytes, 0) }, libc::MAP_FAILED);
    // SAFETY: ours; it is moved where it is.
    assert_eq!(unsafe { libc::mremap(place.base.cast(), bytes, bytes, 0) }, place.base.cast());
    assert_eq!(seen(&mut collector, own, place.start(), 2), [Seen::Moved(place.start())]);
}

#[test]
fn memory_that_is_mapped_to_be_executed_is_told() {
    let _alone = ONE_BY_ONE.lock();
    let Some(mut collector) = attach() else { return };
    let own = std::process::id();
    collector.watch(own as i32).expect("it is watched");
    let map = |protection, flags, fd| {
        // SAFETY: new memory, anywhere.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, protection, flags, fd, 0) };
        assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Memory { base: base.cast(), pages: 2 }
    };
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let open = map(CODE | libc::PROT_WRITE, anonymous, -1);
    assert_eq!(seen(&mut collector, own, open.start(), 2), [Seen::Rest(0, 2)]);
    let data = map(DATA, anonymous, -1);
    assert_eq!(seen(&mut collector, own, data.start(), 2), []);
    // SAFETY: a new descriptor.
    let file = unsafe { libc::memfd_create(c"code".as_ptr(), libc::MFD_CLOEXEC) };
    let shared = map(CODE, libc::MAP_SHARED, file);
    assert_eq!(seen(&mut collector, own, shared.start(), 2), [Seen::Rest(0, 2)]);
    // Of a file it is known.
    let private = map(CODE, libc::MAP_PRIVATE, file);
    assert_eq!(seen(&mut collector, own, private.start(), 2), []);
    // SAFETY: ours.
    unsafe { libc::close(file) };
}

#[test]
fn processes_that_are_forked_are_watched() {
    let _alone = ONE_BY_ONE.lock();
    let Some(mut collector) = attach() else { return };
    collector.watch(std::process::id() as i32).expect("it is watched");
    let memory = Memory::new(1);
    memory.write(0, 0xc3);
    // SAFETY: the child calls nothing but mprotect and _exit, which may follow fork in a process with threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child's own memory.
        let failed = unsafe { libc::mprotect(memory.base.cast(), PAGE, CODE) };
        // SAFETY: its end.
        unsafe { libc::_exit(failed) };
    }
    let mut status = 0;
    // SAFETY: a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(seen(&mut collector, child as u32, memory.start(), 1), [Seen::Page(0, 0xc3)]);
}

#[test]
fn too_many_processes_are_refused_with_what_to_do() {
    let _alone = ONE_BY_ONE.lock();
    let Some(collector) = attach() else { return };
    // Numbers that no process has.
    const FIRST: i32 = 1 << 30;
    let refused = (FIRST..FIRST + 10_000).find_map(|pid| collector.watch(pid).err().map(|why| (pid, why)));
    let Some((pid, why)) = refused else { panic!("10,000 processes are watched") };
    let said = why.to_string();
    assert!(said.contains("8,192 processes are watched") && said.contains("-p"), "{said}");
    // One that is forgotten makes room.
    collector.forget(FIRST);
    collector.watch(pid).expect("there is room");
}

#[test]
fn writes_to_tracked_pages_are_noted_with_their_time() {
    let _alone = ONE_BY_ONE.lock();
    let Some(mut collector) = attach() else { return };
    let own = std::process::id();
    let memory = Memory::new(4);
    let end = memory.start() + (4 * PAGE) as u64;
    // Nothing is tracked yet.
    memory.write(0, 1);
    if !collector.track(own as i32, memory.start(), end) {
        return mote_skip::skip("this kernel does not tell faults");
    }
    let before = monotonic_ns();
    memory.write(1, 1);
    let behind = monotonic_ns();
    let mut times = Vec::new();
    let noted = collector.read(|change| {
        let is_ours = change.pid == own as i32 && (memory.start()..end).contains(&change.start);
        times.extend(is_ours.then_some((
            change.start - memory.start(),
            change.time_ns,
            change.what == What::Written,
        )));
        Ok::<(), ()>(())
    });
    noted.expect("they are read");
    // A page that has its memory is written to without a fault.
    memory.write(1, 2);
    assert!(matches!(times[..], [(4096, time, true)] if (before..=behind).contains(&time)), "{times:?}");
    assert_eq!(seen(&mut collector, own, memory.start(), 4), []);
    memory.write(2, 1);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), [Seen::Written(2)]);
    collector.leave(own as i32, memory.start(), end);
    memory.write(3, 1);
    assert_eq!(seen(&mut collector, own, memory.start(), 4), []);
    assert_eq!(collector.lost(), [0, 0]);
}
