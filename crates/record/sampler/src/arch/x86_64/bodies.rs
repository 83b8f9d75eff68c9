//! The code between a function and its probe, as recorders write it (`mote_layout::functions`, `mote-trampolines`): the
//! way to our library, and behind it what the function's first bytes did, with a jump back.

/// `push rax; lea rax, [rip + 6]; jmp [rip - 22]`, with which bodies begin whose calls have slots.
const LEAD: &[u8] = &[0x50, 0x48, 0x8d, 0x05, 6, 0, 0, 0, 0xff, 0x25, 0xea, 0xff, 0xff, 0xff];
/// `call [rip - 14]`, with which those do whose calls are counted.
const CALL: &[u8] = &[0xff, 0x15, 0xf2, 0xff, 0xff, 0xff];
/// `jmp rel32`, and its bytes.
const JUMP: u8 = 0xe9;
const JUMP_BYTES: usize = 5;
/// Most bytes that are moved of a function.
const MOVED_MAX: usize = 32;
/// How many bytes before and behind an address have to be known.
pub(crate) const AROUND: (u64, u64) =
    ((LEAD.len() + MOVED_MAX) as u64, (LEAD.len() + MOVED_MAX + JUMP_BYTES) as u64);

/// Where a thread really is that is in such code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// At this instruction of the function.
    pub(crate) instruction: u64,
    /// With so many bytes more on the stack.
    pub(crate) pushed: u64,
}

/// Where a thread is that is `at` bytes behind the begin of code that lies at `from`, by where code of files is; `None`
/// when this is no such code.
pub(crate) fn moved(from: u64, at: usize, code: &[u8], is_code: impl Fn(u64) -> bool) -> Option<Moved> {
    let begins = (at.saturating_sub(LEAD.len() + MOVED_MAX)..=at).rev();
    let begins_with =
        |begin: usize, lead: &[u8]| code.get(begin..).is_some_and(|code| code.starts_with(lead));
    begins.flat_map(|begin| [(begin, LEAD), (begin, CALL)]).find_map(|(begin, lead)| {
        if !begins_with(begin, lead) {
            return None;
        }
        let copy = begin + lead.len();
        let into = at.saturating_sub(copy);
        // Behind what was moved it goes on in the function.
        let back = |len: usize| {
            let (jump, rest) = code.get(copy + len..)?.split_first()?;
            let far = i32::from_le_bytes(*rest.first_chunk::<4>()?);
            let next = from.wrapping_add((copy + len + JUMP_BYTES) as u64);
            let target = next.wrapping_add_signed(far.into());
            (*jump == JUMP && is_code(target)).then_some((len, target))
        };
        let (len, target) = (into..=MOVED_MAX).find_map(back)?;
        let instruction = target.wrapping_sub((len - into) as u64);
        let pushed = if lead.len() == LEAD.len() && (begin + 1..copy).contains(&at) { 8 } else { 0 };
        Some(Moved { instruction, pushed })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_is_found_in_its_function() {
        const FUNCTION: u64 = 0x40_1000;
        const FROM: u64 = 0x3f_0000;
        for (lead, is_pushed) in [(LEAD, true), (CALL, false)] {
            // push rbp; mov rbp, rsp; push rbx
            let (before, moved_code) = ([0xcc; 20], [0x55, 0x48, 0x89, 0xe5, 0x53]);
            let jump_at = before.len() + lead.len() + moved_code.len();
            let far = (FUNCTION + 5).wrapping_sub(FROM + jump_at as u64 + 5) as u32;
            let code = [&before, lead, &moved_code, &[JUMP], &far.to_le_bytes(), &[0xcc; 30]].concat();
            let is_code = |address: u64| (FUNCTION..FUNCTION + 100).contains(&address);
            let find = |at: usize| moved(FROM, at, &code, is_code);
            let is = |instruction, pushed| Some(Moved { instruction, pushed });
            assert_eq!(find(20), is(FUNCTION, 0));
            let copy = 20 + lead.len();
            if is_pushed {
                assert_eq!([find(21), find(28)], [is(FUNCTION, 8); 2]);
            }
            assert_eq!(find(copy), is(FUNCTION, 0));
            assert_eq!(find(copy + 4), is(FUNCTION + 4, 0));
            assert_eq!(find(jump_at), is(FUNCTION + 5, 0));
            for at in [0, 19, jump_at + 1, code.len(), code.len() + 1, usize::MAX - 100] {
                assert_eq!(find(at), None, "{at}");
            }
            assert_eq!(moved(FROM, 20, &code, |_| false), None);
            for len in 0..jump_at + 5 {
                assert_eq!(moved(FROM, 20, &code[..len], is_code), None, "{len} bytes");
            }
        }
    }
}
