//! Processes that a recorder had better not believe when it is asked to record them while they run.

use crate::waits;
use crate::words::Words;
use nix::sched::{CloneFlags, unshare};
use std::ffi::{CString, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

unsafe extern "C" {
    /// The section that says where recorders send threads to: version, offset of the code.
    static __start_mote_join: [i32; 3];
}

const PAGE: usize = 4096;
/// Size of the file of which little is there.
const SPARSE_BYTES: u64 = 3 << 30;

fn map(file: &File, protection: i32) -> *mut c_void {
    // SAFETY: a new mapping, which nobody uses.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    at
}

/// Makes the code that threads are sent to an endless loop: `jmp .`.
fn spoil_code() {
    let record = &raw const __start_mote_join;
    // SAFETY: the section is in the program, which has this record in it.
    let offset = unsafe { (*record)[1] };
    let code = (record as usize + 4).wrapping_add_signed(offset as isize);
    let page = (code & !(PAGE - 1)) as *mut c_void;
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: pages of the program's own code.
    assert_eq!(unsafe { libc::mprotect(page, 2 * PAGE, all) }, 0);
    // SAFETY: nobody runs there.
    unsafe { (code as *mut [u8; 2]).write([0xeb, 0xfe]) };
}

/// A file of 3 GiB whose headers say that almost all of it is names of sections, and a note.
fn sparse(path: &Path) -> File {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a new file");
    file.set_len(SPARSE_BYTES).expect("a file system with holes");
    let rest = SPARSE_BYTES - 0x1000;
    let mut head = Vec::new();
    head.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    head.extend([3u16, 62].into_iter().flat_map(u16::to_le_bytes));
    head.extend(1u32.to_le_bytes());
    // Entry, program headers, section headers.
    head.extend([0u64, 64, 0x200].into_iter().flat_map(u64::to_le_bytes));
    head.extend(0u32.to_le_bytes());
    head.extend([64u16, 56, 1, 64, 3, 1].into_iter().flat_map(u16::to_le_bytes));
    // PT_NOTE, readable.
    head.extend([4u32, 4].into_iter().flat_map(u32::to_le_bytes));
    head.extend([0x1000, 0x1000, 0x1000, rest, rest, 4].into_iter().flat_map(u64::to_le_bytes));
    head.resize(0x240, 0);
    for (name, kind) in [(0u32, 3u32), (0x1000_0000, 7)] {
        head.extend([name, kind].into_iter().flat_map(u32::to_le_bytes));
        head.extend([2u64, 0x1000, 0x1000, rest].into_iter().flat_map(u64::to_le_bytes));
        head.extend([0u32, 0].into_iter().flat_map(u32::to_le_bytes));
        head.extend([4u64, 0].into_iter().flat_map(u64::to_le_bytes));
    }
    file.write_all_at(&head, 0).expect("a file");
    file
}

/// Maps a copy of a program at `DIRECTORY/mapped`, and has something else there afterwards.
fn replace(how: &str, directory: &Path) {
    let path = directory.join("mapped");
    map(&File::open(&path).expect("a program"), libc::PROT_READ | libc::PROT_EXEC);
    let name = CString::new(path.to_str().expect("text")).expect("no NUL");
    match how {
        "pipe" => {
            fs::remove_file(&path).expect("there");
            // SAFETY: the name outlives the call.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        }
        "link" => {
            fs::remove_file(&path).expect("there");
            symlink(directory.join("other"), &path).expect("a link");
        }
        // The program has mapped another file than the recorder finds by that name.
        "namespace" => {
            unshare(CloneFlags::CLONE_NEWNS).expect("root");
            let other = CString::new(directory.join("other").to_str().expect("text")).expect("no NUL");
            let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
            // SAFETY: the names outlive the calls.
            assert_eq!(unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) }, 0);
            // SAFETY: as above.
            let bound =
                unsafe { libc::mount(other.as_ptr(), name.as_ptr(), none, libc::MS_BIND, none.cast()) };
            assert_eq!(bound, 0);
            map(&File::open(&path).expect("a program"), libc::PROT_READ | libc::PROT_EXEC);
        }
        other => panic!("no such way '{other}'"),
    }
}

/// Loads a library, on a thread of its own, whose constructor waits: it reads from a descriptor that the environment
/// names, until somebody writes there, or SIGTERM.
fn hold_linker(library: &str) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    println!("held {}", ends[1]);
    // SAFETY: there is one thread.
    unsafe { std::env::set_var("HELD_BY", ends[0].to_string()) };
    // SAFETY: just made; kept for the program's life but for the handler's close.
    let write = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    waits::close_at_end(write);
    let library = CString::new(library).expect("no NUL");
    std::thread::spawn(move || {
        // SAFETY: a library of the claim's own, whose constructor waits.
        unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
    });
    while !fs::read_to_string("/proc/self/maps").expect("ours").contains("holds.so") {
        std::thread::yield_now();
    }
}

/// Forbids nothing, by a filter of system calls.
fn lock_in() {
    let all = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let mut filter = [all];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    // SAFETY: no memory.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the kernel reads the filter, which outlives the call.
    let locked = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(locked, 0);
}

/// `hostile-join HOW WORD`: does it, and waits as `waits` does; `spin` never waits.
pub(crate) fn hostile_join(words: &Words) {
    match words.text(0) {
        "jump" => spoil_code(),
        "sandbox" => lock_in(),
        "sparse" => {
            map(&sparse(&Path::new(words.text(1)).join("sparse")), libc::PROT_READ | libc::PROT_EXEC);
        }
        "linker" => return waits::with(words.text(2), || hold_linker(words.text(1))),
        "handler" => return waits::with("pause", waits::stay_in_handler),
        "spin" => {
            println!("pid {}", std::process::id());
            println!("started 1");
            let _ = std::io::stdout().flush();
            loop {
                std::hint::spin_loop();
            }
        }
        how => replace(how, Path::new(words.text(1))),
    }
    waits::with("pause", || {});
}
