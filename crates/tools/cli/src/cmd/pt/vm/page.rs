//! The page with pictures: what each processor was busy with, and what each machine, vCPU and process did.

use super::label::{Labels, Subject, ns};
use mote_hardware::vm::{Doing, Interval, Space, VcpuId};
use mote_view::page::{Page, Track, View};
use mote_words::{counted_grouped, grouped};
use std::collections::BTreeMap;

/// Intervals of a row that a page has.
const SHOWN: usize = 200_000;
/// Processes of a vCPU that have a row, by the order in which they come.
const PROCESSES: usize = 64;

/// Takes intervals, and becomes a page.
pub(super) struct Pictures<'l> {
    labels: &'l Labels<'l>,
    /// What was read.
    about: String,
    processors: BTreeMap<usize, Row>,
    vcpus: BTreeMap<VcpuId, Vcpu>,
    /// Intervals that are too many, or of processes that are.
    left_out: u64,
}

#[derive(Default)]
struct Vcpu {
    row: Row,
    processes: BTreeMap<Space, Row>,
}

#[derive(Default)]
struct Row {
    track: Track,
    /// Numbers of kinds.
    kinds: BTreeMap<String, u32>,
}

impl Row {
    /// Adds an interval. Returns whether there was room.
    fn add(&mut self, (begin, end): (u64, u64), kind: &str, note: String) -> bool {
        if self.track.intervals.len() == SHOWN {
            return false;
        }
        let next = self.track.kinds.len() as u32;
        let kind_number = match self.kinds.get(kind) {
            Some(number) => *number,
            None => {
                self.track.kinds.push(kind.to_owned());
                self.kinds.insert(kind.to_owned(), next);
                next
            }
        };
        self.track.intervals.push((begin, end, kind_number, note));
        true
    }

    fn named(self, name: String, level: u32) -> Track {
        Track { name, level, ..self.track }
    }
}

impl<'l> Pictures<'l> {
    pub(super) fn new(labels: &'l Labels<'l>, about: String) -> Pictures<'l> {
        Pictures { labels, about, processors: BTreeMap::new(), vcpus: BTreeMap::new(), left_out: 0 }
    }

    /// Takes an interval; those without times are in no picture.
    pub(super) fn add(&mut self, cpu: usize, interval: &Interval) {
        let (hz, first) = (self.labels.hz(cpu), self.labels.begin.unwrap_or(0));
        let unit = |ticks: u64| ns(ticks, hz).unwrap_or(ticks);
        let Some((begin, end)) = interval.begin.zip(interval.end) else { return };
        let times = (unit(begin.saturating_sub(first)), unit(end.saturating_sub(first)));
        let subject = self.labels.subject(interval);
        let (kind, note) = self.words(interval, &subject);
        let mut has_room = self.processors.entry(cpu).or_default().add(times, &kind, note);
        if let Some(id) = subject.id.filter(|id| id.vmcs.is_some()) {
            let place = self.labels.cpu(cpu);
            let vcpu = self.vcpus.entry(id).or_default();
            has_room &= vcpu.row.add(times, subject.state, place.clone());
            let is_guest = matches!(interval.doing, Doing::Guest { .. });
            if let Some(space) = subject.space.filter(|_| is_guest) {
                let has_row = vcpu.processes.contains_key(&space) || vcpu.processes.len() < PROCESSES;
                has_room &=
                    has_row && vcpu.processes.entry(space).or_default().add(times, subject.state, place);
            }
        }
        self.left_out += u64::from(!has_room);
    }

    /// What a processor is busy with, and more of it.
    fn words(&self, interval: &Interval, subject: &Subject) -> (String, String) {
        let vm = subject.id.and_then(|id| id.vm);
        let vcpu = || subject.id.map_or_else(String::new, |id| self.labels.short(&id));
        match (interval.doing, subject.space) {
            (Doing::Guest { .. }, Some(space)) => (vcpu(), self.labels.process(vm, space)),
            (Doing::Unknown(why), _) => (subject.state.to_owned(), why.words().to_owned()),
            (_, Some(space)) => (subject.state.to_owned(), self.labels.host(space)),
            _ => (subject.state.to_owned(), vcpu()),
        }
    }

    /// Makes the page with both views, as HTML.
    pub(super) fn page(self) -> String {
        let labels = self.labels;
        let has_hz = labels.inputs.iter().all(|input| input.tsc_hz.is_some());
        let unit = if has_hz { "ns" } else { "ticks" };
        let processors = self.processors.into_iter().map(|(cpu, row)| row.named(labels.cpu(cpu), 0));
        let view = |title: &str, tracks: Vec<Track>| View::Tracks {
            title: title.to_owned(),
            unit: unit.to_owned(),
            tracks,
        };
        let resources = view("Processors: which vCPU has them", processors.collect());
        let mut tracks = Vec::new();
        let mut last = None;
        for (id, vcpu) in self.vcpus {
            if last != Some(id.vm) {
                let name = format!("machine {}", labels.machine(id.vm));
                tracks.push(Track { name, ..Track::default() });
                last = Some(id.vm);
            }
            tracks.push(vcpu.row.named(labels.vcpu(id.vmcs), 1));
            let of_it = vcpu.processes.into_iter();
            tracks.extend(of_it.map(|(space, row)| row.named(labels.process(id.vm, space), 2)));
        }
        let machines = view("Machines, vCPUs, processes: what they do", tracks);
        let mut about = self.about;
        if self.left_out > 0 {
            let intervals = counted_grouped(self.left_out, "interval is", "intervals are");
            let most = grouped(SHOWN as u64);
            about += &format!(
                "; {intervals} not in every row: a row has at most {most}, a vCPU at most {PROCESSES} processes"
            );
        }
        Page { title: "Virtual machines".to_owned(), about, views: vec![resources, machines] }.html()
    }
}
