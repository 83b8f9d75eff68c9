//! What a machine's Intel PT can do, as its kernel says it in `/sys/bus/event_source/devices/intel_pt`.
//!
//! Source: Linux, arch/x86/events/intel/pt.c: `caps` are the bits of CPUID.14H as hexadecimal numbers, `format` says
//! which bits of an event's `config` are what.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel says it.
pub const FOLDER: &str = "/sys/bus/event_source/devices/intel_pt";

/// Intel PT of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The unit's number, for perf_event_open(2).
    pub unit: u32,
    /// Parts of an event's `config`, by name.
    formats: BTreeMap<String, Field>,
    /// What the processor can do, by name.
    caps: BTreeMap<String, u64>,
    /// How many address ranges an event can be limited to.
    pub filters: u64,
    /// The TSC's frequency in 100 MHz; 0: not known.
    pub max_nonturbo_ratio: u64,
    /// Ticks of the TSC for each of the crystal clock, as numerator and denominator; 0: not known.
    pub tsc_per_art: (u32, u32),
}

/// Why there is no Intel PT.
#[derive(Debug, thiserror::Error)]
pub enum NoDevice {
    /// The machine has none.
    #[error(
        "this machine has no Intel PT: Intel's processors since Broadwell (2015) have it, virtual machines where the \
         host passes it on; `mote pt synth` makes the same packets of a program on any machine"
    )]
    None,
    /// What the kernel says is not understood.
    #[error("{path}: {why}", path = path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// A part of an event's attribute: bits of one of its words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    /// 0: `config`, 1: `config1`, 2: `config2`.
    word: usize,
    /// First and last bit of each range, the lowest bits of the value first.
    ranges: Vec<(u32, u32)>,
}

impl Device {
    /// Reads the kernel's directory ([`FOLDER`], or a copy).
    ///
    /// # Errors
    /// There is none, or it is not as the kernel writes it.
    pub fn read(folder: &Path) -> Result<Device, NoDevice> {
        let path = folder.join("type");
        let text = fs::read_to_string(&path).map_err(|_| NoDevice::None)?;
        let strange = |path: PathBuf, why: &str| NoDevice::Strange { path, why: why.to_owned() };
        let unit = text.trim().parse().map_err(|_| strange(path, "it should be a number"))?;
        let mut device = Device { unit, ..Device::default() };
        for (name, path, text) in files(&folder.join("format")) {
            let field = Field::parse(text.trim());
            let field = field.ok_or_else(|| strange(path, "it should say bits, as in `config:14-17`"))?;
            device.formats.insert(name, field);
        }
        for (name, path, text) in files(&folder.join("caps")) {
            let value = u64::from_str_radix(text.trim(), 16);
            let value = value.map_err(|_| strange(path, "it should be a hexadecimal number"))?;
            device.caps.insert(name, value);
        }
        let number = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
        device.max_nonturbo_ratio = number("max_nonturbo_ratio").unwrap_or(0);
        device.filters = number("nr_addr_filters").unwrap_or(0);
        // `108:2`
        let ratio = fs::read_to_string(folder.join("tsc_art_ratio")).unwrap_or_default();
        let ratio = ratio.trim().split_once(':').and_then(|(n, d)| Some((n.parse().ok()?, d.parse().ok()?)));
        device.tsc_per_art = ratio.unwrap_or((0, 0));
        Ok(device)
    }

    /// What the processor can do; 0 of what is not said.
    #[must_use]
    pub fn cap(&self, name: &str) -> u64 {
        self.caps.get(name).copied().unwrap_or(0)
    }

    /// The capabilities of the device, by name (sysfs, `caps`).
    pub fn caps(&self) -> impl Iterator<Item = (&str, u64)> {
        self.caps.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Whether the kernel knows a part of `config`.
    #[must_use]
    pub fn has(&self, format: &str) -> bool {
        self.formats.contains_key(format)
    }

    /// The bits of a part of an event's words (`config`, `config1`, `config2`) when it has a value; `None` where the
    /// kernel does not know the part, or the value is too large.
    #[must_use]
    pub fn bits(&self, format: &str, value: u64) -> Option<[u64; 3]> {
        self.formats.get(format)?.bits(value)
    }

    /// All bits of a part of `config`.
    #[must_use]
    pub fn mask(&self, format: &str) -> u64 {
        let field = self.formats.get(format).filter(|field| field.word == 0);
        field.map_or(0, |field| field.ranges.iter().fold(0, |mask, range| mask | range_mask(*range)))
    }
}

/// The files of a directory: name, path, what is in them.
fn files(folder: &Path) -> Vec<(String, PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let path = entry.path();
        Some((entry.file_name().into_string().ok()?, path.clone(), fs::read_to_string(path).ok()?))
    };
    entries.filter_map(file).collect()
}

impl Field {
    /// `config:14-17`, `config1:0-7,32`
    fn parse(text: &str) -> Option<Field> {
        let (word, ranges) = text.split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < 64).then_some((first, last))
        };
        let ranges = ranges.split(',').map(range).collect::<Option<_>>()?;
        Some(Field { word, ranges })
    }

    fn bits(&self, mut value: u64) -> Option<[u64; 3]> {
        let mut words = [0; 3];
        for (first, last) in &self.ranges {
            let mask = range_mask((*first, *last));
            words[self.word] |= value << first & mask;
            value = value.checked_shr(last - first + 1).unwrap_or(0);
        }
        (value == 0).then_some(words)
    }
}

fn range_mask((first, last): (u32, u32)) -> u64 {
    u64::MAX >> (63 - (last - first)) << first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_bits() {
        let check = |text: &str, value, expect: Option<[u64; 3]>| {
            assert_eq!(Field::parse(text).and_then(|field| field.bits(value)), expect, "{text} {value:#x}");
        };
        check("config:0", 1, Some([1, 0, 0]));
        check("config:0", 2, None);
        check("config:14-17", 15, Some([0x3c000, 0, 0]));
        check("config:14-17", 16, None);
        check("config1:0-3,60-63", 0xa5, Some([0, 0xa000_0000_0000_0005, 0]));
        check("config2:0-63", u64::MAX, Some([0, 0, u64::MAX]));
        for wrong in
            ["", "config", "config:", "config3:1", "config:64", "config:5-4", "config:x", "config:1-"]
        {
            assert_eq!(Field::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn where_there_is_none_it_is_said_what_has_it() {
        let folder = tempfile::tempdir().expect("a directory");
        let why = Device::read(folder.path()).expect_err("nothing is there").to_string();
        assert!(why.contains("Broadwell") && why.contains("mote pt synth"), "{why}");
        fs::write(folder.path().join("type"), "eight\n").expect("a file");
        let why = Device::read(folder.path()).expect_err("no number").to_string();
        assert!(why.contains("type: it should be a number"), "{why}");
    }
}
