//! How often the functions of a file are entered when a program runs: by an emulator, which knows each instruction
//! (`mote pt synth`).

use super::command::{json, json_lines, mote, number, printed, text};
use super::programs;
use iced_x86::{Decoder, DecoderOptions};
use mote_symbol::{demangle, names};
use object::{Object, ObjectSegment};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of a run in `TID.runs`: the address of its first instruction, and how many there are.
const RUN_BYTES: usize = 12;
/// Most bytes of an instruction (Intel SDM, volume 2, 2.3.11).
const INSTRUCTION_MAX: u64 = 15;

/// A program, and what it runs with.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The program's file, and its arguments.
    pub(crate) words: Vec<String>,
    /// Its environment, all of it.
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Setting {
    /// `mote` with some words, then the program.
    fn under_mote(&self, words: &[&str]) -> Command {
        let mut command = Command::new(programs::mote());
        command.args(words).arg("--").args(&self.words).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// Runs it under `mote`; returns what that said. The program's output goes nowhere.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = self.under_mote(words).stdout(Stdio::null()).output().expect("mote runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{:?}: {said}", self.words);
        said
    }
}

/// What a function's event is called, without the file that tells it apart from others: as docs/functions.md says.
fn event_name(symbol: Option<&str>, address: u64) -> String {
    let plain = symbol.map_or("", names::plain);
    let name = match demangle(plain) {
        whole if *whole == *plain => plain.to_owned(),
        whole => names::without_generics(&names::bare(&whole)),
    };
    if name.is_empty() { format!("{address:#x}") } else { name.replace(' ', "_") }
}

/// A file with functions.
pub(crate) struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    /// What their events are called, by address.
    pub(crate) functions: BTreeMap<u64, String>,
}

impl File {
    fn open(path: &Path) -> File {
        let path = path.canonicalize().expect("a file");
        File { bytes: fs::read(&path).expect("a file"), functions: BTreeMap::new(), path }
    }

    fn with_functions(self) -> File {
        let list = mote(&["list", "--functions", text(&self.path), "--format", "json"]);
        let list = json(&printed(list));
        let one = |function: &serde_json::Value| {
            let address = number(&function["address"]);
            (address, event_name(function["symbol"].as_str(), address))
        };
        let functions = list["objects"][0]["functions"].as_array().expect("functions").iter();
        File { functions: functions.map(one).collect(), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).expect("a name")
    }

    fn elf(&self) -> object::File<'_> {
        object::File::parse(&*self.bytes).expect("an ELF file")
    }

    /// The lowest address of the file's image, as whole pages.
    fn lowest(&self) -> u64 {
        self.elf().segments().map(|segment| segment.address()).min().expect("segments") & !0xfff
    }

    /// The functions that begin in a run of so many instructions.
    fn entered(&self, start: u64, count: u32) -> Vec<u64> {
        let most = start.saturating_add(u64::from(count) * INSTRUCTION_MAX);
        let begins: Vec<u64> = self.functions.range(start..most).map(|(address, _)| *address).collect();
        // Mostly there is none but the one at the run's begin.
        if begins.iter().all(|begin| *begin == start) {
            return begins;
        }
        let elf = self.elf();
        let holds = |segment: &object::Segment<'_, '_>| {
            segment.address() <= start && start < segment.address() + segment.size()
        };
        let segment = elf.segments().find(holds).expect("code is in a segment");
        let code = segment.data().ok().and_then(|data| data.get((start - segment.address()) as usize..));
        let mut decoder = Decoder::with_ip(64, code.expect("code"), start, DecoderOptions::NONE);
        let executed: Vec<u64> = (0..count).map(|_| decoder.decode().ip()).collect();
        begins.into_iter().filter(|begin| executed.binary_search(begin).is_ok()).collect()
    }
}

/// What a program has executed in an emulated run, from its first instruction on: what the dynamic linker calls before
/// is not in it.
pub(crate) struct Emulated {
    /// The files that it had mapped, and where.
    images: BTreeMap<PathBuf, u64>,
    /// How often runs of so many instructions began at an address.
    runs: HashMap<(u64, u32), u64>,
}

impl Emulated {
    /// Runs a program of one thread.
    pub(crate) fn run(setting: &Setting, folder: &Path) -> Emulated {
        let capture = folder.join("capture");
        setting.run(&["pt", "synth", "--runs", "-o", text(&capture)]);
        let notes = fs::read_to_string(capture.join("sideband.jsonl")).expect("notes");
        let image = |note: serde_json::Value| {
            let start = note["start"].as_str().expect("an address").trim_start_matches("0x");
            let path = note["path"].as_str().expect("a path");
            (path.into(), u64::from_str_radix(start, 16).expect("an address"))
        };
        let is_image = |note: &serde_json::Value| note["kind"] == "image" && note["offset"] == 0;
        let images = json_lines(&notes).filter(is_image).map(image).collect();
        let mut emulated = Emulated { images, runs: HashMap::new() };
        let program = File::open(Path::new(&setting.words[0]));
        let begin = emulated.shift(&program) + program.elf().entry();
        let files = fs::read_dir(&capture).expect("a capture").map(|entry| entry.expect("a file").path());
        let is_runs = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "runs");
        let [runs] = &files.filter(is_runs).collect::<Vec<_>>()[..] else {
            panic!("a program of one thread")
        };
        emulated.read(runs, begin);
        fs::remove_dir_all(&capture).expect("it was there");
        emulated
    }

    /// Reads what was executed from the address `begin` on.
    fn read(&mut self, runs: &Path, begin: u64) {
        let mut from = BufReader::with_capacity(1 << 20, fs::File::open(runs).expect("runs"));
        let (mut run, mut has_begun) = ([0; RUN_BYTES], false);
        while from.read_exact(&mut run).is_ok() {
            let (start, count) = run.split_at(size_of::<u64>());
            let start = u64::from_le_bytes(start.try_into().expect("8 bytes"));
            let count = u32::from_le_bytes(count.try_into().expect("4 bytes"));
            has_begun |= start == begin;
            if has_begun {
                *self.runs.entry((start, count)).or_default() += 1;
            }
        }
    }

    /// The mapped file whose name begins like this.
    pub(crate) fn file(&self, begin: &str) -> File {
        let is =
            |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
        let path = self.images.keys().find(is);
        File::open(path.unwrap_or_else(|| panic!("no {begin} among {:?}", self.images))).with_functions()
    }

    /// From a file's addresses to the process's.
    fn shift(&self, file: &File) -> u64 {
        self.images.get(&file.path).expect("it is mapped") - file.lowest()
    }

    /// How often each function of a file was entered; those that never were are not there.
    pub(crate) fn entries(&self, file: &File) -> BTreeMap<u64, u64> {
        let shift = self.shift(file);
        let mut entries = BTreeMap::new();
        for ((start, count), times) in &self.runs {
            for address in file.entered(start.wrapping_sub(shift), *count) {
                *entries.entry(address).or_default() += times;
            }
        }
        entries
    }
}
