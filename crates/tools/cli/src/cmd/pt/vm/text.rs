//! Tables and lines for people.

use super::input::missing;
use super::label::{Labels, ns, rate};
use mote_analysis::{Histogram, latency};
use mote_hardware::vm::{Counts, Doing, Edge, Interval, Rest, Space, Sum, Unknown, Vcpu, VcpuId};
use mote_words::{counted_grouped, grouped, size};
use std::fmt::{Result, Write};

/// Processes that are shown of each vCPU.
const PROCESSES: usize = 10;
/// Address spaces of the host that are shown.
const HOSTS: usize = 10;
/// Others that are named behind which a vCPU may have waited.
const BEHIND: usize = 4;

/// The summary.
pub(super) fn tables(labels: &Labels<'_>, counts: &[Counts]) -> String {
    let mut page = Page { labels, out: String::new() };
    // Writing to a string does not fail.
    let _ = page.all(counts);
    page.out
}

/// An interval, as a line.
pub(super) fn interval(labels: &Labels<'_>, cpu: usize, interval: &Interval) -> String {
    let (hz, begin) = (labels.hz(cpu), labels.begin.unwrap_or(0));
    let since = interval.begin.and_then(|time| time.checked_sub(begin));
    let at = since.map_or_else(|| "-".to_owned(), |ticks| time(ticks, hz));
    let length = interval.ticks().map_or_else(|| "-".to_owned(), |ticks| time(ticks, hz));
    let subject = labels.subject(interval);
    let mut who = String::new();
    if let Some(id) = subject.id {
        who = format!(" {} of {}", labels.vcpu(id.vmcs), labels.machine(id.vm));
    }
    match (interval.doing, subject.space) {
        (Doing::Guest { .. }, Some(space)) => {
            who += &format!(", {}", labels.process(subject.id.and_then(|id| id.vm), space));
        }
        (_, Some(space)) => who += &format!(" {}", labels.host(space)),
        (Doing::Unknown(why), _) => who += &format!(" {}", why.words()),
        (Doing::Idle { by: Rest::Silence, .. }, _) => who += " by its silence",
        _ => {}
    }
    let cut = match (interval.begins, interval.ends) {
        (Edge::Seen, Edge::Seen) => "",
        (Edge::Cut, Edge::Seen) => "  [begins before]",
        (Edge::Seen, Edge::Cut) => "  [ends later]",
        (Edge::Cut, Edge::Cut) => "  [begins before, ends later]",
    };
    let off = if interval.is_untraced { "  [tracing was off for a part]" } else { "" };
    let state = subject.state;
    let line = format!("{:<7} {at:>12} {length:>12}  {state:<7}{who}{cut}{off}", labels.cpu(cpu));
    line.trim_end().to_owned()
}

struct Page<'l> {
    labels: &'l Labels<'l>,
    out: String,
}

impl Page<'_> {
    fn all(&mut self, counts: &[Counts]) -> Result {
        self.cpus()?;
        self.machines()?;
        self.hosts()?;
        self.waits()?;
        self.notes(counts)
    }

    fn cpus(&mut self) -> Result {
        writeln!(
            self.out,
            "{:<14} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>9} {:>9} {:>9}",
            "processor", "time", "guest", "vmm", "host", "idle", "unknown", "switches", "median", "99 %"
        )?;
        for (place, cpu) in self.labels.summary.cpus() {
            let hz = self.labels.hz(*place);
            let total = cpu.seen.map(|(first, last)| last - first);
            let mut unknown = Sum::default();
            cpu.unknown.values().for_each(|sum| unknown.join(sum));
            let cell = |sum: &Sum| share(sum, total);
            let [guest, vmm, host, idle, unknown] =
                [cell(&cpu.guest), cell(&cpu.vmm), cell(&cpu.host), cell(&cpu.idle), cell(&unknown)];
            let switches = &cpu.switches;
            writeln!(
                self.out,
                "{:<14} {:>10} {guest:>9} {vmm:>9} {host:>9} {idle:>9} {unknown:>9}  {:>9} {:>9} {:>9}",
                self.labels.cpu(*place),
                total.map_or_else(|| "-".to_owned(), |ticks| time(ticks, hz)),
                grouped(switches.count()),
                quantile(switches, 500, hz),
                quantile(switches, 990, hz),
            )?;
        }
        Ok(())
    }

    fn machines(&mut self) -> Result {
        let vcpus = self.labels.summary.vcpus();
        if vcpus.is_empty() {
            return writeln!(self.out, "\nno virtual machine was seen: no PIP packet has its bit NR set");
        }
        writeln!(
            self.out,
            "\n{:<44} {:>10} {:>10} {:>9} {:>10} {:>9} {:>9}  processors",
            "machine, vCPU, process", "guest", "vmm", "exits", "exits/s", "handling", "99 %"
        )?;
        let mut last = None;
        // A VMM that has not loaded its VMCS yet is no vCPU's for a moment.
        let is_shown = |vcpu: &Vcpu| vcpu.guest.intervals > 0 || vcpu.vmm.known() != Some(0);
        for (id, vcpu) in vcpus.iter().filter(|(_, vcpu)| is_shown(vcpu)) {
            if last != Some(id.vm) {
                writeln!(self.out, "machine {}", self.labels.machine(id.vm))?;
                last = Some(id.vm);
            }
            self.vcpu(id, vcpu)?;
        }
        Ok(())
    }

    fn vcpu(&mut self, id: &VcpuId, vcpu: &Vcpu) -> Result {
        let hz = self.labels.hz_of(vcpu).or_else(|| self.labels.hz(0));
        let name = match id.vmcs {
            Some(_) => format!("  vCPU {}", self.labels.vcpu(id.vmcs)),
            None => "  no vCPU that is known".to_owned(),
        };
        let cpus: Vec<String> =
            vcpu.cpus.iter().map(|cpu| self.labels.cpu(*cpu).replace("cpu ", "")).collect();
        writeln!(
            self.out,
            "{name:<44} {:>10} {:>10} {:>9} {:>10} {:>9} {:>9}  {}",
            length(&vcpu.guest, hz),
            length(&vcpu.vmm, hz),
            grouped(vcpu.exits),
            rate(vcpu, hz).map_or_else(|| "-".to_owned(), grouped),
            quantile(&vcpu.handling, 500, hz),
            quantile(&vcpu.handling, 990, hz),
            cpus.join(", "),
        )?;
        self.processes(id, hz)
    }

    fn processes(&mut self, id: &VcpuId, hz: Option<u64>) -> Result {
        let of_vcpu = (*id, Space::of(0))..=(*id, Space::of(u64::MAX));
        let mut all: Vec<_> = self.labels.summary.processes().range(of_vcpu).collect();
        all.sort_by_key(|((_, space), process)| (u64::MAX - process.guest.ticks, *space));
        for ((_, space), process) in all.iter().take(PROCESSES) {
            let name = format!("    process {}", self.labels.process(id.vm, *space));
            writeln!(self.out, "{name:<44} {:>10}", length(&process.guest, hz))?;
        }
        if all.len() > PROCESSES {
            let more = counted_grouped((all.len() - PROCESSES) as u64, "process", "processes");
            writeln!(self.out, "    and {more} more (--format json)")?;
        }
        Ok(())
    }

    fn hosts(&mut self) -> Result {
        let mut all: Vec<(Space, Sum)> = self.labels.summary.host().into_iter().collect();
        all.sort_by_key(|(space, sum)| (u64::MAX - sum.ticks, *space));
        if !all.is_empty() {
            writeln!(self.out, "\n{:<44} {:>10}", "other address spaces of the host", "time")?;
        }
        for (space, sum) in all.iter().take(HOSTS) {
            let name = format!("  {}", self.labels.host(*space));
            writeln!(self.out, "{name:<44} {:>10}", length(sum, self.labels.hz(0)))?;
        }
        if all.len() > HOSTS {
            writeln!(self.out, "  and {} more (--format json)", grouped((all.len() - HOSTS) as u64))?;
        }
        Ok(())
    }

    fn waits(&mut self) -> Result {
        let waiting = self.labels.summary.vcpus().iter().filter(|(_, vcpu)| vcpu.waits.count > 0);
        let mut is_first = true;
        for (id, vcpu) in waiting {
            if std::mem::take(&mut is_first) {
                writeln!(
                    self.out,
                    "\n{:<44} {:>9} {:>10} {:>10}  behind",
                    "waited for a processor, at most", "times", "in all", "longest"
                )?;
            }
            let (waits, hz) = (&vcpu.waits, self.labels.hz_of(vcpu));
            let mut behind: Vec<String> =
                waits.behind.iter().take(BEHIND).map(|id| self.labels.short(id)).collect();
            if waits.behind.len() > BEHIND {
                behind.push("...".to_owned());
            }
            let name = format!("  {} of {}", self.labels.vcpu(id.vmcs), self.labels.machine(id.vm));
            writeln!(
                self.out,
                "{name:<44} {:>9} {:>10} {:>10}  {}",
                grouped(waits.count),
                time(waits.at_most, hz),
                time(waits.at_most_max, hz),
                behind.join(", ")
            )?;
        }
        Ok(())
    }

    /// What is missing.
    fn notes(&mut self, counts: &[Counts]) -> Result {
        let mut notes = Vec::new();
        let late = counts.iter().map(|counts| counts.late_max).max().unwrap_or(0);
        let is_timed = self.labels.begin.is_some();
        if !is_timed {
            notes.push("there are no packets of time: intervals are counted, in parentheses".to_owned());
        } else if late > 0 {
            notes.push(format!("changes are told up to {} too early", time(late, self.labels.hz(0))));
        }
        if is_timed {
            notes.extend(missing(self.labels.inputs).into_iter().map(str::to_owned));
        }
        for (place, counts) in counts.iter().enumerate() {
            let what = lost(counts);
            if !what.is_empty() {
                notes.push(format!("{}: {}", self.labels.cpu(place), what.join(", ")));
            }
        }
        let others = self.labels.summary.others().intervals;
        if others > 0 {
            let others = counted_grouped(others, "interval is", "intervals are");
            notes.push(format!("{others} in no row: there are too many vCPUs, processes or address spaces"));
        }
        for (place, cpu) in self.labels.summary.cpus().iter().filter(|_| is_timed) {
            let untimed: u64 =
                [&cpu.guest, &cpu.vmm, &cpu.host, &cpu.idle].iter().map(|sum| sum.untimed).sum();
            if untimed > 0 {
                let intervals = counted_grouped(untimed, "interval has", "intervals have");
                notes.push(format!(
                    "{}: {intervals} no time, and no part in these sums",
                    self.labels.cpu(*place)
                ));
            }
        }
        for (place, cpu) in self.labels.summary.cpus() {
            for (why, sum) in cpu.unknown.iter().filter(|(why, _)| **why != Unknown::NotYet) {
                let (cpu, length) = (self.labels.cpu(*place), length(sum, self.labels.hz(*place)));
                notes.push(format!(
                    "{cpu}: {length} not known in {} intervals: {}",
                    sum.intervals,
                    why.words()
                ));
            }
        }
        for vcpu in self.labels.summary.vcpus().values().filter(|vcpu| vcpu.waits.overlap_max > 2 * late + 8)
        {
            let overlap = time(vcpu.waits.overlap_max, self.labels.hz_of(vcpu));
            notes.push(format!(
                "the processors' clocks differ by {overlap} at least: a vCPU seems to be on two at once"
            ));
        }
        let seen = || self.labels.summary.cpus().values().filter_map(|cpu| cpu.seen);
        if seen().map(|(first, _)| first).max() > seen().map(|(_, last)| last).min() {
            notes.push(
                "some processors have no time in common: their clocks differ, or they were recorded one after the other"
                    .to_owned(),
            );
        }
        notes.dedup();
        if !notes.is_empty() {
            writeln!(self.out)?;
        }
        notes.iter().try_for_each(|note| writeln!(self.out, "{note}"))
    }
}

/// What is missing of a processor's packets.
fn lost(counts: &Counts) -> Vec<String> {
    let mut what = Vec::new();
    if counts.skipped > 0 {
        what.push(format!("{} before the first PSB", size(counts.skipped)));
    }
    if counts.overflows > 0 {
        what.push(format!("packets lost {}", counted_grouped(counts.overflows, "time", "times")));
    }
    if counts.damaged > 0 {
        what.push(format!("{} damaged", size(counts.damaged)));
    }
    if counts.contradictions > 0 {
        what.push(counted_grouped(counts.contradictions, "contradiction", "contradictions"));
    }
    if counts.clock_steps > 0 {
        what.push(format!("the clock goes back {}", counted_grouped(counts.clock_steps, "time", "times")));
    }
    what
}

/// Ticks as time, or as they are where it is not known how long they are.
fn time(ticks: u64, hz: Option<u64>) -> String {
    ns(ticks, hz).map_or_else(|| grouped(ticks), latency::time)
}

/// A sum, or in parentheses how many there are without a time.
fn length(sum: &Sum, hz: Option<u64>) -> String {
    match (sum.known(), sum.intervals) {
        (Some(ticks), _) => time(ticks, hz),
        (None, 0) => "-".to_owned(),
        (None, intervals) => format!("({})", grouped(intervals)),
    }
}

fn share(sum: &Sum, total: Option<u64>) -> String {
    match (sum.known(), total) {
        (Some(ticks), Some(total)) if total > 0 => format!("{:.1} %", ticks as f64 / total as f64 * 100.0),
        _ => length(sum, None),
    }
}

fn quantile(histogram: &Histogram, permille: u64, hz: Option<u64>) -> String {
    histogram.quantile(permille).map_or_else(|| "-".to_owned(), |ticks| time(ticks, hz))
}
