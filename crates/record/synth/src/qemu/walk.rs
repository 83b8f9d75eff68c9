//! From blocks that began to what was executed: of one thread.
//!
//! That a block has begun is all that is reported of it. That it was executed to its end is known when the next one
//! begins where its last instruction leads. It was cut where a handler's frame says so (a fault), or where the next
//! one has a single instruction of its middle: so qemu executes an instruction that it could not in its block, an
//! access that is atomic and not aligned, or one that changes code on its own page. A block that it begins there
//! otherwise goes on as far as the first one does.

use super::blocks::{Blocks, Part};
use super::code::Code;
use crate::arch::{Instruction, Kind};
use crate::block::Block;
use crate::error::Error;
use crate::fact::{Exit, Fact};
use crate::observer::{Image, Note, Observer};
use std::rc::Rc;

/// A handler begins, and the thread was there (`plugin.c`).
const SIGNAL: u32 = 0xffff_fff0;
const SIGNAL_WORDS: usize = 5;
/// The process becomes another program.
const EXEC: u32 = 0xffff_fff1;
const EXEC_WORDS: usize = 2;

/// A thread.
pub(super) struct Walk {
    pid: i32,
    tid: i32,
    /// The block that has begun last.
    pending: Option<Rc<Block>>,
    is_in_kernel: bool,
    /// Blocks that it has executed, by their ids less 1, and of which generation that is.
    known: Vec<bool>,
    generation: u32,
    /// Where code of no file comes from.
    code: Code,
    /// Copies of code that the observer knows of.
    pages: usize,
    /// Words of a record whose end is in the next part.
    rest: Vec<u32>,
}

/// How a handler came to be.
struct Signal {
    /// Where the thread was.
    from: u64,
    /// The instruction there has caused it, and was not executed.
    is_fault: bool,
}

impl Walk {
    pub(super) fn new(pid: i32, tid: i32, code: Code) -> Walk {
        let (known, rest) = (Vec::new(), Vec::new());
        Walk { pid, tid, pending: None, is_in_kernel: true, known, generation: 0, code, pages: 0, rest }
    }

    /// Takes the next part of what the thread has written.
    pub(super) fn take(
        &mut self,
        words: &[u32],
        blocks: &mut Blocks,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let mut words = words.iter().copied();
        loop {
            let Some(word) = words.next() else { return Ok(()) };
            if self.rest.is_empty() && word < SIGNAL {
                if word == 0 {
                    return Ok(());
                }
                self.begins(word, blocks, observer)?;
                continue;
            }
            self.rest.push(word);
            let rest = std::mem::take(&mut self.rest);
            match (rest.as_slice(), rest.len()) {
                ([SIGNAL, ..], SIGNAL_WORDS) => self.interrupted(&signal(&rest), observer)?,
                ([EXEC, program], EXEC_WORDS) => self.becomes(*program, blocks, observer)?,
                ([SIGNAL | EXEC, ..], _) => self.rest = rest,
                _ => return Err(self.wrong(0, "qemu's plugin has written a record that is not known")),
            }
        }
    }

    /// The process becomes another program, by the system call that ends the last block.
    fn becomes(
        &mut self,
        program: u32,
        blocks: &mut Blocks,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let path = blocks.exec(program);
        if let Some(last) = self.pending.take() {
            self.whole(&last, Exit::System, 0, observer)?;
        }
        self.pages = blocks.pages_count();
        observer.note(self.tid, &Note::Exec { pid: self.pid, path })
    }

    /// The thread has ended.
    pub(super) fn ends(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        if let Some(last) = self.pending.take() {
            let leads_to_kernel = last.last.is_some_and(|last| last.kind == Kind::System);
            if leads_to_kernel {
                self.whole(&last, Exit::System, 0, observer)?;
            } else {
                observer.fact(self.tid, &Fact::Interrupt(last.start))?;
            }
        }
        observer.fact(self.tid, &Fact::End)
    }

    fn begins(&mut self, id: u32, blocks: &mut Blocks, observer: &mut dyn Observer) -> Result<(), Error> {
        let Some(block) = blocks.get(id).map(Rc::clone) else {
            return Err(self.wrong(0, "qemu's plugin has not described the block that was executed"));
        };
        let is_known =
            self.generation == blocks.generation() && self.known.get(id as usize - 1) == Some(&true);
        if !is_known {
            // Before what leads there: filters of addresses may be of this file.
            self.map(id, block.image, blocks, observer)?;
        }
        if let Some(last) = self.pending.take() {
            // One more round of the same instruction.
            if block.is_round() && last.is_repeated() && last.last_ip == block.start {
                self.pending = Some(last);
                return Ok(());
            }
            match last.position(block.start) {
                Some(count) if block.is_alone() && count + 1 < last.lengths.len() => {
                    self.cut(&last, count, observer)?;
                }
                _ => self.leads(&last, block.start, observer)?,
            }
        }
        if !is_known {
            self.set_known(id, blocks.generation());
            self.describe(id, &block, blocks, observer)?;
        }
        if std::mem::replace(&mut self.is_in_kernel, false) {
            observer.fact(self.tid, &Fact::Enter(block.start))?;
        }
        self.pending = Some(block);
        Ok(())
    }

    /// A block was left for `to`.
    fn leads(&mut self, block: &Block, to: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        let way = block.last.map(|last| last.exit(block.last_ip, to));
        match (way, block.position(to)) {
            (Some(Ok(exit)), _) => self.whole(block, exit, to, observer),
            (_, Some(count)) => self.cut(block, count, observer),
            (Some(Err(_)), None) => {
                Err(self.wrong(block.last_ip, "the thread went on where this does not lead"))
            }
            (None, None) => Err(self.wrong(block.last_ip, "this instruction is not known, or a far branch")),
        }
    }

    /// A handler begins.
    fn interrupted(&mut self, signal: &Signal, observer: &mut dyn Observer) -> Result<(), Error> {
        let from = signal.from;
        let Some(block) = self.pending.take() else { return Ok(()) };
        let position = block.position(from);
        match block.last {
            Some(Instruction { kind: Kind::System, .. }) if !signal.is_fault || position.is_none() => {
                return self.whole(&block, Exit::System, 0, observer);
            }
            // Behind INT3, whose address is that of the event.
            Some(Instruction { kind: Kind::Trap, length })
                if from == block.last_ip.wrapping_add(u64::from(length)) =>
            {
                self.cut(&block, block.lengths.len() - 1, observer)?;
                return self.leave(block.last_ip, observer);
            }
            _ => {}
        }
        match position {
            Some(count) if signal.is_fault || (block.is_repeated() && from == block.last_ip) => {
                self.cut(&block, count, observer)?;
            }
            _ => self.leads(&block, from, observer)?,
        }
        self.leave(from, observer)
    }

    fn leave(&mut self, from: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        self.is_in_kernel = true;
        observer.fact(self.tid, &Fact::Interrupt(from))
    }

    fn whole(
        &mut self,
        block: &Block,
        exit: Exit,
        to: u64,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.is_in_kernel = exit == Exit::System;
        observer.fact(self.tid, &Fact::Run(block.run(exit, to)))
    }

    /// Only so many instructions of the block were executed.
    fn cut(&mut self, block: &Block, count: usize, observer: &mut dyn Observer) -> Result<(), Error> {
        block.cut(count).map_or(Ok(()), |run| observer.fact(self.tid, &Fact::Run(run)))
    }

    /// Says which part of a file has a block, where that was not said before.
    fn map(
        &self,
        id: u32,
        image: u32,
        blocks: &mut Blocks,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Some(Part { start, end, offset, path }) = blocks.new_part(id, image) else { return Ok(()) };
        let image = Image { pid: self.pid, start, bytes: end.saturating_sub(start), path, offset };
        observer.note(self.tid, &Note::Image(image))
    }

    fn set_known(&mut self, id: u32, generation: u32) {
        if self.generation != generation {
            self.known.clear();
            self.generation = generation;
        }
        let at = id as usize - 1;
        if self.known.len() <= at {
            self.known.resize(at + 1, false);
        }
        self.known[at] = true;
    }

    /// Says what code is that the thread executes for the first time and no file has so: the block's, or all that was
    /// copied before that was translated.
    fn describe(
        &mut self,
        id: u32,
        block: &Block,
        blocks: &mut Blocks,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let pid = self.pid;
        match self.code {
            Code::Executed if blocks.is_own_code(block) => {
                observer.note(self.tid, &Note::Code { pid, start: block.start, bytes: block.bytes.clone() })
            }
            Code::Executed => Ok(()),
            Code::Copied => blocks.pages(self.pages, id).try_for_each(|page| {
                self.pages += 1;
                observer.note(self.tid, &Note::Code { pid, start: page.start, bytes: page.bytes.to_vec() })
            }),
        }
    }

    fn wrong(&self, ip: u64, why: &'static str) -> Error {
        Error::Code { tid: self.tid, ip, why }
    }
}

fn signal(words: &[u32]) -> Signal {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let (number, code) = (word(3) as i32, word(4) as i32);
    let is_of_instruction =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP].contains(&number);
    let from = u64::from(word(1)) | u64::from(word(2)) << 32;
    // Codes above 0 are the kernel's own (sigaction(2)).
    Signal { from, is_fault: is_of_instruction && code > 0 }
}
