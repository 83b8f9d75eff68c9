//! Intel PT: what there is of it, and the proof that what is recorded of it can be followed.
//!
//! The proof takes the way of `mote pt record`: events, a directory, decoding. Where perf is installed it has to decode
//! the same instructions from the same packets. What has failed is packed into one file, for whoever can find out why.

use super::facts::number;
use super::finding::{Finding, Verdict};
use mote_capture::{Capture, Of, check, perf, threads};
use mote_pmu::device::Device;
use mote_pmu::{Machine, Options, Recorded, model, record};
use mote_pt::digest::Digest;
use mote_words::{counted, counted_grouped};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is recorded: some loops, programs and signals of a shell.
pub const PT_WORK: [&str; 3] =
    ["/bin/sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; /bin/true; (exit 3); kill -0 $$"];

/// Directory of the capture, and the file for perf, in the proof's own.
const CAPTURE: &str = "capture";
const PERF_DATA: &str = "perf.data";

/// Looks at what there is, as the kernel says it in `folder` (`mote_pmu::device::FOLDER`).
#[must_use]
pub fn pt(folder: &Path) -> (Option<Device>, Vec<Finding>) {
    const WHAT: &str = "Intel PT";
    let processor = model().unwrap_or_else(|| "not known".to_owned());
    let processor = Finding::ok("processor", processor.replace(',', " "));
    match Device::read(folder) {
        Err(why) => {
            let advice = "record on a machine that has it, or make packets with mote pt synth; files of perf record -e \
                          intel_pt// can be read here";
            (None, vec![processor, Finding::fail(WHAT, why.to_string(), advice), perf_is_there()])
        }
        Ok(device) => {
            let has: Vec<String> = device
                .caps()
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| format!("{name} {value:x}"))
                .collect();
            let there = Finding::ok(WHAT, format!("unit {}: {}", device.unit, has.join(", ")));
            let findings = vec![processor, there, rights(), perf_is_there()];
            (Some(device), findings)
        }
    }
}

fn rights() -> Finding {
    const WHAT: &str = "rights";
    match number("/proc/sys/kernel/perf_event_paranoid") {
        Some(level) if level > 2 => Finding::warn(
            WHAT,
            format!("perf_event_paranoid is {level}: only root may record"),
            "record as root, or: sysctl kernel.perf_event_paranoid=2",
        ),
        Some(level) => {
            Finding::ok(WHAT, format!("perf_event_paranoid is {level}: own processes may be recorded"))
        }
        None => Finding::warn(WHAT, "no perf_event_open(2)", "use a kernel with CONFIG_PERF_EVENTS"),
    }
}

fn perf_is_there() -> Finding {
    const WHAT: &str = "perf";
    match Command::new("perf").arg("--version").stderr(Stdio::null()).output() {
        Ok(done) if done.status.success() => {
            Finding::ok(WHAT, String::from_utf8_lossy(&done.stdout).trim().to_owned())
        }
        _ => Finding::warn(WHAT, "not installed: nothing to compare with", "apt-get install linux-perf"),
    }
}

/// Records a machine into a directory that is there and empty, follows what was recorded, and compares with perf.
/// `begun` starts the work when recording is on, and `goes_on` says whether it still runs.
///
/// # Cost
/// A second, and some more for perf.
pub fn pt_proof<M: Machine>(
    (machine, device, options): (M, &Device, &Options),
    folder: &Path,
    begun: impl FnOnce(),
    goes_on: impl FnMut(&M) -> bool,
) -> Vec<Finding> {
    const WHAT: &str = "recording";
    let capture = folder.join(CAPTURE);
    let made = fs::create_dir(&capture).map_err(|why| why.to_string());
    let recorded = made.and_then(|()| {
        record(machine, device, options, &capture, &[], begun, goes_on).map_err(|why| why.to_string())
    });
    let recorded = match recorded {
        Ok((recorded, _)) => recorded,
        Err(why) => return vec![Finding::fail(WHAT, why, "look at the lines above, and at mote pt record")],
    };
    let mut findings = vec![said(WHAT, &recorded)];
    match Capture::open(&capture) {
        Err(why) => findings.push(Finding::fail("decoding", why.to_string(), SEND)),
        Ok(capture) => {
            let ours = followed(&capture, &mut findings);
            findings.extend(compared(&capture, &folder.join(PERF_DATA), &ours));
        }
    }
    findings
}

const SEND: &str = "send the file that is named below to mote's issues";

fn said(what: &'static str, recorded: &Recorded) -> Finding {
    let summary = &recorded.summary;
    let bytes = counted_grouped(summary.bytes, "byte of packets", "bytes of packets");
    match (summary.bytes, summary.has_lost()) {
        (0, _) => Finding::fail(what, "no packets were written", SEND),
        (_, true) => {
            let advice = "the machine is busy, or memory is short: try again, or raise ulimit -l";
            Finding::warn(what, format!("{bytes}; some were lost: {summary:?}"), advice)
        }
        (_, false) => Finding::ok(what, format!("{bytes}, none lost")),
    }
}

/// Follows all streams; gives the digest of each.
fn followed(capture: &Capture, findings: &mut Vec<Finding>) -> BTreeMap<Of, Digest> {
    const WHAT: &str = "decoding";
    let mut digests = BTreeMap::new();
    let mut wrong = String::new();
    for stream in capture.streams() {
        let code = capture.code(stream);
        code.problems().iter().for_each(|problem| _ = write!(wrong, "{problem}; "));
        match check(&stream.bytes, &code, None, threads()) {
            Ok(found) => {
                if found.gap_count > 0 || found.damaged > 0 {
                    let gap = found.gaps.first().map_or_else(String::new, |gap| format!(", first {gap}"));
                    let _ = write!(
                        wrong,
                        "{}: {} gaps, {} bytes damaged{gap}; ",
                        stream.of, found.gap_count, found.damaged
                    );
                }
                digests.insert(stream.of, found.instructions);
            }
            Err(why) => _ = write!(wrong, "{}: {why}; ", stream.of),
        }
    }
    let count = digests.values().map(|digest| digest.count).sum();
    let all = counted_grouped(count, "instruction", "instructions");
    let streams = counted(digests.len() as u64, "stream", "streams");
    findings.push(if wrong.is_empty() && count > 0 {
        Finding::ok(WHAT, format!("{all} of {streams}, without a gap"))
    } else {
        Finding::fail(WHAT, format!("{all} of {streams}; {}", wrong.trim_end_matches("; ")), SEND)
    });
    digests
}

/// What perf makes of the same packets; nothing where it is not installed.
fn compared(capture: &Capture, path: &Path, ours: &BTreeMap<Of, Digest>) -> Option<Finding> {
    const WHAT: &str = "perf's decoding";
    if let Err(why) = perf::export(capture, path, &perf::code_beside(path)) {
        return Some(Finding::fail(WHAT, why.to_string(), SEND));
    }
    let theirs = theirs(path, ours.keys().any(|of| matches!(of, Of::Cpu(_))))?;
    let is_same = |(of, digest): (&Of, &Digest)| {
        theirs.get(of).is_some_and(|other| other == digest) || digest.count == 0
    };
    let different: Vec<String> =
        ours.iter().filter(|one| !is_same(*one)).map(|(of, _)| of.to_string()).collect();
    Some(if different.is_empty() {
        Finding::ok(WHAT, "the same instructions")
    } else {
        let counts = theirs.values().map(|digest| digest.count).sum();
        let theirs = counted_grouped(counts, "instruction", "instructions");
        Finding::fail(WHAT, format!("{theirs}; others than ours of {}", different.join(", ")), SEND)
    })
}

/// The instructions of each stream, as perf has them.
fn theirs(path: &Path, by_cpu: bool) -> Option<BTreeMap<Of, Digest>> {
    let fields = if by_cpu { "cpu,ip" } else { "tid,ip" };
    let mut perf = Command::new("perf");
    perf.args(["script", "--itrace=i0ns", "-F", fields, "-i"])
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = perf.spawn().ok()?;
    let mut digests = BTreeMap::<Of, Digest>::new();
    for line in BufReader::new(child.stdout.take()?).lines().map_while(Result::ok) {
        // ` 4711   401000`, `[003]   401000`
        let mut words = line.split_whitespace();
        let (Some(of), Some(ip)) = (words.next(), words.next()) else { continue };
        let of = match of.strip_prefix('[').and_then(|of| of.strip_suffix(']')) {
            Some(cpu) => cpu.parse().map(Of::Cpu),
            None => of.parse().map(Of::Thread),
        };
        if let (Ok(of), Ok(ip)) = (of, u64::from_str_radix(ip, 16)) {
            digests.entry(of).or_default().push(ip);
        }
    }
    child.wait().ok()?.success().then_some(digests)
}

/// Packs a proof that has failed, with what was found, into one file; nothing where it has not.
///
/// # Errors
/// It cannot be written, for a person.
pub fn pt_pack(folder: &Path, findings: &[Finding], to: &Path) -> Result<Option<PathBuf>, String> {
    if findings.iter().all(|finding| finding.verdict != Verdict::Fail) {
        return Ok(None);
    }
    let mut text = format!("mote {}\n", env!("CARGO_PKG_VERSION"));
    for file in ["/proc/sys/kernel/osrelease", "/proc/version"] {
        text.push_str(&fs::read_to_string(file).unwrap_or_default());
    }
    for finding in findings {
        let Finding { what, verdict, found, advice } = finding;
        let _ = writeln!(text, "{} {what}: {found} -> {advice}", verdict.name());
    }
    let failed = |why: std::io::Error| format!("cannot pack what has failed: {why}");
    fs::write(folder.join("doctor.txt"), text).map_err(failed)?;
    let tar =
        Command::new("tar").arg("-czf").arg(to).arg("-C").arg(folder).arg(".").output().map_err(failed)?;
    if tar.status.success() {
        return Ok(Some(to.to_owned()));
    }
    Err(format!("cannot pack what has failed: tar: {}", String::from_utf8_lossy(&tar.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_perfdata::record::{File as Which, Mmap, Mode, Task};
    use mote_perfdata::{Record, SampleId};
    use mote_pmu::simulated::{Simulated, Step};
    use mote_pmu::{Kept, Settings, Targets, TimeScale};
    use mote_pt::packet::ip::{Compression, Ip};
    use mote_pt::packet::{Encoder, Packet, Tnt};

    const TASK: Task = Task { pid: 7, tid: 7 };

    /// A loop of two instructions that is left by a system call, on CPU 0; `damage` is written before.
    fn steps(file: &Path, damage: &[u8]) -> Vec<Step> {
        let mut encoder = Encoder::new();
        let bits = 0b111110;
        for packet in [
            Packet::Psb,
            Packet::Tsc(1_000_000),
            Packet::PsbEnd,
            Packet::TipPge(Ip { compression: Compression::Full, bits: 0x1000 }),
            Packet::Tnt(Tnt { bits, count: 6, is_long: false }),
            Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 }),
        ] {
            let _ = encoder.push(packet).expect("a packet");
        }
        let id =
            |time| SampleId { task: Some(TASK), time: Some(time), id: Some(1), stream: None, cpu: Some(0) };
        let mmap = Mmap {
            task: TASK,
            mode: Mode::User,
            start: 0x1000,
            len: 0x1000,
            offset: 0,
            file: Which::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
            protection: 5,
            flags: 2,
            path: file.to_owned(),
        };
        let name = Record::Comm { task: TASK, is_exec: true, name: "loop".into() };
        vec![
            Step::Record(0, name, id(900_000)),
            Step::Record(0, Record::Mmap(mmap), id(900_001)),
            Step::Record(0, Record::ItraceStart(TASK), id(900_002)),
            Step::Packets(0, damage.to_vec()),
            Step::Packets(0, encoder.bytes().to_vec()),
            Step::Flags(0, 0),
        ]
    }

    /// What the proof finds of these, and the file that it packs.
    fn proof(damage: &[u8]) -> (Vec<Finding>, Option<u64>) {
        let folder = tempfile::tempdir().expect("a directory");
        let sysfs = folder.path().join("sysfs");
        fs::create_dir_all(sysfs.join("format")).expect("a directory");
        fs::write(sysfs.join("type"), "8").expect("a file");
        fs::write(sysfs.join("format/tsc"), "config:10").expect("a file");
        let (device, mut findings) = pt(&sysfs);
        let file = folder.path().join("code");
        // dec ecx; jne -4; syscall
        fs::write(&file, [0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x05]).expect("a file");
        let clock = TimeScale { shift: 0, mult: 1, zero: 0 };
        let machine = Simulated::new(8, clock, steps(&file, damage));
        let options = Options {
            settings: Settings::default(),
            targets: Targets::Command(7),
            cpus: vec![0],
            memory: 64 << 10,
            kept: Kept::All,
            filter: None,
            jit: false,
        };
        let device = device.expect("it is simulated");
        let work = folder.path().join("work");
        fs::create_dir(&work).expect("a directory");
        let goes_on = |machine: &Simulated| machine.left() > 0;
        findings.extend(pt_proof((machine, &device, &options), &work, || {}, goes_on));
        let packed = pt_pack(&work, &findings, &folder.path().join("packed.tar.gz")).expect("tar");
        (findings, packed.map(|path| fs::metadata(path).expect("a file").len()))
    }

    fn found<'f>(findings: &'f [Finding], what: &str) -> Option<&'f Finding> {
        findings.iter().find(|finding| finding.what == what)
    }

    #[test]
    fn a_simulated_machine_is_proved() {
        let (findings, packed) = proof(&[]);
        assert!(findings.iter().all(|finding| finding.verdict != Verdict::Fail), "{findings:?}");
        let decoding = found(&findings, "decoding").expect("it was tried");
        assert_eq!(decoding.found, "13 instructions of 1 stream, without a gap");
        match found(&findings, "perf's decoding") {
            Some(finding) => assert_eq!(finding.found, "the same instructions"),
            None => mote_skip::skip("perf is not installed"),
        }
        assert_eq!(packed, None);
    }

    #[test]
    fn what_fails_is_packed() {
        // Packets that lead into code that is not there, after a PSB of their own.
        let mut encoder = Encoder::new();
        let nowhere = Ip { compression: Compression::Full, bits: 0x7777_0000 };
        for packet in [Packet::Psb, Packet::PsbEnd, Packet::TipPge(nowhere)] {
            let _ = encoder.push(packet).expect("a packet");
        }
        let tnt = Packet::Tnt(Tnt { bits: 1, count: 1, is_long: false });
        let _ = encoder.push(tnt).expect("a packet");
        let (findings, packed) = proof(encoder.bytes());
        let decoding = found(&findings, "decoding").expect("it was tried");
        assert!(decoding.verdict == Verdict::Fail && decoding.found.contains("gap"), "{decoding:?}");
        assert!(packed.is_some_and(|bytes| bytes > 100));
    }

    #[test]
    fn a_machine_without_says_what_has_it() {
        let (device, findings) = pt(Path::new("/no/such/place"));
        assert!(device.is_none());
        let finding = found(&findings, "Intel PT").expect("it was looked for");
        assert!(
            finding.found.contains("Broadwell") && finding.advice.contains("mote pt synth"),
            "{finding:?}"
        );
    }
}
