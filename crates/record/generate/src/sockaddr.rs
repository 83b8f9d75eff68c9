//! Socket addresses in the memory of a process: family, port, and the address as people write it.
//!
//! Numbers become texts by tables: what stands there for a byte is eight bytes long, seven of text and the last one
//! says how many of them are meant. All are stored, and what comes next is put over what was too many. So there are no
//! branches, which the kernel's verifier would follow one by one.
//!
//! Shapes of addresses: ip(7), ipv6(7), unix(7), netlink(7), vsock(7).

use crate::code::Code;
use crate::copy::To;
use crate::slot;
use crate::state;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Label, Local, Memory, Value, map_value};
use mote_catalog::event::{Part, Socket};
use mote_layout::cooperation::SYSCALLS;

/// Most bytes of an address that are looked at: all of `struct sockaddr_un`.
const MOST: i32 = 110;
/// Most bytes of its text, NUL included.
const TEXT_MOST: i32 = 112;
/// How many bytes an IPv4 address has, with family and port, and an IPv6 address, with scope.
const V4_BYTES: i32 = 8;
const V6_BYTES: i32 = 24;
/// Where the length of the address is kept.
const LENGTH: Local<u64> = slot::SECOND;
/// Where the bytes of an IPv6 address are put, counted from the room for the text: behind all that the text can be.
const RAW: u32 = 200;
/// Groups of 16 bits in an IPv6 address.
const GROUPS: usize = 8;

/// Bytes as decimal numbers with a full stop.
const DECIMAL: usize = 0;
/// The upper bytes of groups in base 16: of zero, nothing.
const UPPER: usize = 256;
/// The lower bytes with a colon: below an upper byte of zero, and, 256 words on, below others.
const LOWER: usize = 512;
/// For each set of groups that are zero: which are written, and in the next byte which begins the run of those that are
/// not.
const RUNS: usize = 1024;

/// What stands behind the table of system calls: four tables of words.
pub(crate) fn words() -> impl Iterator<Item = u64> {
    let decimal = (0..=255u8).map(|byte| word(&format!("{byte}.")));
    let upper = (0..=255u8).map(|byte| word(&if byte == 0 { String::new() } else { format!("{byte:x}") }));
    let lower = (0..=255u8).map(|byte| word(&format!("{byte:x}:")));
    let padded = (0..=255u8).map(|byte| word(&format!("{byte:02x}:")));
    decimal.chain(upper).chain(lower).chain(padded).chain((0..=255).map(run))
}

/// At most seven bytes, and how many they are.
fn word(text: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    bytes[7] = text.len() as u8;
    u64::from_le_bytes(bytes)
}

/// Which groups are written, and which begins the run that is not: the first of the longest runs of two or more (RFC
/// 5952, section 4.2).
fn run(zeros: u8) -> u64 {
    let length = |start: usize| (start..GROUPS).take_while(|group| zeros >> group & 1 == 1).count();
    let longest = (0..GROUPS)
        .map(|start| (length(start), start))
        .max_by_key(|(length, start)| (*length, GROUPS - start));
    match longest.filter(|(length, _)| *length >= 2) {
        Some((length, start)) => {
            let left_out = ((1u64 << length) - 1) << start;
            (!left_out & 0xff) | 1 << (8 + start)
        }
        None => 0xff,
    }
}

/// A text in the making: its bytes once it is there, and until then where the next byte of it goes.
struct Text {
    length: Value,
    end: Value,
    /// An IPv4 address, its first byte in the lowest 8 bits.
    v4: Value,
}

impl Code<'_> {
    /// The family or the port of an address.
    pub(crate) fn socket_number(&mut self, socket: Socket, part: Part) -> Result<Value, &'static str> {
        let (head, failed) = self.socket_head(socket)?;
        drop(failed);
        match part {
            Part::Family => Ok(self.get(head & 0xffff)),
            Part::Port => Ok(self.port(head)),
            Part::Text => Err("it is not a number there"),
        }
    }

    /// The first 8 bytes of the address, zeros where there are less, and a value that is 0 when they could be read. Its
    /// length goes to its slot.
    fn socket_head(&mut self, socket: Socket) -> Result<(Value, Value), &'static str> {
        let [none, end] = std::array::from_fn(|_| self.label());
        if socket.returned {
            self.jump_if(slot::RESULT.slt(0), none);
        }
        let mut length = self.argument(socket.length)?;
        if socket.returned {
            let there = self.peek(helper::PROBE_READ_USER, Size::W, length);
            length = self.get(there);
        }
        let length = self.get(Expr::from(length).low());
        self.when(length.gt(MOST), |code| code.set(&length, MOST));
        self.put(LENGTH, length);
        let address = self.argument(socket.address)?;
        self.jump_if(address.eq(0), none);
        self.put(slot::VALUE, 0);
        let bytes = self.get(LENGTH);
        self.when(bytes.gt(8), |code| code.set(&bytes, 8));
        let failed = self.invoke(helper::PROBE_READ_USER, (slot::VALUE.address(), bytes, address));
        self.jump(end);
        self.bind(none);
        self.put(slot::VALUE, 0);
        self.put(LENGTH, 0);
        self.set(&failed, 0);
        self.bind(end);
        Ok((self.get(slot::VALUE), failed))
    }

    /// From the first 8 bytes to the port.
    fn port(&mut self, head: Value) -> Value {
        let [internet, second, none, end] = std::array::from_fn(|_| self.label());
        let family = self.get(&head & 0xffff);
        self.jump_if(family.eq(libc::AF_INET), internet);
        self.jump_if(family.eq(libc::AF_INET6), internet);
        self.jump_if(family.eq(libc::AF_NETLINK), second);
        self.jump_if(family.ne(libc::AF_VSOCK), none);
        self.bind(second);
        self.set(&head, &head >> 32);
        self.jump(end);
        self.bind(none);
        self.set(&head, 0);
        self.jump(end);
        self.bind(internet);
        self.set(&head, (&head >> 16).big_endian(16));
        self.bind(end);
        head
    }

    /// Writes the text of an address with its NUL; returns its bytes. One that cannot be read is empty, and counted.
    pub(crate) fn socket_text(&mut self, socket: Socket, to: To) -> Result<Value, &'static str> {
        let table = self.words.ok_or("no table of numbers is there")?;
        let [fault, empty, v4, v6, dotted, end] = std::array::from_fn(|_| self.label());
        let (head, failed) = self.socket_head(socket)?;
        self.jump_if(failed.ne(0), fault);
        drop(failed);
        let length = self.scratch();
        let family = self.get(&head & 0xffff);
        self.jump_if(family.eq(libc::AF_INET), v4);
        self.jump_if(family.eq(libc::AF_INET6), v6);
        self.jump_if(family.ne(libc::AF_UNIX), empty);
        drop(family);
        let bytes = self.get(LENGTH);
        self.jump_if(bytes.le(2), empty);
        drop(bytes);
        self.unix_name(socket, &head, &length, to)?;
        self.jump_if(length.gt(TEXT_MOST), fault);
        self.jump_if(length.eq(0), fault);
        self.jump(end);
        self.bind(v4);
        let text = Text { end: self.scratch(), v4: self.scratch(), length };
        let bytes = self.get(LENGTH);
        self.jump_if(bytes.lt(V4_BYTES), empty);
        drop(bytes);
        self.set(&text.v4, head >> 32);
        self.set(&text.end, self.destination(to));
        self.bind(dotted);
        self.dotted(table, &text);
        self.end_text(&text, to);
        self.jump(end);
        self.bind(v6);
        let bytes = self.get(LENGTH);
        self.jump_if(bytes.lt(V6_BYTES), empty);
        drop(bytes);
        let address = self.argument(socket.address)?;
        self.v6(table, address + 8, &text, to, [fault, dotted]);
        self.end_text(&text, to);
        self.jump(end);
        self.bind(fault);
        self.count(state::TEXT_FAULTS);
        self.bind(empty);
        self.no_text(&text.length, to);
        self.bind(end);
        Ok(text.length)
    }

    /// The path, or the abstract name, of an address whose first 8 bytes are `head`; sets its length.
    fn unix_name(
        &mut self,
        socket: Socket,
        head: &Value,
        length: &Value,
        to: To,
    ) -> Result<(), &'static str> {
        let (path, copied) = (self.label(), self.label());
        self.jump_if(((head >> 16) & 0xff).ne(0), path);
        let (address, bytes) = self.name_source(socket, 3)?;
        // The kernel's own sign for it is a NUL at the start.
        self.put(self.part_of(to, 0, Size::B), b'@');
        let name = self.destination(to) + 1;
        let read = self.invoke(helper::PROBE_READ_USER_STR, (name, bytes - 2, address));
        self.set(length, read + 1);
        self.jump(copied);
        self.bind(path);
        let (address, bytes) = self.name_source(socket, 2)?;
        let read = self.invoke(helper::PROBE_READ_USER_STR, (self.destination(to), bytes - 1, address));
        self.set(length, read);
        self.bind(copied);
        Ok(())
    }

    /// The address so many bytes in, and how long all is: from 3 on.
    fn name_source(&mut self, socket: Socket, offset: i32) -> Result<(Expr, Value), &'static str> {
        let address = self.argument(socket.address)?;
        // Known already, and said once more for verifiers that do not remember what lies on the stack.
        let bytes = self.get(LENGTH & 127);
        self.when(bytes.le(2), |code| code.set(&bytes, 3));
        Ok((address + offset, bytes))
    }

    /// Ends the text: a NUL takes the place of the sign before.
    fn end_text(&mut self, text: &Text, to: To) {
        self.put(Memory::new(&text.end, -1, Size::B), 0);
        self.set(&text.length, &text.end - self.destination(to));
    }

    /// A word of the table, which begins with the word `first`, to the end of the text, which moves behind it. When
    /// `kept` is 0 it does not move.
    fn put_word(&mut self, table: u32, first: usize, number: Value, text: &Text, kept: Option<&Value>) {
        let word = self.get(table_word(table, first, number));
        self.put(Memory::new(&text.end, 0, Size::DW), &word);
        let length = word >> 56;
        let length = if let Some(kept) = kept { length * kept } else { length };
        self.set(&text.end, &text.end + (length & 7));
    }

    /// The IPv4 address, to the end of the text.
    fn dotted(&mut self, table: u32, text: &Text) {
        for byte in 0..4 {
            let number = self.get((&text.v4 >> (8 * byte)) & 0xff);
            self.put_word(table, DECIMAL, number, text, None);
        }
    }

    /// The text of an IPv6 address; those that stand for IPv4 addresses go on at `dotted`.
    fn v6(&mut self, table: u32, address: Expr, text: &Text, to: To, [fault, dotted]: [Label; 2]) {
        let raw = self.destination(to) + RAW;
        let failed = self.invoke(helper::PROBE_READ_USER, (raw, 2 * GROUPS, address));
        self.jump_if(failed.ne(0), fault);
        drop(failed);
        self.set(&text.end, self.destination(to));
        // ::ffff:0:0/96 (RFC 4291, section 2.5.5.2), as inet_ntop(3) writes it.
        self.block(|code, groups| {
            code.jump_if(code.part_of(to, RAW, Size::DW).ne(0), groups);
            let prefix = u32::from_le_bytes([0, 0, 0xff, 0xff]);
            code.jump_if(code.part_of(to, RAW + 8, Size::W).ne(prefix), groups);
            code.set(&text.v4, code.part_of(to, RAW + 12, Size::W));
            code.put(Memory::new(&text.end, 0, Size::DW), word("::ffff:"));
            code.set(&text.end, &text.end + 7);
            code.jump(dotted);
        });
        self.groups(table, text, to);
    }

    /// The groups behind the end of the text. The longest run of zeros is two colons.
    fn groups(&mut self, table: u32, text: &Text, to: To) {
        let raw = |group: usize| RAW + 2 * group as u32;
        let zeros = self.get(0);
        for group in 0..GROUPS {
            let is_zero = (self.part_of(to, raw(group), Size::H) - 1) >> 63;
            // A sum: of other operations with two unknown numbers Linux before 6.10 knows no bounds.
            self.set(&zeros, &zeros + (is_zero << group));
        }
        let written = self.get(table_word(table, RUNS, zeros));
        self.colon(&written, 8, text);
        for group in 0..GROUPS {
            self.colon(&written, 8 + group, text);
            // 1 when the group is written.
            let kept = self.get((&written >> group) & 1);
            let upper = self.get(self.part_of(to, raw(group), Size::B));
            let number = self.get(&upper);
            self.put_word(table, UPPER, number, text, Some(&kept));
            // 256 when there is an upper byte.
            self.set(&upper, (&upper + 255) & 256);
            let number = self.get(self.part_of(to, raw(group) + 1, Size::B) + upper);
            self.put_word(table, LOWER, number, text, Some(&kept));
            if group == GROUPS - 1 {
                // The colon behind the last group is one too many; that of a run at the end is not.
                self.set(&text.end, &text.end + (kept ^ 1));
            }
        }
    }

    /// A colon at the end of the text, which moves behind it when this bit is set.
    fn colon(&mut self, written: &Value, bit: usize, text: &Text) {
        self.put(Memory::new(&text.end, 0, Size::B), b':');
        self.set(&text.end, &text.end + ((written >> bit) & 1));
    }
}

/// A word of what stands behind the table of system calls.
fn table_word(table: u32, first: usize, number: Value) -> Expr {
    let words = map_value(table, (SYSCALLS * 4 + first * 8) as u32);
    (words + (number << 3)).place::<u64>().into()
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn the_first_of_the_longest_runs_of_zeros_is_left_out() {
        let (all, begins) = (0xff, |group: u32| 1u64 << (8 + group));
        assert_eq!(run(0), all);
        assert_eq!(run(0b0001_0000), all, "one group is written");
        assert_eq!(run(0xff), begins(0));
        assert_eq!(run(0b0111_1111), 0b1000_0000 | begins(0));
        assert_eq!(run(0b0000_1110), 0b1111_0001 | begins(1));
        assert_eq!(run(0b0110_0110), 0b1111_1001 | begins(1), "of two as long the first");
        assert_eq!(run(0b1110_0011), 0b0001_1111 | begins(5));
    }
}
