//! The C library's fork: queues are held meanwhile, and the child forgets the threads that it does not have.
//!
//! Registered before `main`, because a handler may be what reads first, and pthread_atfork(3) is not for handlers.

use crate::worker::reclaimer;
use mote_rcu::{Expedited, Flavor, General, Library, Qsbr, Signal, callback};

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn register() {
        // SAFETY: three functions without conditions, which live as long as the object.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
    register
};

extern "C" fn prepare() {
    hold::<Qsbr>();
    hold::<General>();
    hold::<Expedited>();
    hold::<Signal>();
    hold::<Library>();
}

extern "C" fn parent() {
    go_on::<Qsbr>();
    go_on::<General>();
    go_on::<Expedited>();
    go_on::<Signal>();
    go_on::<Library>();
}

extern "C" fn child() {
    go_on_alone::<Qsbr>();
    go_on_alone::<General>();
    go_on_alone::<Expedited>();
    go_on_alone::<Signal>();
    go_on_alone::<Library>();
}

fn hold<F: Flavor>() {
    reclaimer::<F>().before_fork();
}

fn go_on<F: Flavor>() {
    reclaimer::<F>().after_fork();
}

fn go_on_alone<F: Flavor>() {
    // SAFETY: the C library calls this in the child of a fork, which has one thread.
    unsafe { callback::after_fork::<F>() };
    reclaimer::<F>().after_fork_in_child();
}
