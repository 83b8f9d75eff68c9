//! The folder that qemu's plugin writes to (`plugin.c` has the formats): what is whole is read, and removed.

use super::blocks::{Blocks, Forked};
use super::code::Code;
use super::walk::Walk;
use crate::error::{Error, cannot};
use crate::observer::{Note, Observer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What is read of it.
pub(super) struct Folder {
    path: PathBuf,
    name: String,
    /// Where code of no file comes from.
    code: Code,
    processes: BTreeMap<i32, Process>,
    threads: BTreeMap<(i32, i32), Thread>,
}

#[derive(Default)]
struct Process {
    blocks: Blocks,
    /// Bytes of its file that were taken.
    taken: u64,
}

struct Thread {
    walk: Walk,
    /// The part that is read next.
    next: u32,
}

impl Folder {
    /// `name` is that of the program.
    pub(super) fn new(path: PathBuf, name: String, code: Code) -> Folder {
        Folder { path, name, code, processes: BTreeMap::new(), threads: BTreeMap::new() }
    }

    /// Why the plugin has refused to go on, where it has.
    pub(super) fn refused(&self) -> Option<String> {
        std::fs::read_to_string(self.path.join("refused")).ok()
    }

    /// Reads the parts that are whole.
    pub(super) fn read(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        let parts = self.parts()?;
        for ((pid, tid), last) in parts {
            let next = self.thread(pid, tid, observer)?.next;
            for number in next..last {
                self.part(pid, tid, number, observer)?;
            }
        }
        Ok(())
    }

    /// Reads what is left: all processes have ended.
    pub(super) fn finish(
        &mut self,
        first: i32,
        status: Option<i32>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.read(observer)?;
        for ((pid, tid), last) in self.parts()? {
            self.thread(pid, tid, observer)?;
            self.part(pid, tid, last, observer)?;
        }
        for thread in self.threads.values_mut() {
            thread.walk.ends(observer)?;
        }
        for pid in self.processes.keys() {
            let status = status.filter(|_| *pid == first);
            observer.note(*pid, &Note::Exit { pid: *pid, status })?;
        }
        Ok(())
    }

    /// Processes that run, of those that have written. Another one may have got the number of one that has ended: the
    /// folder is in the words of ours.
    pub(super) fn processes(&self) -> Result<BTreeSet<i32>, Error> {
        let folder = self.path.as_os_str().as_bytes();
        let is_ours = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.windows(folder.len()).any(|part| part == folder)
        };
        Ok(self.parts()?.into_keys().map(|(pid, _)| pid).filter(is_ours).collect())
    }

    /// The threads that there are, and the last part of each.
    fn parts(&self) -> Result<BTreeMap<(i32, i32), u32>, Error> {
        let mut parts = BTreeMap::new();
        let entries = std::fs::read_dir(&self.path).map_err(cannot("read what qemu's plugin writes"))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let mut numbers = name.splitn(3, '.').map(str::parse::<i32>);
            if let (Some(Ok(pid)), Some(Ok(tid)), Some(Ok(number))) =
                (numbers.next(), numbers.next(), numbers.next())
            {
                let last = parts.entry((pid, tid)).or_insert(0);
                *last = (*last).max(number.max(0) as u32);
            }
        }
        Ok(parts)
    }

    fn thread(&mut self, pid: i32, tid: i32, observer: &mut dyn Observer) -> Result<&mut Thread, Error> {
        if !self.threads.contains_key(&(pid, tid)) {
            observer.note(tid, &Note::Thread { pid, name: self.name.clone() })?;
        }
        let begin = || Thread { walk: Walk::new(pid, tid, self.code), next: 0 };
        Ok(self.threads.entry((pid, tid)).or_insert_with(begin))
    }

    fn part(&mut self, pid: i32, tid: i32, number: u32, observer: &mut dyn Observer) -> Result<(), Error> {
        let path = self.path.join(format!("{pid}.{tid}.{number}"));
        let bytes = std::fs::read(&path).map_err(cannot("read what a thread has executed"))?;
        // Whatever is executed in it has been described before.
        self.describe(pid)?;
        let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let (Some(process), Some(thread)) = (self.processes.get_mut(&pid), self.threads.get_mut(&(pid, tid)))
        else {
            return Ok(());
        };
        thread.walk.take(&words, &mut process.blocks, observer)?;
        thread.next = number + 1;
        std::fs::remove_file(&path).map_err(cannot("remove what was read"))
    }

    /// Reads what has become known of a process's code since the last time.
    fn describe(&mut self, pid: i32) -> Result<(), Error> {
        let path = self.path.join(format!("{pid}.blocks"));
        let mut process = self.processes.remove(&pid).unwrap_or_default();
        let mut file = File::open(&path).map_err(cannot("read what is known of code"))?;
        file.seek(SeekFrom::Start(process.taken)).map_err(cannot("read what is known of code"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(cannot("read what is known of code"))?;
        let mut rest = bytes.as_slice();
        loop {
            let (taken, forked) = process.blocks.take(rest).map_err(wrong)?;
            process.taken += taken as u64;
            rest = rest.get(taken..).unwrap_or_default();
            let Some(forked) = forked else { break };
            process.blocks = self.inherited(forked)?;
        }
        self.processes.insert(pid, process);
        Ok(())
    }

    fn inherited(&mut self, Forked { parent, blocks }: Forked) -> Result<Blocks, Error> {
        self.describe(parent)?;
        Ok(self.processes.get(&parent).map(|parent| parent.blocks.fork(blocks)).unwrap_or_default())
    }
}

fn wrong(why: &'static str) -> Error {
    Error::Qemu(format!("cannot read what qemu's plugin has written: {why}"))
}
