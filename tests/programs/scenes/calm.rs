//! Programs that lock themselves in: without the time-stamp counter, without system calls.

use crate::words::Words;

const PR_SET_TSC: i32 = 26;
const PR_TSC_SIGSEGV: i32 = 2;

fn forbid_tsc() {
    // SAFETY: touches no memory.
    let done = unsafe { libc::prctl(PR_SET_TSC, PR_TSC_SIGSEGV) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn emit(events: u64) {
    for seq in 0..events {
        mote::event!(e2e::calm, seq: u64 = seq, text: &str = "calm");
    }
}

/// `no-tsc-until EVENTS FILE`: forbids itself the time-stamp counter after its first events, and emits until the first
/// word of a file is set, and then its last ones.
pub(crate) fn no_tsc_until(words: &Words) {
    let events = words.number(0);
    let until = until_told();
    emit(events);
    forbid_tsc();
    let more = until();
    for seq in 0..events {
        mote::event!(e2e::calm_last, seq: u64 = seq);
    }
    println!("emitted {}", 2 * events + more);
}

/// `no-tsc-child EVENTS`: a child of a program that has forbidden itself the time-stamp counter emits, and a thread of
/// it.
pub(crate) fn no_tsc_child(words: &Words) {
    let events = words.number(0);
    emit(events);
    forbid_tsc();
    // SAFETY: the child makes events, and ends.
    match unsafe { libc::fork() } {
        0 => {
            emit(events);
            std::thread::spawn(move || emit(events)).join().expect("a thread");
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        child => {
            let ended = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None);
            println!("ended {ended:?}");
        }
    }
    println!("emitted {}", 3 * events);
}

/// `strict EVENTS`: emits, enters strict seccomp, in which only read, write, exit and sigreturn are allowed, and emits
/// as many again.
pub(crate) fn strict(words: &Words) {
    let events = words.number(0);
    emit(events);
    println!("emitted {}", 2 * events);
    // SAFETY: from here on only what strict seccomp allows.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
    emit(events);
    // SAFETY: a text of this program.
    unsafe { libc::write(1, c"survived 1\n".as_ptr().cast(), 11) };
    // SAFETY: the thread ends, which is the only one.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Instructions of a classic filter: see seccomp(2).
const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Kills the process for every system call but these. With `everybody`, all threads get the filter.
fn lock_in(allowed: &[i64], everybody: bool) {
    let load = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0);
    let mut program = vec![load];
    for (index, number) in allowed.iter().enumerate() {
        let to_the_end = (allowed.len() - index) as u8;
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_the_end, 0, *number as u32));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let flags = if everybody { libc::SECCOMP_FILTER_FLAG_TSYNC } else { 0 };
    // SAFETY: touches no memory.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the kernel copies the program.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &filter) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// What a calm program needs: to write, and to end. A sandbox that allows read(2) beside it is what most are like.
const CALM: [i64; 4] =
    [libc::SYS_write, libc::SYS_exit_group, libc::SYS_rt_sigreturn, libc::SYS_clock_gettime];

/// `locked EVENTS [everybody] [read] [until]`: emits, enters a sandbox that kills, emits as many again, and exits in
/// it. With `until` it emits until it has read a line or, where read(2) kills, for as long as the file of its first
/// line is there.
pub(crate) fn locked(words: &Words) {
    let has = |word: &str| words.0.iter().any(|other| other == word);
    let events = words.number(0);
    emit(events);
    let mut allowed = CALM.to_vec();
    allowed.extend(has("read").then_some(libc::SYS_read));
    let more = has("until").then(until_told);
    println!("locked {}", std::process::id());
    lock_in(&allowed, has("everybody"));
    emit(events);
    let more = more.map_or(0, |more| more());
    println!("emitted {}", 2 * events + more);
    // Not that of std, which puts things in order by system calls.
    // SAFETY: no other thread of the program is there.
    unsafe { libc::exit(0) }
}

/// Emits until the word of a page that others see is no longer 0: it needs no system call.
fn until_told() -> impl FnOnce() -> u64 {
    let path = std::env::args().next_back().expect("a file");
    let file = std::fs::File::options().read(true).write(true).open(path).expect("a file");
    // SAFETY: a shared page of a file.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_SHARED,
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    let page = page as usize;
    move || {
        let mut count = 0;
        // SAFETY: mapped above, and changed by others.
        while unsafe { std::ptr::with_exposed_provenance::<u32>(page).read_volatile() } == 0 {
            emit(1);
            count += 1;
            (0..10_000).for_each(|_| std::hint::spin_loop());
        }
        count
    }
}
