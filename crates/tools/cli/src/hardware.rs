//! How a hardware trace (Intel PT) is asked for: which CPUs, which addresses, which packets.

use crate::units;
use anyhow::Context;
use mote_daemon::HardwareOptions;
use mote_pmu::device::FOLDER;
use mote_pmu::{Device, Filter, Kept, Linux, Period, Settings};
use mote_symbol::Image;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes of memory for packets of each CPU, unless others are wished.
pub(crate) const MEMORY: u64 = 4 << 20;

/// The CPUs of a list as the kernel writes it; without one, those that are online.
pub(crate) fn cpus(list: Option<&str>) -> anyhow::Result<Vec<u32>> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".to_owned());
    let list = list.unwrap_or(online.trim());
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < 1 << 16).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    let ranges = ranges.with_context(|| format!("`{list}` is no list of CPUs, as in 0,2-3"))?;
    Ok(ranges.into_iter().flatten().collect())
}

/// A filter as people write it.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text, &function)
}

/// Where a function is in a file, and how many bytes it has.
fn function(name: &str, file: &str) -> Result<(u64, u64), String> {
    let image = Image::open(Path::new(file)).map_err(|why| format!("{file}: {why}"))?;
    let mut symbols = image.table.iter().filter(|symbol| symbol.name == name && symbol.size > 0);
    let symbol = symbols.next().ok_or_else(|| format!("{file} has no function `{name}`"))?;
    let offset =
        image.offset_of(symbol.address).ok_or_else(|| format!("`{name}` of {file} is not in the file"))?;
    Ok((offset, symbol.size))
}

/// What is wanted of a hardware trace beside events: words behind `--pt=`, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    settings: Settings,
    snapshot: Option<u64>,
    buffer: Option<u64>,
    filter: Option<Filter>,
    jit: bool,
}

/// The words.
const WORDS: &str = "cyc=N, mtc=N, no-mtc, psb=N, no-return-compression, kernel, jit, snapshot=SIZE, buffer=SIZE, and \
                     last filter=FILTER";

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        let mut left = text;
        while !left.is_empty() {
            // A filter may have commas itself.
            if let Some(text) = left.strip_prefix("filter=") {
                wanted.filter = Some(filter(text)?);
                break;
            }
            let (word, rest) = left.split_once(',').unwrap_or((left, ""));
            wanted.take(word)?;
            left = rest;
        }
        if wanted.snapshot.is_some() && wanted.buffer.is_some() {
            return Err("snapshot=SIZE is the memory's size already: leave buffer= out".to_owned());
        }
        Ok(wanted)
    }
}

impl Wanted {
    fn take(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let unknown = || format!("`{word}` is not known: there are {WORDS}");
        let number = || {
            let value = value.ok_or_else(|| format!("`{name}` needs a number, as in {name}=3"))?;
            value.parse().map_err(|_| format!("`{value}` of `{name}` is no number, as in {name}=3"))
        };
        let size = || units::size(value.ok_or_else(|| format!("`{name}` needs a size, as in {name}=16M"))?);
        let settings = &mut self.settings;
        match name {
            "cyc" => settings.cyc = Some(number()?),
            "mtc" => settings.mtc = Period::Exactly(number()?),
            "psb" => settings.psb = Some(number()?),
            "snapshot" => self.snapshot = Some(size()?),
            "buffer" => self.buffer = Some(size()?),
            _ if value.is_some() => return Err(unknown()),
            "no-mtc" => settings.mtc = Period::Off,
            "no-return-compression" => settings.no_return_compression = true,
            "kernel" => settings.kernel = true,
            "jit" => self.jit = true,
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// The same as a recording is told it, of everything or not; perhaps it keeps the last packets only.
    ///
    /// # Errors
    /// The processor has no Intel PT.
    pub(crate) fn options(&self, all: bool, keeps_last: bool) -> anyhow::Result<HardwareOptions> {
        Ok(HardwareOptions {
            device: Device::read(Path::new(FOLDER))?,
            settings: self.settings.clone(),
            memory: self.snapshot.or(self.buffer).unwrap_or(MEMORY) as usize,
            kept: if self.snapshot.is_some() || keeps_last { Kept::Last } else { Kept::All },
            filter: self.filter.clone(),
            jit: self.jit,
            cpus: cpus(None)?,
            all,
            machine: Arc::new(|_| Box::new(Linux)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_is_wanted() {
        let check = |text: &str, expect: Result<Wanted, &str>| match (text.parse::<Wanted>(), expect) {
            (Ok(wanted), Ok(expect)) => assert_eq!(wanted, expect, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (found, expect) => panic!("{text}: {found:?} is not {expect:?}"),
        };
        let settings = |settings| Wanted { settings, ..Wanted::default() };
        check("", Ok(Wanted::default()));
        check(
            "cyc=6,mtc=3,psb=0",
            Ok(settings(Settings {
                cyc: Some(6),
                mtc: Period::Exactly(3),
                psb: Some(0),
                ..Settings::default()
            })),
        );
        check(
            "kernel,no-mtc,no-return-compression",
            Ok(settings(Settings {
                kernel: true,
                mtc: Period::Off,
                no_return_compression: true,
                ..Settings::default()
            })),
        );
        check("jit", Ok(Wanted { jit: true, ..Wanted::default() }));
        check("snapshot=16M", Ok(Wanted { snapshot: Some(16 << 20), ..Wanted::default() }));
        let found: Wanted = "kernel,filter=filter 0x1/0x2 @ /bin/a, stop 0x3/0x4 @ /bin/a"
            .parse()
            .expect("a filter with a comma");
        assert!(found.settings.kernel && found.filter.is_some_and(|filter| filter.ranges() == 2));
        check("snapshot=16M,buffer=1M", Err("leave buffer= out"));
        check("cycles", Err("`cycles` is not known: there are cyc=N"));
        check("kernel=1", Err("`kernel=1` is not known"));
        check("cyc", Err("as in cyc=3"));
        check("cyc=x", Err("`x` of `cyc` is no number"));
        check("buffer", Err("needs a size"));
        check("filter=main", Err("begins no filter"));
    }
}
