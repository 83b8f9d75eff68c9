//! What can happen to a session, and how often.

use crate::PATTERNS;
use mote_session::Way;
use mote_wire::How;
use proptest::collection::vec;
use proptest::prelude::*;

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Connect {
        pid: i32,
        user: u32,
        way: Way,
    },
    Hello {
        peer: usize,
        how: How,
        lies: bool,
    },
    Announce {
        peer: usize,
        events: Vec<usize>,
        /// More follow.
        has_more: bool,
    },
    Ready {
        peer: usize,
        failed: u32,
    },
    GoesOn {
        peer: usize,
    },
    Fails {
        peer: usize,
    },
    Garbage {
        peer: usize,
        bytes: Vec<u8>,
    },
    OfAnother {
        peer: usize,
    },
    HangUp {
        peer: usize,
        runs: bool,
    },
    Round,
    Tick {
        ms: u64,
    },
    Enable {
        pattern: usize,
        filter: Filter,
        kernel: bool,
    },
    Disable {
        pattern: usize,
    },
    Snapshot,
    Status,
    Join {
        pid: i32,
        mailbox: bool,
    },
    Damaged {
        group: u64,
    },
    Ended {
        group: u64,
    },
    Consumer {
        snapshot: u64,
        figures: u64,
    },
    /// What fails from here on: making rings, sending, making the words that rules share.
    Trouble {
        rings: bool,
        send: u8,
        words: bool,
    },
    Signal {
        from_terminal: bool,
        is_interrupt: bool,
    },
    CommandEnds,
    /// A round while the recording ends, this long after the step before.
    Left {
        ms: u64,
        processes: bool,
        is_read: bool,
        helpers: bool,
    },
    /// The event loop looks around the session, this long after the step before.
    Outlook {
        ms: u64,
        is_cut: bool,
        is_deserted: bool,
        threads: usize,
        are_gone: bool,
    },
}

/// The condition of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter {
    None,
    OfFields,
    OfSharedWords,
}

/// What the end depends on from the beginning: whether there is a command, and whether running processes were asked
/// for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) command: bool,
    pub(crate) attaches: bool,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let peer = || 0..6_usize;
    let how = prop_oneof![
        4 => Just(How::Start), 2 => Just(How::Fork), 1 => Just(How::Library), 1 => Just(How::Attach),
        2 => Just(How::Apart)
    ];
    let way = prop_oneof![Just(Way::Mailbox), Just(Way::Listener)];
    let filter = prop_oneof![
        2 => Just(Filter::None), 2 => Just(Filter::OfFields), 1 => Just(Filter::OfSharedWords)
    ];
    prop_oneof![
        8 => (1..5_i32, 0..4_u32, way).prop_map(|(pid, user, way)| Step::Connect { pid, user, way }),
        8 => (peer(), how, prop::bool::weighted(0.1)).prop_map(|(peer, how, lies)| Step::Hello { peer, how, lies }),
        6 => (peer(), vec(0..7_usize, 0..5), any::<bool>())
            .prop_map(|(peer, events, has_more)| Step::Announce { peer, events, has_more }),
        4 => (peer(), 0..2_u32).prop_map(|(peer, failed)| Step::Ready { peer, failed }),
        1 => peer().prop_map(|peer| Step::GoesOn { peer }),
        1 => peer().prop_map(|peer| Step::Fails { peer }),
        1 => (peer(), vec(any::<u8>(), 0..40)).prop_map(|(peer, bytes)| Step::Garbage { peer, bytes }),
        1 => peer().prop_map(|peer| Step::OfAnother { peer }),
        3 => (peer(), any::<bool>()).prop_map(|(peer, runs)| Step::HangUp { peer, runs }),
        6 => Just(Step::Round),
        4 => (0..3000_u64).prop_map(|ms| Step::Tick { ms }),
        3 => (0..PATTERNS.len(), filter, prop::bool::weighted(0.2))
            .prop_map(|(pattern, filter, kernel)| Step::Enable { pattern, filter, kernel }),
        3 => (0..PATTERNS.len()).prop_map(|pattern| Step::Disable { pattern }),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Status),
        1 => (1..5_i32, prop::bool::weighted(0.8)).prop_map(|(pid, mailbox)| Step::Join { pid, mailbox }),
        2 => (0..6_u64).prop_map(|group| Step::Damaged { group }),
        1 => (0..6_u64).prop_map(|group| Step::Ended { group }),
        1 => (0..4_u64, 0..4_u64).prop_map(|(snapshot, figures)| Step::Consumer { snapshot, figures }),
        2 => (prop::bool::weighted(0.3), 0..8_u8, any::<bool>())
            .prop_map(|(rings, send, words)| Step::Trouble { rings, send, words }),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(from_terminal, is_interrupt)| Step::Signal { from_terminal, is_interrupt }),
        1 => Just(Step::CommandEnds),
        4 => (0..900_u64, any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(ms, processes, is_read, helpers)| Step::Left { ms, processes, is_read, helpers }),
        6 => (0..700_u64, prop::bool::weighted(0.02), any::<bool>(), 0..2_usize, any::<bool>()).prop_map(
            |(ms, is_cut, is_deserted, threads, are_gone)| {
                Step::Outlook { ms, is_cut, is_deserted, threads, are_gone }
            }
        ),
    ]
}
