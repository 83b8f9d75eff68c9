//! The sessions that the process is in: the handshake, what a session says after it, and how it is left.
//!
//! # Who may do what
//! Everything here is changed with the control path held (`hold`); probes never hold it. What probes see of a session
//! is its channel (`channel`), its shared memory (`shared`) and what events lead to.
//!
//! # A session's life
//! Free, joined ([`Session::is_in`]), leaving: no event leads to it any more, but some thread may still look at what
//! belonged to it, for a grace period of the RCU's library flavour. Then it is free again, and its channel private
//! memory.

pub(crate) mod functions;

use crate::channel::{self, Channel};

use crate::counts;
use crate::environment::Place;
use crate::event_ids::EventIds;
use crate::filters::Filters;
use crate::handshake::{self, Rings, Scratch};
use crate::hold::Control;
use crate::link::{self, Link, Links};
use crate::registry::{self, DynamicEvent, Range, Site};
use crate::subscription::Subscription;
use crate::switch::Common;
use crate::waiting::{Wait, Waiting};
use crate::{cooperate, ending, filter, hold, leaving, names, shared, speculation, switch, trust, waiting};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use mote_layout::site::SiteRecord;
use mote_rcu::{Library, Token, start_poll};
use mote_ring::Geometry;
use mote_ring::writer::Former;
use mote_sync::thread;
use mote_sys::fd::Fd;
use mote_sys::{Errno, Result, process, time, tsc};
use mote_wire::{How, Message, Reason, SESSIONS_MAX};

/// How many sessions the process is in: one bit for each.
static JOINED: AtomicU32 = AtomicU32::new(0);

/// A child of fork has no descriptor left to say hello with.
static CRAMPED: AtomicBool = AtomicBool::new(false);

/// For how long the last session's filters and sites are waited for: the first pause in nanoseconds, and how many there
/// are, each twice as long as the one before.
const FAREWELL: (u64, u32) = (1_000_000, 11);

/// What the process knows of one session.
pub(crate) struct Session {
    number: usize,
    /// Where it is; for children and late libraries.
    place: Option<Place>,
    /// What it wants of events.
    wants: Subscription,
    /// Since when it is being left, and its channel.
    leaving: Option<(Token<Library>, &'static Channel)>,
    /// Rings that others have taken the place of, and when.
    former: Option<(Former, u64)>,
}

/// All sessions of the process, and what they have in common.
pub(crate) struct Sessions {
    all: [Session; SESSIONS_MAX],
    common: Common,
    waiting: Waiting,
}

/// What came of joining a session.
enum Joined {
    /// The process is in it, and listens on this link.
    In(Link),
    /// It was in it before.
    Already,
    /// The session does not answer now; its answer is to come on this link, if it was asked.
    Waits(Option<Link>),
}

/// Why a process is not in a session; with the link, if it is the welcome that has not come yet.
struct NotIn {
    why: Errno,
    asked: Option<Link>,
}

impl NotIn {
    fn unasked(why: Errno) -> NotIn {
        NotIn { why, asked: None }
    }

    /// As `unasked`, and the session gets the reason.
    fn reported(link: &Link, why: Errno) -> NotIn {
        let mut buffer = [0; 16];
        let _ = link.send(&Message::Failed(why.0 as u32), &mut buffer);
        NotIn::unasked(why)
    }
}

struct Shelf(core::cell::UnsafeCell<Sessions>);
// SAFETY: `sessions` gives it to the holder of the control path only.
unsafe impl Sync for Shelf {}
static SESSIONS: Shelf = Shelf(core::cell::UnsafeCell::new(Sessions {
    all: [const { Session::new() }; SESSIONS_MAX],
    common: Common::new(),
    waiting: Waiting::new(),
}));

/// The sessions.
fn sessions(_: &mut Control) -> &mut Sessions {
    // SAFETY: there is one `Control` at a time, and it is borrowed for as long as the result.
    unsafe { &mut *SESSIONS.0.get() }
}

impl Session {
    /// None. All of it are zeros, so that it takes no place in the program's file.
    const fn new() -> Session {
        Session { number: 0, place: None, wants: Subscription::new(0), leaving: None, former: None }
    }

    fn is_in(&self) -> bool {
        self.wants.channel.is_some()
    }

    fn is_free(&self) -> bool {
        self.wants.channel.is_none() && self.leaving.is_none() && self.place.is_none()
    }

    /// Says hello, and waits for the welcome.
    fn ask(&mut self, place: &Place, how: How, is_late: bool) -> core::result::Result<(Link, Rings), NotIn> {
        // A thread that forks meanwhile waits for this.
        link::note_slow(self.number, is_late);
        trust::forget(self.number);
        let link = Link::open(place, how, self.number).map_err(NotIn::unasked)?;
        let mut scratch = Scratch::new().map_err(NotIn::unasked)?;
        match handshake::rings(&link, &mut scratch) {
            Ok(rings) => Ok((link, rings)),
            Err(why) if why == Errno(libc::ETIMEDOUT) => {
                let _ = link.send(&Message::GoesOn, scratch.buffers().0);
                Err(NotIn { why, asked: Some(link) })
            }
            Err(why) => Err(NotIn::reported(&link, why)),
        }
    }

    /// Maps the channel, announces all events. `late_ms` as in [`mote_wire::Ready`].
    fn enter(
        &mut self,
        common: &mut Common,
        (link, rings): (Link, Rings),
        has_begun: bool,
        late_ms: u32,
    ) -> core::result::Result<Link, NotIn> {
        let mut scratch = Scratch::new().map_err(|why| NotIn::reported(&link, why))?;
        common.era = common.era.wrapping_add(1);
        let channel = rings.map(self.number, common.era).map_err(|why| NotIn::reported(&link, why))?;
        self.wants.channel = Some(channel);
        channel.publish();
        if has_begun {
            // Before its first event: all threads that have introduced themselves elsewhere have done so by now, or
            // find the channel.
            names::introduce_all(channel);
        }
        counts::fetch(|| reconnect_to(self));
        match handshake::announce_all(&link, &mut scratch, &mut self.wants, common, late_ms) {
            Ok(()) => Ok(link),
            Err(why) => Err(NotIn::reported(&link, why)),
        }
    }

    /// Leaves it: nothing leads to it when this returns. Its end comes in [`Session::tidy`].
    fn leave(&mut self, common: &mut Common) {
        let Some(channel) = self.wants.channel else { return };
        JOINED.fetch_and(!(1 << self.number), Ordering::Release);
        channel.withdraw();
        shared::hide(self.number);
        switch::leave(&mut self.wants, common);
        self.wants.channel = None;
        self.place = None;
        self.leaving = Some((start_poll::<Library>(), channel));
    }

    /// Goes over to other rings, and to the maps that go with them.
    fn renew(&mut self, geometry: Geometry, memfd: &Fd, maps: Option<&Fd>) -> Result<()> {
        let channel = self.wants.channel.ok_or(Errno(libc::ENOTCONN))?;
        maps.map_or(Ok(()), |maps| self.wants.filters.go_over(maps))?;
        let former = channel.renew(memfd, geometry)?;
        self.forget_former(0);
        self.former = Some((former, tsc::monotonic_by_call()));
        Ok(())
    }

    /// Lets rings go that were exchanged so long ago that no thread writes there any more. Returns whether there still
    /// are some.
    fn forget_former(&mut self, after_ns: u64) -> bool {
        let now = tsc::monotonic_by_call();
        if let Some((former, _)) = self.former.take_if(|(_, at)| now.saturating_sub(*at) >= after_ns) {
            // SAFETY: the session reads there no longer than it has to. When it cannot be done the memory stays.
            let _ = unsafe { former.forsake() };
        }
        self.former.is_some()
    }

    /// Frees what no thread looks at any more. Returns whether something is left.
    fn tidy(&mut self) -> bool {
        let rings_left = self.forget_former(switch::SETTLE_NS);
        let filters_left = self.wants.filters.table().tidy();
        rings_left | self.tidy_left(filters_left)
    }

    /// Frees what is left of a session that was left. Returns whether something is.
    fn tidy_left(&mut self, filters_left: bool) -> bool {
        match self.leaving.filter(|_| !filters_left) {
            Some((token, channel)) if token.is_done() => {
                // SAFETY: `tidy` has left no filter, and a grace period is over since the last one was reached.
                unsafe { self.wants.filters.forget() };
                // SAFETY: hidden for a grace period.
                unsafe { shared::unmap(self.number) };
                self.wants.ids = EventIds::new();
                counts::end(self.number);
                channel.forsake();
                self.leaving = None;
                false
            }
            Some(_) => true,
            None => filters_left,
        }
    }
}

impl Sessions {
    fn joined(&mut self) -> (impl Iterator<Item = &mut Session>, &mut Common) {
        (self.all.iter_mut().filter(|session| session.is_in()), &mut self.common)
    }

    /// Frees what no thread looks at any more. Returns whether something is left.
    fn tidy(&mut self) -> bool {
        // All of them, whatever the first ones say.
        let left = self.all.iter_mut().fold(false, |left, session| session.tidy() | left);
        self.common.multicasts.tidy() | self.common.try_again() | self.common.is_settling() | left
    }

    /// Joins the session of `wait`, unless the process is in it already; waits for it longer if it does not answer now.
    fn join(&mut self, wait: &Wait, mailbox: Option<&Fd>, is_late: bool) -> Result<Joined> {
        let (place, how) = (&wait.place, wait.how());
        let is_it = |session: &Session| session.place.is_some_and(|known| known.inode == place.inode);
        if self.all.iter().any(is_it) {
            return Ok(Joined::Already);
        }
        // The number of a mailbox that has come with a message is ours only for now.
        let mut reached = *place;
        reached.mailbox = mailbox.map_or(place.mailbox, Fd::raw);
        self.tidy();
        let Some((number, session)) = self.all.iter_mut().enumerate().find(|(_, session)| session.is_free())
        else {
            decline(&reached, how);
            return Err(Errno(libc::EUSERS));
        };
        session.number = number;
        session.wants.filters = Filters::new(number);
        // Children of fork wait in its mailbox, too, unless it is not theirs.
        session.place = Some(*place);
        let late_ms = if is_late { wait.late_ms() } else { 0 };
        let entered = session
            .ask(&reached, how, is_late)
            .and_then(|asked| session.enter(&mut self.common, asked, is_late || how == How::Attach, late_ms));
        self.settle_in(number, wait, entered)
    }

    /// Notes what came of joining a session.
    fn settle_in(
        &mut self,
        number: usize,
        wait: &Wait,
        entered: core::result::Result<Link, NotIn>,
    ) -> Result<Joined> {
        let NotIn { why, asked } = match entered {
            Ok(link) => {
                JOINED.fetch_or(1 << number, Ordering::Release);
                return Ok(Joined::In(link));
            }
            Err(not_in) => not_in,
        };
        let waits = waiting::may_come(why) && self.waiting.add(wait, asked.as_ref().map(|_| number));
        if asked.is_none() || !waits {
            // What was armed before it failed would have no thread to disarm it.
            if let Some(session) = self.all.get_mut(number) {
                session.place = None;
                session.leave(&mut self.common);
            }
        }
        if waits { Ok(Joined::Waits(asked)) } else { Err(why) }
    }

    fn leave(&mut self, number: usize) {
        if let Some(session) = self.all.get_mut(number) {
            session.leave(&mut self.common);
        }
        if self.common.cooperating.take_if(|cooperating| *cooperating == number).is_some() {
            cooperate::end();
        }
        cooperate::left(number);
    }
}

/// Tells a session that the process is in too many others.
fn decline(place: &Place, how: How) {
    let mut buffer = [0; 256];
    if let Ok(link) = Link::open(place, how, SESSIONS_MAX) {
        if matches!(how, How::Start | How::Attach) {
            // A socket that is closed with something unread takes away what it has sent before (unix(7): ECONNRESET).
            let _ = link.answer(&mut buffer);
        }
        let _ = link.send(&Message::Declined(Reason::Full), &mut buffer);
    }
}

/// Whether this process is part of a session.
pub(crate) fn is_joined() -> bool {
    JOINED.load(Ordering::Acquire) != 0
}

/// Joins the sessions at `places` of a process that is in none, and returns the links to listen on.
///
/// # Errors
/// Why it is in none of them.
pub(crate) fn join(places: impl Iterator<Item = Place>, how: How) -> Result<Links> {
    let mut guard = hold::control();
    if is_joined() {
        return Err(Errno(libc::EBUSY));
    }
    note_process();
    mote_sync::rseq::find();
    watch_clock();
    let all = sessions(&mut guard);
    let mut links = Links::default();
    let mut failed = Errno(libc::ENOENT);
    for place in places {
        match all.join(&Wait::begin(&place, how), None, false) {
            Ok(Joined::In(link) | Joined::Waits(Some(link))) => links.put(link),
            Ok(Joined::Already | Joined::Waits(None)) => {}
            Err(errno) => failed = errno,
        }
    }
    if !is_joined() && !waiting::is_any() {
        return Err(failed);
    }
    if how == How::Start && is_joined() {
        channel::introduce_thread();
    }
    drop(guard);
    Ok(links)
}

/// Joins another session, which one of ours has told us of; a mailbox is in the calling thread's descriptor table.
pub(crate) fn join_another(place: &[u8], mailbox: Option<Fd>, links: &mut Links) {
    let Some(place) = Place::parse(place) else { return };
    let mut guard = hold::control();
    // What went wrong the session sees at its end of the link, if it is there.
    let joined = sessions(&mut guard).join(&Wait::begin(&place, How::Attach), mailbox.as_ref(), false);
    if let Ok(Joined::In(link) | Joined::Waits(Some(link))) = joined {
        links.put(link);
    }
    drop(guard);
}

/// Asks sessions again that could not be asked before, on our thread, which has a descriptor table of its own.
/// `is_late` when the program has gone on.
pub(crate) fn ask_again(links: &mut Links, is_late: bool) {
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    for _ in 0..SESSIONS_MAX {
        let Some(wait) = all.waiting.take_unasked() else { break };
        match all.join(&wait, None, is_late) {
            Ok(Joined::In(link) | Joined::Waits(Some(link))) => links.put(link),
            // In vain again.
            Ok(Joined::Waits(None)) => break,
            // It is no more.
            Ok(Joined::Already) | Err(_) => {}
        }
    }
    drop(guard);
}

/// Whether what comes on this session's link is the answer to a process that waits for its welcome: takes it in then,
/// or gives the session up.
pub(crate) fn let_in(number: usize, links: &mut Links) -> bool {
    if !waiting::is_any() {
        return false;
    }
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    let Some(wait) = all.waiting.take_asked(number) else { return false };
    let Some(link) = links.take(number) else { return false };
    let Some(session) = all.all.get_mut(number) else { return false };
    link::note_slow(number, false);
    let entered = match Scratch::new().and_then(|mut scratch| handshake::rings(&link, &mut scratch)) {
        Ok(rings) => session.enter(&mut all.common, (link, rings), true, wait.late_ms()),
        Err(why) => Err(NotIn::reported(&link, why)),
    };
    if let Ok(Joined::In(link) | Joined::Waits(Some(link))) = all.settle_in(number, &wait, entered) {
        links.put(link);
    }
    drop(guard);
    true
}

/// Gets ready for threads that may not read the time-stamp counter: one that may not now is not in strict seccomp,
/// which would not let it come here.
fn watch_clock() {
    filter::watch_clock();
    if !tsc::is_allowed() {
        tsc::allow_calls();
    }
}

/// Whether the process, or one that fork made it of, was ever asked to join a session.
pub(crate) fn has_begun() -> bool {
    channel::PID.load(Ordering::Relaxed) != 0
}

/// Keeps this process's id where records and filters take it from.
pub(crate) fn note_process() {
    let pid = process::pid() as u32;
    channel::PID.store(pid, Ordering::Relaxed);
    filter::note_process(pid);
}

/// Adds an object's sites, and announces them to the sessions that were joined before.
///
/// # Safety
/// As `registry::add_sites`.
pub(crate) unsafe fn add_object(first: *const SiteRecord, end: *const SiteRecord) {
    ending::watch(first.addr());
    let mut guard = hold::control();
    // SAFETY: the caller's promise.
    let range = unsafe { registry::add_sites(first, end) };
    announce(&mut guard, range);
    drop(guard);
}

fn announce(control: &mut Control, range: Option<Range>) {
    let Some(range) = range else { return };
    let (joined, common) = sessions(control).joined();
    for session in joined {
        counts::fetch(|| reconnect_to(session));
        if let Some((link, mut scratch)) = reconnect_to(session) {
            let _ = handshake::announce_object(&link, &mut scratch, &mut session.wants, common, range);
        }
    }
}

/// Forgets an object's sites; no thread patches them when this has returned.
///
/// # Cost
/// While the process ends, which it may do in a sandbox, no system call, unless the sites are being patched at this
/// very moment.
pub(crate) fn remove_object(first: *const SiteRecord) {
    if ending::has_begun() {
        registry::remove_sites(first);
        // One of both sees the other: a thread that takes the control path from now on finds no site, and for a thread
        // that has it we wait.
        fence(Ordering::SeqCst);
        if !hold::is_held() {
            return;
        }
    }
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    for site in registry::object(first).into_iter().flat_map(registry::Range::sites) {
        all.all.iter_mut().for_each(|session| session.wants.ids.forget(site.event()));
        all.common.numbers.take(site.event());
    }
    registry::remove_sites(first);
    drop(guard);
}

/// Announces an event without a site.
pub(crate) fn announce_dynamic(event: &'static DynamicEvent) {
    let mut guard = hold::control();
    let (joined, common) = sessions(&mut guard).joined();
    for session in joined {
        if let Some((link, mut scratch)) = reconnect_to(session) {
            let _ = handshake::announce_one(&link, &mut scratch, &mut session.wants, common, event);
        }
    }
    drop(guard);
}

fn reconnect_to(session: &Session) -> Option<(Link, Scratch)> {
    let link = Link::open(session.place.as_ref()?, How::Library, session.number).ok()?;
    Some((link, Scratch::new().ok()?))
}

/// A new connection to the session that cooperates, or else to the first that answers, and what is needed on it.
pub(crate) fn reconnect(control: &mut Control) -> Option<(Link, Scratch, usize)> {
    let all = sessions(control);
    let cooperating = all.common.cooperating;
    let is_first = |session: &&Session| cooperating.is_none_or(|number| number == session.number);
    all.all.iter().filter(|session| session.is_in()).filter(is_first).find_map(|session| {
        let (link, scratch) = reconnect_to(session)?;
        Some((link, scratch, session.number))
    })
}

/// Takes in filters that have come on a session's main link, and tells it what became of them.
pub(crate) fn install(number: usize, socket: &Fd, generation: u32, fds: &[Option<Fd>]) {
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    if let Some(session) = all.all.get_mut(number).filter(|session| session.is_in()) {
        session.wants.filters.take_in(generation, fds);
        let mut buffer = [0; 64 + mote_wire::WHY_MAX];
        let _ = handshake::settle(&mut session.wants, &mut all.common, |news| {
            let bytes = news.encode(&mut buffer).ok_or(Errno(libc::EMSGSIZE))?;
            // A session that does not listen will not be told.
            mote_sys::socket::send(socket.raw(), bytes, &[], mote_sys::socket::Wait::No)
        });
    }
    drop(guard);
}

/// Goes over to other rings that have come on a session's main link, and to the maps that go with them, and tells it.
pub(crate) fn renew(number: usize, socket: &Fd, geometry: Geometry, fds: &[Option<Fd>]) {
    let mut guard = hold::control();
    let session = sessions(&mut guard).all.get_mut(number).filter(|session| session.is_in());
    let mut fds = fds.iter().flatten();
    if let (Some(session), Some(memfd)) = (session, fds.next())
        && session.renew(geometry, memfd, fds.next()).is_ok()
    {
        let mut buffer = [0; 16];
        let bytes = Message::Renewed.encode(&mut buffer).unwrap_or(&[]);
        // A session that does not listen will not be told.
        let _ = mote_sys::socket::send(socket.raw(), bytes, &[], mote_sys::socket::Wait::No);
    }
    drop(guard);
}

/// Takes in memory to be shared with the kernel's programs.
pub(crate) fn cooperate(number: usize, slots: u32, fds: &[Option<Fd>]) {
    let mut guard = hold::control();
    sessions(&mut guard).common.take_area(number, slots, fds);
    drop(guard);
}

/// Frees what no thread uses any more, lets events go to one session directly again, and patches what could not be
/// patched before. Returns whether something is still to be waited for.
pub(crate) fn tidy() -> bool {
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    if all.common.settles() {
        switch::settle(&mut all.common);
    }
    let left = all.tidy();
    drop(guard);
    left
}

/// Patches sites as they are wanted. Returns whether some could not be for now: [`tidy`] tries again.
pub(crate) fn switch(control: &mut Control, sites: &mut dyn Iterator<Item = Site>) -> bool {
    sessions(control).common.switch(sites)
}

/// Leaves a session: it has ended. Returns whether the process is in others.
pub(crate) fn leave(number: usize) -> bool {
    let mut guard = hold::control();
    sessions(&mut guard).leave(number);
    drop(guard);
    is_joined()
}

/// When the last session was left: frees what can be freed, and switches off what could not be before. A process that
/// is in a session again goes on with both there.
pub(crate) fn farewell() {
    let (first_pause, pauses) = FAREWELL;
    for doublings in 0..pauses {
        if !tidy() || is_joined() || leaving::is_last(1) {
            break;
        }
        let _ = time::sleep(first_pause << doublings);
    }
}

/// In a child of fork, which is in all its parent's sessions: says hello to them, and leaves those that are there no
/// more.
pub(crate) fn after_fork() -> Links {
    note_process();
    // Its name it gets when there are rings for it; until then it is not to be taken for its parent's thread.
    thread::set_id(process::tid() as u32);
    watch_clock();
    speculation::forget();
    part_from_parent();
    forget_asked();
    let mut links = Links::default();
    (0..SESSIONS_MAX).for_each(|number| say_hello_again(number, &mut links));
    // In the rings that are the child's by now.
    channel::introduce_thread();
    links
}

/// In a child of fork: memory that is its parent's alone it has no more. What it had there itself it gets again with
/// what is its own.
fn part_from_parent() {
    let mut guard = hold::control();
    let is_parents = |session: &Session| session.wants.channel.is_some_and(Channel::is_own);
    let all = sessions(&mut guard);
    let cooperating = all.common.cooperating;
    cooperate::after_fork(cooperating.and_then(|number| all.all.get(number)).is_some_and(is_parents));
    for session in all.all.iter().filter(|session| is_parents(session)) {
        counts::part(session.number);
        // When it cannot be done it stays shared, as the channel does.
        let _ = session.wants.filters.forsake();
    }
    drop(guard);
}

/// In a child of fork: its parent's links are not its own, and what is awaited on them neither.
fn forget_asked() {
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    all.waiting.after_fork();
    all.all.iter_mut().filter(|session| !session.is_in()).for_each(|session| session.place = None);
    drop(guard);
}

/// As [`find_lost`], on our thread, which has a descriptor table of its own, if the child had no descriptor left.
pub(crate) fn find_at_once(links: &mut Links) {
    if CRAMPED.swap(false, Ordering::Relaxed) {
        find_lost(links);
    }
}

/// Whether a session is still to be found.
pub(crate) fn has_lost(links: &Links) -> bool {
    let joined = JOINED.load(Ordering::Acquire);
    (0..SESSIONS_MAX).any(|number| joined & 1 << number != 0 && !links.has(number))
}

/// Says hello for a child of fork to those of its sessions that did not listen.
pub(crate) fn find_lost(links: &mut Links) {
    let joined = JOINED.load(Ordering::Acquire);
    for number in 0..SESSIONS_MAX {
        if joined & 1 << number != 0 && !links.has(number) {
            say_hello_again(number, links);
        }
    }
}

fn say_hello_again(number: usize, links: &mut Links) {
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    let session = all.all.get(number).filter(|session| session.is_in());
    match session.and_then(|session| {
        Some(hello_again(&session.place?, session.wants.channel?, &session.wants.filters))
    }) {
        Some(Ok(link)) => {
            links.put(link);
            let apart = |session: &&Session| session.wants.channel.is_some_and(Channel::is_own);
            all.all.get(number).filter(apart).into_iter().for_each(|one| counts::fetch(|| reconnect_to(one)));
        }
        // It does not listen now; the events go on.
        Some(Err(Errno(libc::ETIMEDOUT))) | None => {}
        // Its own descriptors are all taken; those of our thread are not.
        Some(Err(Errno(libc::EMFILE))) => CRAMPED.store(true, Ordering::Relaxed),
        // No thread will ever switch the events off.
        Some(Err(_)) => all.leave(number),
    }
    drop(guard);
}

/// Says hello for a child of fork, which gets rings of its own if its parent had such.
fn hello_again(place: &Place, channel: &Channel, filters: &Filters) -> Result<Link> {
    if !channel.is_own() {
        return Link::open(place, How::Fork, channel.session);
    }
    let link = Link::open(place, How::Apart, channel.session)?;
    handshake::fresh_rings(&link, channel, filters)?;
    // Of a child that was not answered at fork others may have begun.
    names::introduce_all(channel);
    Ok(link)
}
