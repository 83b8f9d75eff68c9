//! What is known before a recording begins: sizes of rings, and what the session is.

use crate::error::Error;
use crate::options::{self, KernelOptions, Options, ProfileOptions};
use crate::output::metadata::{Domain, Frame};
use mote_clock::{Sample, Source};
use mote_filter::Rule;
use mote_journal::Session;
use mote_ring::{Clock, Geometry, Mode};
use mote_session::rules::rule_text;
use nix::sys::resource::{Resource, getrlimit};

/// Ticks in a second of `CLOCK_MONOTONIC`.
const NANOSECONDS: u64 = 1_000_000_000;

/// Sizes of the rings of processes, and for how many CPUs their memory is taken at once: those that are online.
///
/// # Errors
/// [`Error::Memory`] when there is too little.
pub(crate) fn rings(options: &Options, source: Source) -> Result<(Geometry, u32), Error> {
    let cpus = options::cpus();
    let geometry = Geometry {
        cpus,
        shared: cpus.min(16),
        sub_bits: options.buffers.sub_bits,
        count_bits: options.buffers.count_bits,
        mode: options.mode,
        clock: if source == Source::Tsc { Clock::Tsc } else { Clock::Monotonic },
    };
    let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32).max(online_cpus());
    let online = online.min(cpus);
    let bytes = geometry.ring_bytes() * u64::from(online);
    if mote_memory::available().is_some_and(|available| bytes > available / 4 * 3) {
        return Err(Error::Memory { bytes, why: mote_sys::Errno(libc::ENOMEM) });
    }
    Ok((geometry, online))
}

/// The same options, with stacks of which some fit into a sub-buffer.
pub(crate) fn with_room(options: &Options, rings: Geometry) -> Options {
    let most = u32::try_from(rings.sub_bytes() / 4).unwrap_or(u32::MAX);
    Options { stack: options.stack.min(most), ..options.clone() }
}

fn online_cpus() -> u32 {
    std::fs::read_dir("/sys/devices/system/cpu")
        .map(|entries| {
            let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
            let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
            entries.filter_map(name).filter(is_cpu).count() as u32
        })
        .unwrap_or(1)
}

/// What the metadata says besides the events.
pub(crate) fn frame(options: &Options, source: Source, first: &Sample) -> Frame {
    Frame {
        uuid: uuid(),
        host: host(),
        name: options.output.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        created: first.realtime_ns / 1_000_000_000,
        clock: source.name(),
        domain: Domain::Processes,
        has_stacks: options.stack > 0,
    }
}

/// The same for the trace of the kernel.
pub(crate) fn kernel_frame(frame: &Frame) -> Frame {
    let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Frame {
        uuid: uuid(),
        clock: Source::Monotonic.name(),
        domain: Domain::Kernel {
            release: line("/proc/sys/kernel/osrelease"),
            version: line("/proc/sys/kernel/version"),
        },
        // Each event says it for itself.
        has_stacks: false,
        ..frame.clone()
    }
}

/// A random UUID (RFC 9562, version 4), from the kernel.
fn uuid() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] << 4 | pair[1]) as u8;
    }
    uuid
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The journal's first line.
pub(crate) fn session(options: &Options, frame: &Frame, geometry: Geometry, frequency: u64) -> Session {
    Session {
        mode: if options.mode == Mode::Discard { "discard" } else { "overwrite" }.to_owned(),
        sub_bytes: geometry.sub_bytes(),
        sub_count: geometry.sub_count(),
        cpus: geometry.cpus,
        frequency,
        patterns: patterns(&options.rules, options),
        ..session_without_rings(options, frame)
    }
}

/// The same of the kernel's trace.
pub(crate) fn kernel_session(
    options: &Options,
    wanted: &KernelOptions,
    frame: &Frame,
    geometry: Geometry,
) -> Session {
    Session {
        cpus: options::cpus(),
        patterns: patterns(&wanted.rules, options),
        whole_system: wanted.all,
        ..session(options, frame, geometry, NANOSECONDS)
    }
}

/// The same of a trace of samples.
pub(crate) fn profile_session(options: &Options, wanted: &ProfileOptions, frame: &Frame) -> Session {
    Session {
        patterns: [format!("profile:profile_sample at {} Hz", wanted.frequency)]
            .into_iter()
            .chain(wanted.off_cpu.then(|| "profile:profile_off_cpu".to_owned()))
            .collect(),
        whole_system: wanted.all,
        ..session_without_rings(options, frame)
    }
}

/// The same of a trace of snapshots of packets.
pub(crate) fn packets_session(options: &Options, frame: &Frame) -> Session {
    Session { patterns: vec!["pt:pt_snapshot".to_owned()], ..session_without_rings(options, frame) }
}

/// The same of a trace without rings of ours, whose clock's ticks are nanoseconds.
fn session_without_rings(options: &Options, frame: &Frame) -> Session {
    Session {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uuid: frame.uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
        host: frame.host.clone(),
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        mode: "discard".to_owned(),
        sub_bytes: 0,
        sub_count: 0,
        cpus: options::cpus(),
        clock: frame.clock.to_owned(),
        frequency: NANOSECONDS,
        patterns: Vec::new(),
        whole_system: false,
    }
}

/// Patterns of events that were chosen, and of those left out.
fn patterns(rules: &[Rule], options: &Options) -> Vec<String> {
    let excluded = options.exclude.iter().map(|pattern| format!("!{pattern}"));
    rules.iter().map(rule_text).chain(excluded).collect()
}

/// How many files the recorder may have open.
pub(crate) fn descriptors() -> usize {
    /// Where no limit is known.
    const USUAL: u64 = 1024;
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(USUAL, |(soft, _)| soft);
    usize::try_from(limit).unwrap_or(usize::MAX)
}
