//! What a capture knows besides its packets: the file `sideband.jsonl`.
//!
//! The first line is the [`Head`], each other one a [`Note`], in the order in which they were taken. Members that a
//! reader does not know are of later versions, and it leaves them out. Addresses and times are strings with hexadecimal
//! numbers (`"0x7f.."`): they may have more than 53 bits.

use crate::hex;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Head {
    /// The processor.
    Processor(Processor),
}

/// The processor whose packets these are, and how they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// The crystal clock (ART), in Hz: CPUID.15H, ECX; 0 where it is not known.
    #[serde(default)]
    pub art_hz: u64,
    /// TSC ticks per crystal clock tick, as numerator and denominator: CPUID.15H, EBX and EAX.
    #[serde(default)]
    pub tsc_per_art: (u32, u32),
    /// CBR at the begin: the core's clock, in 100 MHz; 0 where it is not known.
    #[serde(default)]
    pub core_ratio: u8,
    /// MTCFreq, where there are MTC packets.
    #[serde(default)]
    pub mtc: Option<u8>,
    /// The threshold in cycles, where there are CYC packets.
    #[serde(default)]
    pub cyc: Option<u64>,
    /// There are TSC packets.
    #[serde(default)]
    pub tsc: bool,
    /// Returns may be compressed (DisRETC is clear).
    #[serde(default)]
    pub return_compression: bool,
    /// The time stamp counter's frequency in Hz, where the crystal clock does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tsc_hz: Option<u64>,
    /// How the time stamp counter is the kernel's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// Which addresses were traced, as the kernel writes it (`filter 0x1139/0x40@/bin/app`); all, where it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// There are no packets of branches (BranchEn is clear): no code can be followed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_branches: bool,
    /// Only the last packets are there: memory was written over, and they end where that was stopped, perhaps in the
    /// middle of one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_packets: bool,
    /// Family, model and stepping of CPUID.1, for errata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<[u32; 3]>,
}

/// How the time stamp counter is nanoseconds of a clock of the kernel: `zero + (tsc * mult >> shift)`, in 128 bits
/// (perf_event_open(2), `cap_user_time_zero`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `time_zero`.
    pub zero: u64,
    /// `time_mult`.
    pub mult: u32,
    /// `time_shift`.
    pub shift: u16,
}

/// The process that the kernel's notes are of.
pub const KERNEL: i32 = -1;

/// Something about a process, at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The process; [`KERNEL`] where it is the kernel.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The processor, where it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// How many instructions the thread (or the processor, where that is the stream) had executed before, where that is
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// The time stamp counter then, where that is known: of synthesized packets the thread's own.
    #[serde(default, with = "hex::number_if_any", skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// The fact that is noted.
    #[serde(flatten)]
    pub what: What,
}

/// What a note says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// The thread begins.
    Thread {
        /// Its name (`comm`).
        name: String,
    },
    /// The process is another program from here on; what was mapped is gone.
    Exec {
        /// The program.
        path: PathBuf,
    },
    /// Code of a file is mapped; it takes the place of what was there.
    Image(Image),
    /// Code of no file, as it is from here on.
    Code {
        /// The address of the first byte.
        #[serde(with = "hex::number")]
        start: u64,
        /// Its bytes.
        #[serde(with = "hex::bytes")]
        code: Vec<u8>,
        /// The time stamp counter when it was another code there: it has changed at any time since. Nothing where the
        /// note's own time is that of the change.
        #[serde(default, with = "hex::number_if_any", skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
    },
    /// A function that no file names begins there.
    Symbol {
        /// The address of the first byte.
        #[serde(with = "hex::number")]
        start: u64,
        /// How many bytes; 0 where that is not known.
        bytes: u64,
        /// Its name.
        name: String,
    },
    /// The thread runs on the processor from here on.
    Switch,
    /// The address space of the process, as PIP packets name it.
    AddressSpace {
        /// CR3, with its low 12 bits as 0.
        #[serde(with = "hex::number")]
        cr3: u64,
    },
    /// The kernel's clocks at the time of the note.
    Clock {
        /// CLOCK_MONOTONIC, in nanoseconds.
        monotonic_ns: u64,
        /// CLOCK_REALTIME, in nanoseconds since 1970.
        realtime_ns: u64,
        /// How far apart the readings may be, in nanoseconds.
        error_ns: u64,
    },
    /// Something was lost that should be in the capture.
    Lost {
        /// What, and why.
        why: String,
    },
    /// The process has ended.
    Exit {
        /// Its exit status; below 0 the signal that has ended it; nothing where it is not known.
        status: Option<i32>,
    },
    /// Of a later version.
    #[serde(other)]
    Other,
}

/// Code of a file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The address of the first byte.
    #[serde(with = "hex::number")]
    pub start: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The file; one of the capture's own where its path does not begin at the root.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// Its build id, in hexadecimal digits; nothing where it has none, or is not known.
    pub build_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Result<What, &str>) {
        let note = serde_json::from_str::<Note>(line);
        match (note, expect) {
            (Ok(note), Ok(what)) => {
                let Note { pid, tid, instructions, time, .. } = note;
                assert_eq!((pid, tid, instructions, time), (7, 8, Some(9), Some(1 << 60)));
                assert_eq!(note.what, what);
                let line = serde_json::to_string(&note).expect("a line");
                assert!(!line.contains('\n'));
                assert_eq!(serde_json::from_str::<Note>(&line).expect("a note"), note);
            }
            (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{why}"),
            (note, expect) => panic!("{note:?} is not {expect:?}"),
        }
    }

    #[test]
    fn lines_are_notes() {
        let moment = r#""pid":7,"tid":8,"instructions":9,"time":"0x1000000000000000""#;
        let line = |rest: &str| format!("{{{moment},{rest}}}");
        let code = |since| What::Code { start: 0x7fff_0000_1000, code: vec![0x0f, 5], since };
        let line_of_code = r#""kind":"code","start":"0x7fff00001000","code":"0f05""#;
        check(&line(line_of_code), Ok(code(None)));
        check(&line(&format!("{line_of_code},\"since\":\"0x20\"")), Ok(code(Some(0x20))));
        check(&line(r#""kind":"thread","name":"main""#), Ok(What::Thread { name: "main".to_owned() }));
        check(&line(r#""kind":"exit","status":null"#), Ok(What::Exit { status: None }));
        check(&line(r#""kind":"switch","cpu":3"#), Ok(What::Switch));
        check(&line(r#""kind":"address_space","cr3":"0x1000""#), Ok(What::AddressSpace { cr3: 0x1000 }));
        check(&line(r#""kind":"sleep""#), Ok(What::Other));
        check(&line(r#""kind":"code","start":"12","code":"0f05""#), Err("`12` is no hexadecimal number"));
        check(&line(r#""kind":"code","start":"0x12","code":"0f0""#), Err("two digits for each byte"));
        check("{}", Err("missing field"));
    }

    #[test]
    fn moments_may_be_unknown() {
        let note: Note =
            serde_json::from_str(r#"{"pid":7,"tid":8,"kind":"switch","cpu":1}"#).expect("a note");
        assert_eq!((note.cpu, note.instructions, note.time), (Some(1), None, None));
        assert_eq!(
            serde_json::to_string(&note).expect("a line"),
            r#"{"pid":7,"tid":8,"cpu":1,"kind":"switch"}"#
        );
    }

    #[test]
    fn the_first_line_is_the_processor() {
        let line = r#"{"kind":"processor","art_hz":24000000,"tsc_per_art":[100,1],"mtc":3,"later":1}"#;
        let head: Head = serde_json::from_str(line).expect("a processor");
        let expect =
            Processor { art_hz: 24_000_000, tsc_per_art: (100, 1), mtc: Some(3), ..Processor::default() };
        assert_eq!(head, Head::Processor(expect));
        let written = serde_json::to_string(&head).expect("a line");
        assert!(written.starts_with(r#"{"kind":"processor","#), "{written}");
        assert!(serde_json::from_str::<Head>(r#"{"kind":"thread","name":"x"}"#).is_err());
    }
}
