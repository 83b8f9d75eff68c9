//! A signal of the program's is refused by its number, another one then works. A file of its own: the choice is the
//! process's.

use mote_reclaim::*;

#[test]
fn the_signal_flavour_takes_no_signal_of_the_programs() {
    extern "C" fn mine(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR2, mine as *const () as usize) };
    assert!(choose_signal(libc::SIGUSR2));
    let refused = Thread::<Signal>::register().err();
    assert_eq!(refused, Some(RegisterError::SignalTaken(libc::SIGUSR2)));
    assert!(choose_signal(0));
    assert!(Thread::<Signal>::register().is_err(), "no signal");
    assert!(choose_signal(libc::SIGWINCH));
    let reader = Thread::<Signal>::register().expect("a signal that has no other handler");
    drop(reader.read());
    // Too late: SIGTERM, which has no handler, would end the program.
    assert!(!choose_signal(libc::SIGTERM));
    std::thread::spawn(synchronize::<Signal>).join().expect("a grace period");
}
