//! Programs that break tracers, one for each word of the command line: `scenes fork 3 100`.
//!
//! Each prints what the claims must know of it (process ids, what it counted) as `NAME VALUE` lines.

mod calm;
mod cooperation;
mod filtered;
mod functions;
mod hostile;
mod hostile_join;
mod kernel;
mod namespaces;
mod own;
mod privileges;
mod processes;
mod sessions;
mod signals;
mod simple;
mod sites;
mod strangers;
mod threads;
mod waits;
mod words;

use std::process::ExitCode;
use words::Words;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let scene = words.next().unwrap_or_default();
    let words = Words(words.collect());
    match scene.as_str() {
        "count" => simple::count(&words),
        "counting" => simple::counting(),
        "net" => filtered::net(&words),
        "net-until" => filtered::net_until(),
        "http" => filtered::http(&words),
        "functions" => functions::functions(&words),
        "attributed" => functions::attributed(&words),
        "exit" => return simple::exit(&words),
        "big" => simple::big(),
        "times" => simple::times(&words),
        "unevaluated" => simple::unevaluated(&words),
        "echo" => simple::echo(),
        "probed" => own::probed(&words),
        "outlive" => own::outlive(),
        "flip" => own::flip(&words),
        "flip-and-fork" => own::flip_and_fork(&words),
        "notes" => own::notes(),
        "until-disarmed" => sites::until_disarmed(),
        "fork" => processes::fork_many(&words),
        "fork-threaded" => processes::fork_threaded(&words),
        "grandchildren" => processes::grandchildren(&words),
        "exec" => processes::exec(&words),
        "spawn" => processes::spawn(&words),
        "vfork" => processes::vfork(),
        "close-all" => processes::close_all(&words),
        "steal-number" => processes::steal_number(),
        "daemonise" => processes::daemonise(&words),
        "killed" => processes::killed(&words),
        "threads" => threads::many(&words),
        "bursts" => threads::bursts(&words),
        "migrate" => threads::migrate(&words),
        "renamed" => threads::renamed(),
        "dlopen" => threads::dlopen(&words),
        "handler" => signals::handler(&words),
        "fork-inside" => signals::fork_inside(&words),
        "blocked" => signals::blocked(&words),
        "own-trap" => signals::own_trap(),
        "scribble" => hostile::scribble(&words),
        "neighbours" => hostile::neighbours(&words),
        "late" => sessions::late(),
        "scribble-counts" => hostile::scribble_counts(&words),
        "lie" => hostile::lie(),
        "nag" => hostile::nag(&words),
        "odd-names" => hostile::odd_names(),
        "silent" => hostile::silent(),
        "no-tsc-until" => calm::no_tsc_until(&words),
        "no-tsc-child" => calm::no_tsc_child(&words),
        "locked" => calm::locked(&words),
        "strict" => calm::strict(&words),
        "liar" => strangers::liar(&words),
        "knock" => strangers::knock(&words),
        "ask-as" => strangers::ask_as(&words),
        "intrude" => strangers::intrude(&words),
        "trickle" => strangers::trickle(&words),
        "false-session" => strangers::false_session(&words),
        "false-mailbox" => strangers::false_mailbox(&words),
        "pretend" => strangers::pretend(&words),
        "flood" => strangers::flood(&words),
        "hoard" => strangers::hoard(&words),
        "hush" => strangers::hush(&words),
        "steady" => sessions::steady(&words),
        "family" => sessions::family(&words),
        "shared-words" => cooperation::shared_words(&words),
        "share-add" => cooperation::share_add(&words),
        "share-once" => cooperation::share_once(),
        "share-too-much" => cooperation::share_too_much(),
        "slots" => cooperation::slots(&words),
        "state" => cooperation::state(&words),
        "ask" => cooperation::ask(&words),
        "slow-calls" => cooperation::slow_calls(&words),
        "scribble-area" => cooperation::scribble_area(&words),
        "calls" => kernel::calls(&words),
        "numbered-calls" => kernel::numbered_calls(&words),
        "naps" => kernel::naps(&words),
        "calls-while" => kernel::calls_while(&words),
        "calls-until-killed" => kernel::until_killed(),
        "calling-threads" => kernel::calling_threads(&words),
        "as-process" => kernel::as_process(&words),
        "opens" => kernel::opens(&words),
        "sockets" => kernel::sockets(&words),
        "given-times" => kernel::given_times(),
        "master" => privileges::master(&words),
        "become" => privileges::become_and_run(&words),
        "hostile-join" => hostile_join::hostile_join(&words),
        "waits" => waits::waits(&words),
        "new-namespaces" => namespaces::new_namespaces(&words),
        other => panic!("no scene '{other}'"),
    }
    ExitCode::SUCCESS
}
