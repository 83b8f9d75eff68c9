//! Switches and probes of the program's own, in a process that nobody records.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Sites change for the whole process: one test at a time says what they are.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

static FIRST: mote::Switch = mote::Switch::new();
static SECOND: mote::Switch = mote::Switch::new();

#[inline(never)]
fn seen() -> (bool, bool) {
    (mote::is_on!(FIRST), mote::is_on!(SECOND))
}

#[test]
fn switches_are_turned_one_by_one_and_together() {
    let _alone = alone();
    assert_eq!(seen(), (false, false));
    FIRST.set(true).expect("it can be turned");
    assert_eq!((seen(), FIRST.is_on()), ((true, false), true));
    mote::flip(&[(&FIRST, false), (&SECOND, true)]).expect("they can be turned");
    assert_eq!((seen(), FIRST.is_on()), ((false, true), false));
    // What is later in the list goes before.
    mote::flip(&[(&SECOND, true), (&SECOND, false)]).expect("it can be turned");
    assert_eq!(seen(), (false, false));
    mote::flip(&[]).expect("nothing to do");
}

/// An even number, or an odd one behind an even one: what `turn` may see.
static TURNS: AtomicU64 = AtomicU64::new(0);
static CHECKS: mote::Switch = mote::Switch::new();

#[test]
fn threads_go_the_new_way_when_a_switch_has_been_turned() {
    let _alone = alone();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // Turned on, then `TURNS` becomes odd; `TURNS` becomes even, then turned off. So a thread
                    // that sees it odd before and after has seen it on.
                    let before = TURNS.load(Ordering::SeqCst);
                    let is_on = mote::is_on!(CHECKS);
                    let after = TURNS.load(Ordering::SeqCst);
                    if before == after {
                        assert!(is_on || before % 4 != 2, "off in turn {before}");
                        assert!(!is_on || !before.is_multiple_of(4), "on in turn {before}");
                    }
                }
            });
        }
        for _ in 0..500 {
            // 0: off; 1: being turned; 2: on; 3: being turned.
            TURNS.fetch_add(1, Ordering::SeqCst);
            CHECKS.set(true).expect("it can be turned");
            TURNS.fetch_add(1, Ordering::SeqCst);
            TURNS.fetch_add(1, Ordering::SeqCst);
            CHECKS.set(false).expect("it can be turned");
            TURNS.fetch_add(1, Ordering::SeqCst);
        }
        over.store(true, Ordering::Relaxed);
    });
}

mod http {
    mote::tracepoint! {
        /// A request was answered.
        pub request_done in http { status: u16, path: &str, nanos: u64 }
        /// Has a field that is called as another event.
        pub failed in http { request_done: u32, record: &[u16] }
        pub idle in http {}
    }
}

#[test]
fn several_probes_see_the_values_in_the_order_in_which_they_were_connected() {
    let _alone = alone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (seen.clone(), seen.clone());
    let emit = |status| mote::emit!(http::request_done, status, "/index", 17);
    emit(1);
    let one = http::request_done
        .connect(move |status, path, nanos| {
            first.lock().expect("ours").push(format!("1 {status} {path} {nanos}"))
        })
        .expect("it connects");
    emit(2);
    let two = http::request_done
        .connect(move |status, _, _| second.lock().expect("ours").push(format!("2 {status}")))
        .expect("it connects");
    emit(3);
    one.disconnect();
    emit(4);
    two.disconnect();
    emit(5);
    assert_eq!(*seen.lock().expect("ours"), ["1 2 /index 17", "1 3 /index 17", "2 3", "2 4"]);
    assert!(mote::wait_for_probes());
    assert_eq!(Arc::strong_count(&seen), 1, "what the probes held was dropped");
}

#[test]
fn other_shapes_of_events_take_probes() {
    let _alone = alone();
    static SUM: AtomicU64 = AtomicU64::new(0);
    // As large as does not fit beside others.
    let large = [7u64; 1000];
    let connections = [
        http::failed.connect(|code, list| {
            SUM.fetch_add(u64::from(code) + list.len() as u64, Ordering::Relaxed);
        }),
        http::idle.connect(move || {
            SUM.fetch_add(large.iter().sum(), Ordering::Relaxed);
        }),
    ];
    mote::emit!(http::failed, 10, &[1, 2]);
    mote::emit!(http::idle);
    assert_eq!(SUM.load(Ordering::Relaxed), 12 + 7000);
    connections.into_iter().for_each(|connection| connection.expect("it connects").disconnect());
    mote::emit!(http::idle);
    assert_eq!(SUM.load(Ordering::Relaxed), 12 + 7000);
}

mote::tracepoint! {
    nested in own { depth: u32 }
}

#[test]
fn a_probe_disconnects_itself_and_connects_others() {
    let _alone = alone();
    static OWN: Mutex<Option<mote::Connection>> = Mutex::new(None);
    static LATER: Mutex<Vec<mote::Connection>> = Mutex::new(Vec::new());
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut own = OWN.lock().expect("ours");
    *own = Some(
        nested
            .connect(|depth| {
                CALLS.fetch_add(1, Ordering::Relaxed);
                assert!(!mote::wait_for_probes(), "it would wait for itself");
                if depth < 3 {
                    mote::emit!(nested, depth + 1);
                } else if let Some(own) = OWN.lock().expect("ours").take() {
                    own.disconnect();
                    let later = nested.connect(|_| {
                        CALLS.fetch_add(100, Ordering::Relaxed);
                    });
                    LATER.lock().expect("ours").push(later.expect("it connects"));
                }
            })
            .expect("it connects"),
    );
    drop(own);
    mote::emit!(nested, 0);
    // Four calls of the first; one of the second in each pass that comes to the end of the list.
    let calls = CALLS.swap(0, Ordering::Relaxed);
    assert_eq!(calls % 100, 4);
    mote::emit!(nested, 3);
    assert_eq!(CALLS.load(Ordering::Relaxed), 100);
    LATER.lock().expect("ours").drain(..).for_each(mote::Connection::disconnect);
    assert!(mote::wait_for_probes());
}

/// Says when it is dropped, and by then its number is poison.
struct Alive {
    number: AtomicU64,
    dropped: Arc<AtomicU64>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.number.store(u64::MAX, Ordering::Relaxed);
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

mote::tracepoint! {
    turned in own { turn: u64 }
}

#[test]
fn probes_come_and_go_under_threads_that_emit() {
    let _alone = alone();
    let (over, calls, dropped) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)), Arc::default());
    const TURNS: u64 = 300;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut turn = 0;
                while !over.load(Ordering::Relaxed) {
                    mote::emit!(turned, turn);
                    turn += 1;
                }
            });
        }
        for turn in 0..TURNS {
            let alive = Alive { number: AtomicU64::new(turn), dropped: Arc::clone(&dropped) };
            let calls = Arc::clone(&calls);
            let probe = move |_| {
                assert_eq!(alive.number.load(Ordering::Relaxed), turn, "a probe that was dropped is called");
                calls.fetch_add(1, Ordering::Relaxed);
            };
            turned.connect(probe).expect("it connects").disconnect();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(mote::wait_for_probes());
    assert_eq!(dropped.load(Ordering::Relaxed), TURNS);
}

/// Pages of this process that are in memory, and its address space.
fn pages() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let mut words = text.split_whitespace().map(|word| word.parse().expect("a number"));
    let all = words.next().expect("the first");
    (words.next().expect("the second"), all)
}

#[test]
fn memory_is_bounded() {
    let _alone = alone();
    let times = std::env::var("FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000);
    let turn = |times: u64| {
        for round in 0..times {
            CHECKS.set(round % 2 == 0).expect("it can be turned");
            let held = [round; 12];
            let probe = move |_| {
                std::hint::black_box(held);
            };
            turned.connect(probe).expect("it connects").disconnect();
        }
    };
    turn(100);
    let before = pages();
    turn(times);
    let after = pages();
    // Other tests wait for this one; what the harness does meanwhile is not much.
    assert!(after.0 < before.0 + 64 && after.1 < before.1 + 64, "pages {before:?}, then {after:?}");
}
