//! Copies of stacks, which rings have, become addresses before they are written (`mote_layout::stack`): a tenth of the
//! bytes, and what every reader understands.

use crate::consumer::walk::Steps;
use mote_clock::extend::nearest;
use mote_kernel::map::State;
use mote_layout::record::{PREFIX_BYTES, TIME_BITS, split};
use mote_layout::stack::Copy;
use mote_sampler::{Copies, Reports};
use std::sync::Arc;

/// Whose stacks records have.
#[derive(Clone)]
pub(crate) enum StacksOf {
    /// Copies that the kernel's programs have made, which have this state.
    Anyone(Arc<State>),
    /// Copies that processes have made, which are reported.
    Processes(Arc<Reports>),
}

/// Unwinds the stacks of a trace.
#[derive(Debug)]
pub(crate) struct Stacks {
    copies: Copies,
    /// Of the stack that was unwound last.
    addresses: Vec<u64>,
}

impl Stacks {
    /// Begins to hear what processes map.
    pub(crate) fn open(of: &StacksOf, cpus: u32) -> Stacks {
        let copies = match of {
            StacksOf::Anyone(state) => of_anyone(state, cpus),
            StacksOf::Processes(reports) => Copies::of_reported(reports.clone()),
        };
        Stacks { copies, addresses: Vec::new() }
    }

    /// Takes in what processes have mapped.
    pub(crate) fn refresh(&mut self) {
        self.copies.refresh();
    }

    /// The same records, which are good and were read before now, with addresses; `None` when none of them has a copy.
    /// The last one is of the time `last`, on the clock of the records.
    pub(crate) fn unwound(&mut self, records: &[u8], last: u64, events: &[Steps]) -> Option<Vec<u8>> {
        let mut unwound = Vec::new();
        // Bytes that are in there.
        let mut done = 0;
        let mut at = 0;
        while let Some(header) = records.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let (id, time) = split(u64::from_le_bytes(*header));
            let fields = at + PREFIX_BYTES;
            let Some((steps, rest)) = events.get(usize::from(id)).zip(records.get(fields..)) else { break };
            let Some((len, stack)) = steps.over(rest) else { break };
            at = fields + len;
            let elements = stack.map(|stack| fields + stack.start..fields + stack.end);
            let Some((elements, bytes)) =
                elements.and_then(|range| Some((range.clone(), records.get(range)?)))
            else {
                continue;
            };
            let Some(copy) = Copy::read(bytes) else { continue };
            if done == 0 {
                self.refresh();
            }
            self.addresses.clear();
            self.copies.unwind(&copy, nearest(last, time, TIME_BITS), &mut self.addresses);
            // Their number is in front of them.
            unwound.extend_from_slice(records.get(done..elements.start - 2).unwrap_or_default());
            unwound.extend((self.addresses.len() as u16).to_le_bytes());
            unwound.extend(self.addresses.iter().flat_map(|address| address.to_le_bytes()));
            done = elements.end;
        }
        if done == 0 {
            return None;
        }
        unwound.extend_from_slice(records.get(done..).unwrap_or_default());
        Some(unwound)
    }
}

/// What makes addresses of copies that the kernel's programs with this state make: these hear where return addresses
/// were replaced.
pub(crate) fn of_anyone(state: &Arc<State>, cpus: u32) -> Copies {
    let state = state.clone();
    Copies::open(cpus, Box::new(move |pid, tops| state.note_stubs(pid, tops)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::parse::parse;
    use mote_layout::record::header;
    use mote_layout::stack::{COPY, End};

    const SP: u64 = 0x7000_0000;

    fn record(id: u16, words: &[u64]) -> Vec<u8> {
        let mut bytes = header(5, id).to_le_bytes().to_vec();
        bytes.extend(7u32.to_le_bytes());
        if id == 1 {
            bytes.extend((words.len() as u16).to_le_bytes());
        }
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// A copy of the stack of a process that is not there: it is followed by frame pointers.
    fn copy(stack: &[u64]) -> Vec<u64> {
        [&[COPY, u64::from(u32::MAX), SP + 8, SP, 0x5000], stack].concat()
    }

    #[test]
    fn copies_become_addresses_and_all_else_stays() {
        let steps = |fields: &str| {
            let text = format!("mote1\np:e\n6 f.rs:1\n\n{fields}");
            Steps::of(&parse(text.as_bytes()).expect("well formed"))
        };
        let events = [steps("a u64\n"), steps("callstack_user x64[]\nb u64\n"), steps("other x64[]\n")];
        let copies = Copies::open(1, Box::new(|_, _| {}));
        let mut stacks = Stacks { copies, addresses: Vec::new() };
        let plain = [record(0, &[1]), record(1, &[0x5000, 0x5100]), 9u64.to_le_bytes().to_vec()].concat();
        assert_eq!(stacks.unwound(&plain, 5, &events), None);
        // Where it was, the caller, and the caller's, which was called by nobody: but its code does not say so.
        let whole = copy(&[1, SP + 32, 0x5111, 2, SP + 48, 0x5222, 0, 0]);
        // The second frame pointer leads out of the copy.
        let short = copy(&[1, SP + 100, 0x5111, 2]);
        let nine = || 9u64.to_le_bytes().to_vec();
        let records =
            [record(0, &[1]), record(1, &whole), nine(), record(1, &short), nine(), record(0, &[2])];
        let unwound = stacks.unwound(&records.concat(), 5, &events).expect("copies");
        let expected = [
            record(0, &[1]),
            record(1, &[0x5000, 0x5111, 0x5222, End::Code as u64]),
            nine(),
            record(1, &[0x5000, 0x5111, End::Copy as u64]),
            nine(),
            record(0, &[2]),
        ];
        assert_eq!(unwound, expected.concat());
        // What is no whole record any more stays as it is.
        let cut = [record(1, &whole), nine(), record(1, &whole)].concat();
        let unwound = stacks.unwound(&cut[..cut.len() - 1], 5, &events).expect("one copy");
        assert!(unwound.ends_with(&record(1, &whole)[..cut.len() - 1 - record(1, &whole).len() - 8]));
    }
}
