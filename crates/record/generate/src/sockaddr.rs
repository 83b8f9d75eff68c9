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
use mote_bpf::op::{Cond, Op, Order, Size};
use mote_bpf::{Reg, helper};
use mote_builder::Label;
use mote_catalog::event::{Part, Socket};
use mote_layout::cooperation::SYSCALLS;

/// Most bytes of an address that are looked at: all of `struct sockaddr_un`.
const MOST: i32 = 110;
/// Most bytes of its text, NUL included.
const TEXT_MOST: i32 = 112;
/// How many bytes an IPv4 address has, with family and port, and an IPv6 address, with scope.
const V4_BYTES: i32 = 8;
const V6_BYTES: i32 = 24;
/// Where the length of the address is kept: the second word of [`slot::VALUE`].
const LENGTH: i16 = slot::VALUE - 8;
/// Where the bytes of an IPv6 address are put, counted from the room for the text: behind all that the text can be.
const RAW: i16 = 200;
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

impl Code<'_> {
    /// The family or the port of an address in `r1`.
    pub(crate) fn socket_number(&mut self, socket: Socket, part: Part) -> Result<(), &'static str> {
        self.socket_head(socket)?;
        match part {
            Part::Family => self.b.and(Reg::R1, 0xffff),
            Part::Port => self.port(),
            Part::Text => return Err("it is no number there"),
        }
        Ok(())
    }

    /// The first 8 bytes of the address to the slot of values and `r1`: zeros where there are less. `r0` is 0 when they
    /// could be read.
    fn socket_head(&mut self, socket: Socket) -> Result<(), &'static str> {
        let [none, fits, short, end] = std::array::from_fn(|_| self.b.label());
        if socket.returned {
            self.b.load(Size::DW, Reg::R1, Reg::R10, slot::RESULT);
            self.b.branch(Cond::SLt, Reg::R1, 0, none);
        }
        self.argument(socket.length)?;
        if socket.returned {
            self.b.mov(Reg::R3, Reg::R1);
            self.peek(helper::PROBE_READ_USER, Size::W);
        }
        self.b.mov32(Reg::R1, Reg::R1);
        self.b.branch(Cond::Le, Reg::R1, MOST, fits);
        self.b.mov(Reg::R1, MOST);
        self.b.bind(fits);
        self.b.store(Size::DW, Reg::R10, LENGTH, Reg::R1);
        self.argument(socket.address)?;
        self.b.branch(Cond::Eq, Reg::R1, 0, none);
        self.b.store(Size::DW, Reg::R10, slot::VALUE, 0);
        self.b.mov(Reg::R3, Reg::R1);
        self.b.load(Size::DW, Reg::R2, Reg::R10, LENGTH);
        self.b.branch(Cond::Le, Reg::R2, 8, short);
        self.b.mov(Reg::R2, 8);
        self.b.bind(short);
        self.b.mov(Reg::R1, Reg::R10);
        self.b.add(Reg::R1, i32::from(slot::VALUE));
        self.b.call(helper::PROBE_READ_USER);
        self.b.jump(end);
        self.b.bind(none);
        self.b.store(Size::DW, Reg::R10, slot::VALUE, 0);
        self.b.store(Size::DW, Reg::R10, LENGTH, 0);
        self.b.mov(Reg::R0, 0);
        self.b.bind(end);
        self.b.load(Size::DW, Reg::R1, Reg::R10, slot::VALUE);
        Ok(())
    }

    /// From the first 8 bytes in `r1` to the port.
    fn port(&mut self) {
        let [internet, second, none, end] = std::array::from_fn(|_| self.b.label());
        self.b.mov(Reg::R2, Reg::R1);
        self.b.and(Reg::R2, 0xffff);
        self.b.branch(Cond::Eq, Reg::R2, libc::AF_INET, internet);
        self.b.branch(Cond::Eq, Reg::R2, libc::AF_INET6, internet);
        self.b.branch(Cond::Eq, Reg::R2, libc::AF_NETLINK, second);
        self.b.branch(Cond::Ne, Reg::R2, libc::AF_VSOCK, none);
        self.b.bind(second);
        self.b.rsh(Reg::R1, 32);
        self.b.jump(end);
        self.b.bind(none);
        self.b.mov(Reg::R1, 0);
        self.b.jump(end);
        self.b.bind(internet);
        self.b.rsh(Reg::R1, 16);
        self.b.op(Op::End { order: Order::Big, bits: 16, dst: Reg::R1 });
        self.b.bind(end);
    }

    /// Writes the text of an address with its NUL; `r0` becomes its bytes. One that cannot be read is empty, and
    /// counted.
    pub(crate) fn socket_text(&mut self, socket: Socket, to: To) -> Result<(), &'static str> {
        let table = self.words.ok_or("no table of numbers is there")?;
        let [fault, empty, v4, v6, dotted, end] = std::array::from_fn(|_| self.b.label());
        self.socket_head(socket)?;
        self.b.branch(Cond::Ne, Reg::R0, 0, fault);
        self.b.load(Size::DW, Reg::R4, Reg::R10, LENGTH);
        self.b.mov(Reg::R2, Reg::R1);
        self.b.and(Reg::R2, 0xffff);
        self.b.branch(Cond::Eq, Reg::R2, libc::AF_INET, v4);
        self.b.branch(Cond::Eq, Reg::R2, libc::AF_INET6, v6);
        self.b.branch(Cond::Ne, Reg::R2, libc::AF_UNIX, empty);
        self.unix_name(socket, to, [fault, empty, end])?;
        self.b.bind(v4);
        self.b.branch(Cond::Lt, Reg::R4, V4_BYTES, empty);
        self.b.mov(Reg::R0, Reg::R1);
        self.b.rsh(Reg::R0, 32);
        self.destination(to);
        self.b.mov(Reg::R5, Reg::R1);
        self.b.bind(dotted);
        self.dotted(table);
        self.length_of(to);
        self.b.jump(end);
        self.b.bind(v6);
        self.b.branch(Cond::Lt, Reg::R4, V6_BYTES, empty);
        self.argument(socket.address)?;
        self.v6(table, to, [fault, dotted])?;
        self.length_of(to);
        self.b.jump(end);
        self.b.bind(fault);
        self.count(state::TEXT_FAULTS);
        self.b.bind(empty);
        self.no_text(to);
        self.b.bind(end);
        Ok(())
    }

    /// The path, or the abstract name, of an address of `r4` bytes, of which `r1` is the first 8.
    fn unix_name(
        &mut self,
        socket: Socket,
        to: To,
        [fault, empty, end]: [Label; 3],
    ) -> Result<(), &'static str> {
        let (path, copied) = (self.b.label(), self.b.label());
        self.b.branch(Cond::Le, Reg::R4, 2, empty);
        self.b.rsh(Reg::R1, 16);
        self.b.and(Reg::R1, 0xff);
        self.b.branch(Cond::Ne, Reg::R1, 0, path);
        // The kernel's own sign for it is a NUL at the start.
        self.name_source(socket, 3)?;
        self.b.sub(Reg::R2, 2);
        self.destination(to);
        self.b.store(Size::B, Reg::R1, 0, i32::from(b'@'));
        self.b.add(Reg::R1, 1);
        self.b.call(helper::PROBE_READ_USER_STR);
        self.b.add(Reg::R0, 1);
        self.b.jump(copied);
        self.b.bind(path);
        self.name_source(socket, 2)?;
        self.b.sub(Reg::R2, 1);
        self.destination(to);
        self.b.call(helper::PROBE_READ_USER_STR);
        self.b.bind(copied);
        self.b.branch(Cond::Gt, Reg::R0, TEXT_MOST, fault);
        self.b.branch(Cond::Eq, Reg::R0, 0, fault);
        self.b.jump(end);
        Ok(())
    }

    /// `r3` becomes the address so many bytes in, `r2` how long all is: from 3 on.
    fn name_source(&mut self, socket: Socket, offset: i32) -> Result<(), &'static str> {
        let known = self.b.label();
        self.argument(socket.address)?;
        self.b.mov(Reg::R3, Reg::R1);
        self.b.add(Reg::R3, offset);
        self.b.load(Size::DW, Reg::R2, Reg::R10, LENGTH);
        // Known already, and told once more for verifiers that do not remember what lies on the stack.
        self.b.and(Reg::R2, 127);
        self.b.branch(Cond::Gt, Reg::R2, 2, known);
        self.b.mov(Reg::R2, 3);
        self.b.bind(known);
        Ok(())
    }

    /// `r0` becomes how many bytes there are from the destination to `r5`, where a NUL takes the place of the sign
    /// before.
    fn length_of(&mut self, to: To) {
        self.b.store(Size::B, Reg::R5, -1, 0);
        self.destination(to);
        self.b.mov(Reg::R0, Reg::R5);
        self.b.sub(Reg::R0, Reg::R1);
    }

    /// The word of the table with the number in `r1`, from its place `first` on, to `r5`, which moves behind its text.
    /// When `kept` is not 1 it does not.
    fn put_word(&mut self, table: u32, first: usize, kept: Option<Reg>) {
        self.b.lsh(Reg::R1, 3);
        self.b.map_value(Reg::R2, table, (SYSCALLS * 4 + first * 8) as u32);
        self.b.add(Reg::R2, Reg::R1);
        self.b.load(Size::DW, Reg::R2, Reg::R2, 0);
        self.b.store(Size::DW, Reg::R5, 0, Reg::R2);
        self.b.rsh(Reg::R2, 56);
        if let Some(kept) = kept {
            self.b.mul(Reg::R2, kept);
        }
        self.b.and(Reg::R2, 7);
        self.b.add(Reg::R5, Reg::R2);
    }

    /// The IPv4 address in `r0`, its first byte in the lowest 8 bits, to `r5`.
    fn dotted(&mut self, table: u32) {
        for byte in 0..4 {
            self.b.mov(Reg::R1, Reg::R0);
            self.b.rsh(Reg::R1, 8 * byte);
            self.b.and(Reg::R1, 0xff);
            self.put_word(table, DECIMAL, None);
        }
    }

    /// The text of the IPv6 address at `r1`; those that stand for IPv4 addresses go on at `dotted`.
    fn v6(&mut self, table: u32, to: To, [fault, dotted]: [Label; 2]) -> Result<(), &'static str> {
        let groups = self.b.label();
        self.b.mov(Reg::R3, Reg::R1);
        self.b.add(Reg::R3, 8);
        self.destination(to);
        self.b.add(Reg::R1, i32::from(RAW));
        self.b.mov(Reg::R2, 2 * GROUPS as i32);
        self.b.call(helper::PROBE_READ_USER);
        self.b.branch(Cond::Ne, Reg::R0, 0, fault);
        self.destination(to);
        self.b.mov(Reg::R5, Reg::R1);
        // ::ffff:0:0/96 (RFC 4291, section 2.5.5.2), as inet_ntop(3) writes it.
        self.b.load(Size::DW, Reg::R2, Reg::R1, RAW);
        self.b.branch(Cond::Ne, Reg::R2, 0, groups);
        self.b.load(Size::W, Reg::R2, Reg::R1, RAW + 8);
        self.b.constant(Reg::R3, u64::from(u32::from_le_bytes([0, 0, 0xff, 0xff])));
        self.b.branch(Cond::Ne, Reg::R2, Reg::R3, groups);
        self.b.load(Size::W, Reg::R0, Reg::R1, RAW + 12);
        self.b.constant(Reg::R2, word("::ffff:"));
        self.b.store(Size::DW, Reg::R5, 0, Reg::R2);
        self.b.add(Reg::R5, 7);
        self.b.jump(dotted);
        self.b.bind(groups);
        self.groups(table, to);
        Ok(())
    }

    /// The groups behind `r5`. The longest run of zeros is two colons.
    fn groups(&mut self, table: u32, to: To) {
        let raw = |group: usize| RAW + 2 * group as i16;
        self.b.mov(Reg::R3, 0);
        for group in 0..GROUPS {
            self.b.load(Size::H, Reg::R2, Reg::R1, raw(group));
            self.b.sub(Reg::R2, 1);
            self.b.rsh(Reg::R2, 63);
            self.b.lsh(Reg::R2, group as i32);
            self.b.or(Reg::R3, Reg::R2);
        }
        self.b.lsh(Reg::R3, 3);
        self.b.map_value(Reg::R2, table, (SYSCALLS * 4 + RUNS * 8) as u32);
        self.b.add(Reg::R2, Reg::R3);
        self.b.load(Size::DW, Reg::R0, Reg::R2, 0);
        self.colon(8);
        for group in 0..GROUPS {
            self.colon(8 + group as i32);
            // 1 when the group is written.
            self.b.mov(Reg::R4, Reg::R0);
            self.b.rsh(Reg::R4, group as i32);
            self.b.and(Reg::R4, 1);
            self.destination(to);
            self.b.load(Size::B, Reg::R3, Reg::R1, raw(group));
            self.b.mov(Reg::R1, Reg::R3);
            self.put_word(table, UPPER, Some(Reg::R4));
            // 256 when there is an upper byte.
            self.b.add(Reg::R3, 255);
            self.b.and(Reg::R3, 256);
            self.destination(to);
            self.b.load(Size::B, Reg::R1, Reg::R1, raw(group) + 1);
            self.b.or(Reg::R1, Reg::R3);
            self.put_word(table, LOWER, Some(Reg::R4));
        }
        // The colon behind the last group is one too many; that of a run at the end is not.
        self.b.xor(Reg::R4, 1);
        self.b.add(Reg::R5, Reg::R4);
    }

    /// A colon at `r5`, which moves behind it when this bit of `r0` is set.
    fn colon(&mut self, bit: i32) {
        self.b.store(Size::B, Reg::R5, 0, i32::from(b':'));
        self.b.mov(Reg::R2, Reg::R0);
        self.b.rsh(Reg::R2, bit);
        self.b.and(Reg::R2, 1);
        self.b.add(Reg::R5, Reg::R2);
    }
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
