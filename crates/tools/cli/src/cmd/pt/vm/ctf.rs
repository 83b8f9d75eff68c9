//! Intervals as a CTF 1.8 trace: an event where each begins, a stream for each processor.

use super::super::output;
use super::label::Labels;
use anyhow::{Context, ensure};
use mote_ctf::model::{
    Base, ClockClass, EnumClass, EnvValue, EventClass, FieldClass, IntClass, Mapping, Origin, Range,
    StringClass, StructClass, TraceClass,
};
use mote_ctf::write::{plain, tsdl};
use mote_hardware::vm::{Edge, Interval};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// States, by their number.
const STATES: [&str; 5] = ["vm", "vmm", "host", "idle", "unknown"];

/// A trace that is written.
pub(super) struct Trace<'l> {
    labels: &'l Labels<'l>,
    streams: Vec<(plain::Stream, File)>,
    /// Intervals that have no time, which no trace can hold.
    untimed: u64,
}

impl<'l> Trace<'l> {
    /// Makes the directory, and the files of metadata and streams.
    ///
    /// # Errors
    /// They cannot be made, or the processors' clocks differ.
    pub(super) fn create(folder: &Path, labels: &'l Labels<'l>) -> anyhow::Result<Trace<'l>> {
        let hz = labels.hz(0).context("how fast the time-stamp counter is, is not known: give --tsc-hz")?;
        let is_same = labels.inputs.iter().all(|input| input.tsc_hz == Some(hz));
        ensure!(is_same, "the processors' counters have different speeds: write a trace of each of them");
        let cannot = || format!("cannot write a trace into {}", folder.display());
        output::make(folder)?;
        fs::write(folder.join("metadata"), tsdl(&trace_class(hz))?).with_context(cannot)?;
        let stream = |(place, cpu): (usize, u32)| {
            let file = File::create_new(folder.join(format!("processor_{place}"))).with_context(cannot)?;
            Ok((plain::Stream::new(cpu), file))
        };
        let cpus = labels.inputs.iter().map(|input| input.cpu).enumerate();
        let streams = cpus.map(stream).collect::<anyhow::Result<_>>()?;
        Ok(Trace { labels, streams, untimed: 0 })
    }

    /// Adds the event of an interval's begin.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn add(&mut self, place: usize, interval: &Interval) -> anyhow::Result<()> {
        let (Some(begin), Some((stream, file))) = (interval.begin, self.streams.get_mut(place)) else {
            self.untimed += 1;
            return Ok(());
        };
        let subject = self.labels.subject(interval);
        let (vm, vmcs) = (subject.id.and_then(|id| id.vm), subject.id.and_then(|id| id.vmcs));
        let state = STATES.iter().position(|state| *state == subject.state).unwrap_or(STATES.len() - 1);
        let name = match subject.state {
            "vm" => subject.space.and_then(|space| self.labels.names.process(vm, space)),
            _ => subject.space.and_then(|space| self.labels.names.host(space)),
        };
        let flags = [interval.begins == Edge::Cut, interval.ends == Edge::Cut, interval.is_untraced];
        let vcpu_name = vmcs.and_then(|vmcs| self.labels.names.vmcs(vmcs));
        stream.event(
            0,
            begin,
            &[
                &[state as u8],
                &vm.map_or(0, |vm| vm.address()).to_le_bytes(),
                &vmcs.map_or(0, |vmcs| vmcs.address()).to_le_bytes(),
                &subject.space.map_or(0, |space| space.address()).to_le_bytes(),
                &interval.ticks().unwrap_or(0).to_le_bytes(),
                &flags.map(u8::from),
                &text(vcpu_name),
                &text(name),
            ],
        );
        file.write_all(&stream.take()).context("cannot write a trace")
    }

    /// Writes what is left. Returns how many intervals have no time, and are left out.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(self) -> anyhow::Result<u64> {
        for (stream, mut file) in self.streams {
            file.write_all(&stream.finish()).context("cannot write a trace")?;
        }
        Ok(self.untimed)
    }
}

/// A text as CTF has it: with a 0 at its end, and none before.
fn text(text: Option<&str>) -> Vec<u8> {
    text.unwrap_or("").bytes().filter(|byte| *byte != 0).chain([0]).collect()
}

fn trace_class(hz: u64) -> TraceClass {
    let int = |bits: u32| IntClass::new(bits, false);
    let plain = |bits: u32| FieldClass::Int(int(bits));
    let address = || FieldClass::Int(int(64).with_base(Base::Hexadecimal));
    let mapping =
        |(value, label): (u8, &&str)| Mapping { label: (*label).to_owned(), ranges: vec![Range::one(value)] };
    let states = EnumClass { int: int(8), mappings: (0..).zip(&STATES).map(mapping).collect() };
    let payload = StructClass::new([
        ("state", FieldClass::Enum(states)),
        ("vm", address()),
        ("vcpu", address()),
        ("cr3", address()),
        ("ticks", plain(64)),
        ("begins_before", plain(8)),
        ("ends_later", plain(8)),
        ("untraced", plain(8)),
        ("vcpu_name", FieldClass::String(StringClass::default())),
        ("name", FieldClass::String(StringClass::default())),
    ]);
    let clock = ClockClass {
        name: "tsc".to_owned(),
        description: Some("time-stamp counter of the processors".to_owned()),
        frequency: hz,
        origin: Origin::Unknown,
        ..ClockClass::default()
    };
    let environment = vec![
        ("domain".to_owned(), EnvValue::Str("hardware".to_owned())),
        ("tracer_name".to_owned(), EnvValue::Str("mote".to_owned())),
    ];
    let event =
        EventClass { id: 0, name: "vm:interval".to_owned(), payload: Some(payload), ..EventClass::default() };
    plain::trace_class(environment, clock, None, vec![event])
}
