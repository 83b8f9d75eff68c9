//! How a recording gets a process that runs already: another recording that the process is in asks it to join ours,
//! too.
//!
//! We find that recorder by its socket, and send it our place and our mailbox; it passes both on to the process, whose
//! agent's thread then says hello to us as any process does. From then on nothing of ours depends on the other
//! recording. It only keeps in mind that the process's children, and programs that take its place, are to join us, too
//! (`Forward`). A process that is in no recording is asked by itself: a thread of it is sent to where it joins
//! (`inject`).

use crate::control::{self, Answer, Request};
use crate::registration::sockets;
use mote_sys::fd::Fd;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long other recorders have to answer an invitation, all together.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks recorders at the same time whether one of them passes our invitation on: `None` when one does, else what they
/// have said. One that says nothing in [`PATIENCE`] is asked no more: it may be about to end, or ask us. Only `wanted`
/// users' recorders are asked, and given the mailbox: nobody else has a process of this user.
pub(crate) fn ask_all(
    sockets: Vec<PathBuf>,
    request: &Request,
    wanted: impl Fn(u32) -> bool + Copy + Send + 'static,
    mailbox: &Fd,
) -> Option<Vec<String>> {
    let (tell, hear) = channel();
    for socket in sockets {
        let (tell, request) = (tell.clone(), request.clone());
        let Ok(mailbox) = mote_sys::fd::duplicate(mailbox) else { continue };
        let ask = move || drop(tell.send(control::ask_at(&socket, &request, wanted, Some(&mailbox))));
        // Without a thread it is not asked.
        let _ = std::thread::Builder::new().name("mote-invite".to_owned()).spawn(ask);
    }
    drop(tell);
    let until = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    while let Ok(answer) = hear.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match answer {
            Ok(Answer { done: true, .. }) => return None,
            Ok(Answer { text, .. }) if !text.is_empty() => said.push(text),
            // It has no such process; it has ended meanwhile; it is somebody else's, and was not asked.
            Ok(_) | Err(_) => {}
        }
    }
    Some(said)
}

/// The sockets of recorders that may have the process: those that its environment names, then all others that we can
/// see.
pub(crate) fn recorders(pid: i32) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = named_in_environment(pid).collect();
    found.extend(sockets::bases().flat_map(|base| sockets::all_below(&base)));
    let mut seen = HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    found
}

fn named_in_environment(pid: i32) -> impl Iterator<Item = PathBuf> {
    let text = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let name = format!("{}=", mote_wire::ENVIRONMENT);
    let variables =
        text.split(|byte| *byte == 0).filter_map(|variable| variable.strip_prefix(name.as_bytes()));
    let values: Vec<String> = variables.map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    values.into_iter().flat_map(|value| {
        let places = value.split(mote_wire::PLACES_APART).map(str::to_owned).collect::<Vec<_>>();
        places.into_iter().filter_map(|place| {
            let socket = place.splitn(4, ',').nth(3).map(PathBuf::from)?;
            Some(socket.parent().unwrap_or(Path::new("/")).join(control::NAME))
        })
    })
}
