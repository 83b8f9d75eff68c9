//! The proof: records a program for real and reads back what it emitted.

use super::finding::Finding;
use mote_timeline::{Entry, Range, Trace};
use mote_words::counted;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How many events the recorded program emits.
pub const EMITTED: u64 = 10_000;
/// Their name; field `number` counts from 0.
pub const PROOF_EVENT: &str = "doctor:proof";

const PATIENCE: Duration = Duration::from_secs(20);
const WHAT: &str = "an event, end to end";

/// Runs `MOTE record -o DIR -- MOTE VERB EMITTED`, and checks that each event of [`PROOF_EVENT`] was read back once and
/// in order.
///
/// # Cost
/// Two processes, and a directory in the temporary directory that is removed again.
pub fn proof(mote: &Path, verb: &str) -> Finding {
    let start = Instant::now();
    match try_proof(mote, verb) {
        Ok(()) => {
            let found =
                format!("{EMITTED} emitted, {EMITTED} read back, in {} ms", start.elapsed().as_millis());
            Finding::ok(WHAT, found)
        }
        Err(why) => Finding::fail(
            WHAT,
            why,
            "look at the lines above that are not ok, and at what `mote record -- COMMAND` says",
        ),
    }
}

/// The system call by which it is proved that kernel events arrive: what the proof's program does at its very start.
const PROOF_CALL: &str = "syscall_entry_execve";

/// Runs `MOTE record -k ... -- MOTE VERB 1`, and checks that the kernel's event of the program's start was read back,
/// before the program's own. To be asked where kernel events may be recorded.
///
/// # Cost
/// As [`proof`].
pub fn kernel_proof(mote: &Path, verb: &str) -> Finding {
    const WHAT: &str = "a kernel event, end to end";
    if mote_kernel::privilege::check().is_some() {
        return Finding::warn(WHAT, "not tried", "run mote doctor as root, or with CAP_BPF and CAP_PERFMON");
    }
    let start = Instant::now();
    match try_kernel_proof(mote, verb) {
        Ok(()) => {
            let found =
                format!("the program's start, then its own event, in {} ms", start.elapsed().as_millis());
            Finding::ok(WHAT, found)
        }
        Err(why) => Finding::warn(
            WHAT,
            why,
            "look at the lines above, and at what `mote record -k syscalls -- COMMAND` says",
        ),
    }
}

fn try_kernel_proof(mote: &Path, verb: &str) -> Result<(), String> {
    let dir = recorded(mote, &["-k", PROOF_CALL], &[verb, "1"])?;
    let trace = open(dir.path())?;
    let mut events = trace.events(Range::ALL);
    let mut names = Vec::new();
    while let Some(entry) = events.next() {
        if let Entry::Event(record) = entry {
            names.push(record.name().to_owned());
        }
    }
    let at = |name: &str| names.iter().position(|one| one == name);
    match (at(PROOF_CALL), at(PROOF_EVENT)) {
        (Some(start), Some(own)) if start < own => Ok(()),
        (Some(_), Some(_)) => {
            Err("the program's start was read after its own event: the clocks disagree".to_owned())
        }
        (None, _) => Err("the event of the program's start was not recorded".to_owned()),
        (_, None) => Err("the program's own event was not recorded".to_owned()),
    }
}

/// Records `MOTE WORDS` with these options, into a directory that goes with the answer.
fn recorded(mote: &Path, options: &[&str], words: &[&str]) -> Result<tempfile::TempDir, String> {
    let dir = tempfile::Builder::new().prefix("mote-doctor-").tempdir();
    let dir = dir.map_err(|error| format!("no temporary directory: {error}"))?;
    let mut command = Command::new(mote);
    command.arg("record").args(options).arg("-o").arg(dir.path()).arg("--").arg(mote).args(words);
    let (status, said) = run(command)?;
    if !status.success() {
        let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned();
        return Err(format!("mote record ended with {status}: {said}"));
    }
    Ok(dir)
}

fn open(dir: &Path) -> Result<Trace, String> {
    Trace::open(dir).map_err(|error| format!("the trace cannot be read: {error}"))
}

/// Why it failed, in words for a person.
fn try_proof(mote: &Path, verb: &str) -> Result<(), String> {
    let dir = recorded(mote, &[], &[verb, &EMITTED.to_string()])?;
    let (numbers, problems) = read_back(dir.path())?;
    check(&numbers)?;
    if problems > 0 {
        return Err(format!(
            "all events were read back, but the trace has {}",
            counted(problems, "problem", "problems")
        ));
    }
    Ok(())
}

/// Runs the command with a limit of time; returns what it wrote to its standard error.
fn run(mut command: Command) -> Result<(ExitStatus, String), String> {
    let failed = |error| format!("cannot run mote record: {error}");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let said = child.stderr.take().map(|mut from| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("mote record did not end within {} s", PATIENCE.as_secs()));
            }
        }
    };
    let said = said.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Ok((status, said))
}

/// The numbers of the events in the trace, in their order, and how many problems there were.
fn read_back(dir: &Path) -> Result<(Vec<u64>, usize), String> {
    let trace = open(dir)?;
    let mut events = trace.events(Range::ALL);
    let mut numbers = Vec::new();
    while let Some(entry) = events.next() {
        match entry {
            Entry::Event(record) if record.name() == PROOF_EVENT => {
                let event = record.event().ok_or("an event cannot be decoded")?;
                let number = event.payload().integer("number").and_then(|number| u64::try_from(number).ok());
                numbers.push(number.ok_or("an event lacks the field that it was emitted with")?);
            }
            Entry::Event(_) => {}
            Entry::Loss(loss) => {
                return Err(format!("{} lost", counted(loss.loss.events, "event was", "events were")));
            }
        }
    }
    let problems = events.problems().list().len() + trace.problems().list().len();
    Ok((numbers, problems))
}

/// Each number once, in order.
fn check(numbers: &[u64]) -> Result<(), String> {
    if let Some((expected, found)) = (0..).zip(numbers).find(|(expected, found)| expected != *found) {
        return Err(format!("event {found} was read where event {expected} should be"));
    }
    match numbers.len() as u64 {
        EMITTED => Ok(()),
        read => Err(format!("{EMITTED} events were emitted, {read} read back")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_numbers_in_order_are_a_proof() {
        let mut all: Vec<u64> = (0..EMITTED).collect();
        assert_eq!(check(&all), Ok(()));
        all.swap(3, 4);
        assert_eq!(check(&all), Err("event 4 was read where event 3 should be".to_owned()));
        assert!(check(&[]).is_err_and(|why| why.ends_with("0 read back")));
        assert!(check(&[0, 0]).is_err());
    }

    #[test]
    fn a_recorder_that_fails_is_quoted_and_one_that_is_missing_is_told() {
        let finding = proof(Path::new("/no/such/mote"), "x");
        assert_eq!(finding.verdict, super::super::Verdict::Fail);
        assert!(finding.found.contains("cannot run mote record"), "{finding:?}");
        let finding = proof(Path::new("/bin/false"), "x");
        assert!(finding.found.contains("said nothing"), "{finding:?}");
        let finding = proof(Path::new("/bin/true"), "x");
        assert!(finding.found.contains("cannot be read"), "{finding:?}");
    }
}
