//! CPUs, disks, network interfaces, interrupts.

use super::event::{Kind, Record};
use super::write::Fields;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// The CPUs, as `/proc/cpuinfo` has them: one paragraph each.
pub(super) fn cpus(proc: &Path, take: &mut dyn FnMut(Record)) {
    let text = fs::read_to_string(proc.join("cpuinfo")).unwrap_or_default();
    for paragraph in text.split("\n\n") {
        let value = |key: &str| {
            let mut lines = paragraph.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
        };
        let number = |key: &str| value(key).and_then(|value| value.parse().ok()).unwrap_or(0u16);
        let text = |key: &str| value(key).unwrap_or("unknown").as_bytes();
        let Some(cpu) = value("processor").and_then(|id| id.parse().ok()) else { continue };
        let record = Fields::new(Kind::Cpu)
            .text(architecture().as_bytes())
            .u16(cpu)
            .text(text("vendor_id"))
            .u8(number("cpu family") as u8)
            .u8(number("model") as u8)
            .text(text("model name"))
            .u16(number("physical id"))
            .u16(number("core id"))
            .u16(number("cpu cores"));
        take(record.record());
    }
}

/// LTTng's word.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86" | "x86_64" => "x86",
        other => other,
    }
}

/// The disks; their numbers as the kernel has them: 12 bits of major, 20 of minor number.
pub(super) fn disks(sys: &Path, take: &mut dyn FnMut(Record)) {
    let entries = fs::read_dir(sys.join("block")).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    for name in names {
        let number = fs::read_to_string(sys.join("block").join(&name).join("dev")).unwrap_or_default();
        let parts = number.trim().split_once(':');
        let parts =
            parts.and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
        if let Some((major, minor)) = parts {
            take(Fields::new(Kind::Disk).u32(major << 20 | minor & 0xf_ffff).text(name.as_bytes()).record());
        }
    }
}

/// The network interfaces, with their IPv4 addresses (0: none).
pub(super) fn interfaces(proc: &Path, take: &mut dyn FnMut(Record)) {
    let read = |name: &str| fs::read_to_string(proc.join("net").join(name)).unwrap_or_default();
    let addresses = local_addresses(&read("fib_trie"));
    let table = read("route");
    let routes = routes(&table);
    // Two lines of headings.
    for line in read("dev").lines().skip(2) {
        let Some((name, _)) = line.split_once(':') else { continue };
        let name = name.trim();
        let of_name = |address: &&Ipv4Addr| interface(&routes, **address) == Some(name);
        let mut own = addresses.iter().filter(of_name).peekable();
        let mut tell = |address: u32| {
            take(Fields::new(Kind::Interface).text(name.as_bytes()).u32(address).record());
        };
        if own.peek().is_none() {
            tell(0);
        }
        own.for_each(|address| tell(address.to_bits()));
    }
}

/// The machine's own addresses: leaves of the tree of routes, as `|-- 10.0.0.2` and on the next line `/32 host LOCAL`.
fn local_addresses(tree: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut leaf = None;
    for line in tree.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = leaf.filter(|address| !found.contains(address))
        {
            found.push(address);
        }
    }
    found
}

/// Interface, network and mask of each route. The numbers are in the byte order of the network, read as this machine's.
fn routes(table: &str) -> Vec<(&str, u32, u32)> {
    let route = |line: &'_ str| -> Option<(u32, u32)> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok().map(u32::from_be);
        Some((hex(1)?, hex(7)?))
    };
    let lines = table.lines().skip(1);
    lines
        .filter_map(|line| {
            route(line).map(|(to, mask)| (line.split_ascii_whitespace().next().unwrap_or(""), to, mask))
        })
        .collect()
}

/// The interface of an own address: that of the narrowest network it is in; the default route says nothing.
fn interface<'r>(routes: &[(&'r str, u32, u32)], address: Ipv4Addr) -> Option<&'r str> {
    if address.is_loopback() {
        return Some("lo");
    }
    let fits = routes.iter().filter(|(_, to, mask)| *mask != 0 && address.to_bits() & mask == *to);
    fits.max_by_key(|(.., mask)| mask.count_ones()).map(|(name, ..)| *name)
}

/// The interrupts that have a handler: `  1:   9   0   IO-APIC   1-edge   i8042`.
pub(super) fn interrupts(proc: &Path, take: &mut dyn FnMut(Record)) {
    let text = fs::read_to_string(proc.join("interrupts")).unwrap_or_default();
    let cpus = text.lines().next().map_or(0, |head| head.split_ascii_whitespace().count());
    for line in text.lines().skip(1) {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse() else { continue };
        let mut words = rest.split_ascii_whitespace().skip(cpus);
        let (Some(chip), Some(_hardware)) = (words.next(), words.next()) else { continue };
        let action = words.collect::<Vec<_>>().join(" ");
        if !action.is_empty() {
            let fields = Fields::new(Kind::Interrupt).u32(number).text(chip.as_bytes());
            take(fields.text(action.as_bytes()).i32(0).record());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_interfaces() {
        let tree = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.2\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        assert_eq!(local_addresses(tree), [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::LOCALHOST]);
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t0100000A\t3\t0\t0\t0\t00000000\neth1\t0000000A\t0\t1\t0\t0\t0\t00FFFFFF\n";
        let routes = routes(table);
        assert_eq!(interface(&routes, Ipv4Addr::new(10, 0, 0, 2)), Some("eth1"));
        assert_eq!(interface(&routes, Ipv4Addr::LOCALHOST), Some("lo"));
        assert_eq!(interface(&routes, Ipv4Addr::new(10, 0, 1, 2)), None);
    }
}
