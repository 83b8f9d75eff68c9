//! The engine **system**: a program runs under a kernel of its own, both under qemu-system with a plugin of ours, which
//! writes down the blocks that the processor executes, kernel and programs, from the program's begin (execve(2)
//! included) to its end.
//!
//! ```text
//! kernel (unpacked) ─┐               ┌─ pipe ─ Record ─┬─▶ Walk ─▶ facts of the processor
//! program, libraries ┴▶ qemu, plugin ┘                 └─▶ Spaces ─▶ notes: code, address spaces, threads
//! ```
//! The guest has no devices but a serial line, only the files that the program is known to need, no randomness of its
//! own, and no KASLR. With one processor, its time is that of its instructions (qemu's icount): the same program runs
//! the same way each time.
//!
//! Several processors take turns, each for some blocks, by the time of this machine. What they execute is in one order:
//! so is known what each of them knew of code that another one has changed, and each is told it by its own count. On
//! their clocks, one goes on where another one's turn has ended.
//!
//! # What is exact
//! The sequence of the processor's instructions, with interrupts, exceptions, system calls, switches of threads and
//! address spaces; code as it was when it was executed: static keys, and whatever else the kernel patches in itself.
//!
//! # What is not
//! - qemu takes interrupts at ends of its blocks only. Where a block's branch leads to its own middle, and the
//!   instruction before that place reaches a device, it is not told apart that the block was not executed to its end.
//! - A conditional jump to the next instruction counts as not taken.
//! - 64-bit code only.
//! - The simulated clock counts instructions: it stands still while all processors wait (HLT).
//! - Where a processor is in the middle of straight code that another one changes, some of it before and some behind
//!   the change, readers know it only as it was before.
//! - The program has no standard input. Its output, also the error output, goes by a pipe to the guest's first process,
//!   which gives it to us.
//! - It is known when a process becomes another program, but not by which path: the guest's file of that name is noted.
//!
//! It was made for version 7.2; the plugin looks whether it finds registers where that has them, and refuses otherwise.

mod archive;
mod contents;
mod kernel;
mod launch;
mod record;
mod spaces;
mod walk;

#[cfg(test)]
mod tests;

use crate::block::Block;
use crate::error::{Error, cannot};
use crate::observer::{Image, Note, Observer};
use crate::stop::Stopper;
use contents::Part;
use kernel::Symbols;
use launch::Launched;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use record::{NoRecord, Record};
use spaces::{KERNEL, Spaces};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use walk::Walk;

/// The file with the kernel's code, in the folder of the trace.
const KERNEL_FILE: &str = "kernel";
/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;
/// Processors at most: what the plugin takes.
pub const CPUS_MAX: u32 = 64;

/// What the guest has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its kernel, packed (bzImage) or not (vmlinux); otherwise the newest of `/boot`.
    pub kernel: Option<PathBuf>,
    /// What is added to the kernel's command line.
    pub append: String,
    /// Files and folders that the guest has under the same paths, besides the program, its libraries, and files that
    /// its words name.
    pub files: Vec<PathBuf>,
    /// Where the file with the kernel's code is made: the folder of the trace.
    pub folder: PathBuf,
    /// Processors; one, where it is 0.
    pub cpus: u32,
}

impl Guest {
    fn cpus(&self) -> usize {
        self.cpus.clamp(1, CPUS_MAX) as usize
    }
}

/// Whether there is what the engine needs: qemu-system-x86_64, a C compiler, a kernel.
///
/// # Errors
/// What is missing, and how it comes to be there.
pub fn check(guest: &Guest) -> Result<(), Error> {
    kernel::find(guest.kernel.as_deref())?;
    launch::check()
}

/// Runs a program, named by its first word, to its end, and that of its children. Facts are those of processors, which
/// are numbered from 0 on.
/// Returns its exit status, or the signal's number below 0.
///
/// # Errors
/// [`Error`]: there is no qemu or no kernel, or the guest does not come to its end.
pub fn run(words: &[OsString], guest: &Guest, observer: &mut dyn Observer) -> Result<i32, Error> {
    let (mut launched, code) = launch::launch(words, guest)?;
    let mut watch = Watch::new(Spaces::new(code, guest.cpus()), guest);
    let done = watch.follow(&mut launched, observer);
    launched.end();
    done
}

/// What was heard of a guest.
struct Watch<'g> {
    guest: &'g Guest,
    /// By their number, less 1.
    blocks: Vec<Rc<Block>>,
    spaces: Spaces,
    symbols: Symbols,
    /// Of each processor.
    walks: Vec<Walk>,
    /// Notes about code that a processor is in the middle of.
    waiting: Vec<Vec<Note>>,
    /// The processor that is told of.
    cpu: usize,
    /// The program's process.
    first: i32,
    /// Threads that were seen.
    threads: HashSet<i32>,
    /// What the guest has said is wrong.
    why: Option<String>,
}

impl Watch<'_> {
    fn new(spaces: Spaces, guest: &Guest) -> Watch<'_> {
        Watch {
            guest,
            blocks: Vec::new(),
            spaces,
            symbols: Symbols::default(),
            walks: (0..guest.cpus()).map(|cpu| Walk::new(cpu as i32)).collect(),
            waiting: vec![Vec::new(); guest.cpus()],
            cpu: 0,
            first: 0,
            threads: HashSet::new(),
            why: None,
        }
    }

    fn follow(&mut self, launched: &mut Launched, observer: &mut dyn Observer) -> Result<i32, Error> {
        let (mut bytes, mut filled) = (vec![0; CHUNK], 0);
        let stop = observer.stop();
        let qemu = Pid::from_raw(launched.child.id() as i32);
        let _stopper = Stopper::new(stop.clone(), move || {
            let _ = nix::sys::signal::kill(qemu, Signal::SIGKILL);
        });
        loop {
            if filled == bytes.len() {
                bytes.resize(2 * filled, 0);
            }
            let count = launched
                .stream
                .read(bytes.get_mut(filled..).unwrap_or_default())
                .map_err(cannot("read what qemu's plugin writes"))?;
            if count == 0 && stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                self.walks.iter_mut().try_for_each(|walk| walk.breaks_off(observer))?;
                return Ok(-libc::SIGKILL);
            }
            if count == 0 {
                return Err(Error::Qemu(self.why.take().unwrap_or_else(|| launched.failure())));
            }
            filled += count;
            let mut taken = 0;
            while let Some((record, count)) = Record::read(bytes.get(taken..filled).unwrap_or_default())? {
                taken += count;
                if let Some(status) = self.take(record, observer)? {
                    return self.why.take().map_or(Ok(status), |why| Err(Error::Qemu(why)));
                }
            }
            bytes.copy_within(taken..filled, 0);
            filled -= taken;
        }
    }

    /// Takes a record; the last one has the program's status.
    #[inline]
    fn take(&mut self, record: Record<'_>, observer: &mut dyn Observer) -> Result<Option<i32>, Error> {
        match record {
            Record::Begins(id) => self.begins(id, observer)?,
            Record::End { status, address } => {
                let status = exit_status(status);
                let last = self.cpu;
                self.walks[last].ends(address, observer)?;
                observer.note(last as i32, &Note::Exit { pid: self.first, status: Some(status) })?;
                return Ok(Some(status));
            }
            Record::Last(address) => self.walks[self.cpu].ends_elsewhere(address, observer)?,
            Record::Cpu(cpu) => {
                self.cpu = cpu as usize;
                if self.cpu >= self.walks.len() {
                    return Err(NoRecord.into());
                }
                self.spaces.turn(self.cpu);
            }
            other => self.know(other, observer)?,
        }
        Ok(None)
    }

    #[inline]
    fn begins(&mut self, id: u32, observer: &mut dyn Observer) -> Result<(), Error> {
        let block = (id as usize).checked_sub(1).and_then(|at| self.blocks.get(at)).map(Rc::clone);
        let Some(block) = block else {
            return Err(Error::Qemu("qemu's plugin has not described a block that was executed".to_owned()));
        };
        let cpu = self.cpu;
        let (mut images, mut others) = (Vec::new(), Vec::new());
        if !self.spaces.knows(id, &block) {
            self.spaces.meet(id, &block, |note| match note {
                Note::Image(_) => images.push(note),
                _ => others.push(note),
            });
        }
        // Before what leads there: filters of addresses may be of this file.
        images.into_iter().try_for_each(|note| self.tell(note, observer))?;
        self.walks[cpu].leads_to(&block, observer)?;
        self.tell_waiting(block.start, observer)?;
        others.into_iter().try_for_each(|note| self.tell(note, observer))?;
        self.walks[cpu].begins(block, observer)
    }

    /// Says something that the processor has met. What is of code all of them are told, each as far as it has come; but
    /// not one that is in the middle of that code, before the next branch.
    fn tell(&mut self, note: Note, observer: &mut dyn Observer) -> Result<(), Error> {
        let met = match &note {
            Note::Code { start, bytes, .. } => Some((*start, bytes.len())),
            Note::Image(_) | Note::Exec { .. } => None,
            _ => return observer.note(self.cpu as i32, &note),
        };
        for (cpu, walk) in self.walks.iter().enumerate() {
            let is_there = met.is_some_and(|(start, bytes)| walk.passes(start, bytes));
            if cpu != self.cpu && (is_there || !self.waiting[cpu].is_empty()) {
                self.waiting[cpu].push(note.clone());
            } else {
                observer.note(cpu as i32, &note)?;
            }
        }
        Ok(())
    }

    /// Says what was to wait until a branch has led the processor to an address.
    #[inline]
    fn tell_waiting(&mut self, address: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        let cpu = self.cpu;
        if self.waiting[cpu].is_empty() || !self.walks[cpu].is_led_to(address) {
            return Ok(());
        }
        std::mem::take(&mut self.waiting[cpu]).iter().try_for_each(|note| observer.note(cpu as i32, note))
    }

    fn know(&mut self, record: Record<'_>, observer: &mut dyn Observer) -> Result<(), Error> {
        match record {
            Record::Block { id, address, lengths, bytes } => {
                let block = block(address, lengths, bytes);
                let block = block.filter(|_| id as usize == self.blocks.len() + 1).ok_or(NoRecord)?;
                self.blocks.push(Rc::new(block));
                Ok(())
            }
            Record::Page { address, bytes } => {
                self.spaces.page(address, bytes);
                Ok(())
            }
            Record::Event(event) => self.walks[self.cpu].event(event, observer),
            Record::Space(cr3) => {
                let cr3 = cr3 & CR3_IN_PACKETS;
                self.spaces.enter(cr3);
                self.walks[self.cpu].space(cr3, observer)
            }
            Record::Task { is_exec, tid, pid, name } => {
                self.runs(is_exec, tid, pid, &String::from_utf8_lossy(name), observer)
            }
            Record::Freed(cr3) => {
                self.spaces.free(cr3);
                Ok(())
            }
            Record::Text { address, bytes } => self.kernel(address, bytes, observer),
            Record::Symbols(part) => {
                self.symbols.add(part);
                Ok(())
            }
            Record::Say(why) => {
                self.why.get_or_insert_with(|| String::from_utf8_lossy(why).into_owned());
                Ok(())
            }
            Record::Output(bytes) => {
                // Nobody may be there any more to read it.
                let mut output = std::io::stdout();
                let _ = output.write_all(bytes).and_then(|()| output.flush());
                Ok(())
            }
            Record::Begin(pid) => {
                self.first = pid;
                self.runs(false, pid, pid, "init", observer)
            }
            Record::Begins(_) | Record::End { .. } | Record::Cpu(_) | Record::Last(_) => Ok(()),
        }
    }

    /// A thread runs from here on, or is another program.
    fn runs(
        &mut self,
        is_exec: bool,
        tid: i32,
        pid: i32,
        name: &str,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.spaces.run(pid);
        let cpu = self.cpu as i32;
        observer.note(cpu, &Note::Switch { pid, tid })?;
        if self.threads.insert(tid) {
            observer.note(cpu, &Note::Thread { pid, name: name.to_owned() })?;
        }
        if is_exec {
            self.spaces.exec();
            self.tell(Note::Exec { pid, path: self.spaces.file(name) }, observer)?;
        }
        Ok(())
    }

    /// The kernel's code as it is when recording begins.
    fn kernel(&mut self, start: u64, text: &[u8], observer: &mut dyn Observer) -> Result<(), Error> {
        let path = self.guest.folder.join(KERNEL_FILE);
        let file = kernel::elf(start, text, &self.symbols);
        std::fs::write(&path, file).map_err(cannot(format!("write {}", path.display())))?;
        let offset = mote_capture::elf::places(&[text.len()])[0];
        let image = Image { pid: KERNEL, start, bytes: text.len() as u64, path: KERNEL_FILE.into(), offset };
        self.spaces.add_kernel(start, Part { path, offset, bytes: text.to_owned() });
        self.tell(Note::Image(image), observer)
    }
}

/// A block. Where an instruction goes on in the next page, qemu leaves it to the next block, and yet tells plugins of
/// it (7.2: `i386_tr_translate_insn`): of the first bytes, which need not be what is executed later.
fn block(address: u64, lengths: &[u8], bytes: &[u8]) -> Option<Block> {
    let block = Block::new(address, 0, lengths, bytes)?;
    match lengths.split_last() {
        Some((last, before)) if block.last.is_none() && !before.is_empty() => {
            Block::new(address, 0, before, bytes.get(..bytes.len().checked_sub(usize::from(*last))?)?)
        }
        _ => Some(block),
    }
}

/// The bits of CR3 that a PIP packet has (SDM 3C, 33.4.2.7).
const CR3_IN_PACKETS: u64 = 0x000f_ffff_ffff_ffe0;

/// A status of wait(2): that of exit(2), or the signal's number below 0.
fn exit_status(status: i32) -> i32 {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => -signal,
    }
}

impl From<NoRecord> for Error {
    fn from(_: NoRecord) -> Error {
        Error::Qemu("cannot read what qemu's plugin has written".to_owned())
    }
}
