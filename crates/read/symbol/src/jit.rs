//! Tables of run-time compilers: `/tmp/perf-PID.map`, lines of `START SIZE NAME` in base 16 (the kernel's
//! tools/perf/Documentation/jit-interface.txt).

use std::ops::Range;

/// Functions of one process that were compiled at run time.
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    /// In the order of addresses; the name's place in `names`.
    functions: Vec<(Range<u64>, Range<usize>)>,
    names: String,
}

impl PerfMap {
    /// Reads a table; lines that are none are passed over. A later line of the same place counts: compilers append.
    #[must_use]
    pub fn parse(text: &str) -> PerfMap {
        let mut map = PerfMap::default();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut hex = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (Some(start), Some(len)) = (hex(), hex()) else { continue };
            let Some(name) = words.next().filter(|name| !name.is_empty()) else { continue };
            let at = map.names.len();
            map.names.push_str(name);
            map.functions.push((start..start.saturating_add(len), at..map.names.len()));
        }
        map.functions.sort_by_key(|(range, _)| range.start);
        map
    }

    /// The function at `address`, and the offset in it.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let behind = self.functions.partition_point(|(range, _)| range.start <= address);
        // Code that was thrown away may lie under the begin of newer code: a few are looked through.
        let before = self.functions.get(behind.saturating_sub(16)..behind)?;
        let (range, name) = before.iter().rev().find(|(range, _)| range.contains(&address))?;
        Some((self.names.get(name.clone())?, address - range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_made_at_run_time() {
        let map = PerfMap::parse(
            "3000 10 LazyCompile:~add /app/a.js:1\n2000 20 old\n2000 10 new\n\nbad line\n10 zz no\nff",
        );
        assert_eq!(map.find(0x3004), Some(("LazyCompile:~add /app/a.js:1", 4)));
        assert_eq!(map.find(0x2004), Some(("new", 4)));
        assert_eq!(map.find(0x2014), Some(("old", 0x14)));
        assert_eq!(map.find(0x3010), None);
        assert_eq!(map.find(0), None);
    }
}
