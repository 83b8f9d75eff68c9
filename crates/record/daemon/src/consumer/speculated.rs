//! Records that threads kept aside and then committed, on their way from the groups' pools to packets in files.
//!
//! They are older than what the rings hold by then, so they get streams of their own. A stream takes what begins after
//! all that it has; so there are about as many streams as threads that speculate at the same time.

use crate::area::group::GroupArea;
use crate::consumer::stacks::Stacks;
use crate::consumer::totals::{Context, Totals};
use crate::consumer::walk::{self, Steps};
use crate::output::sink::{Bytes, StreamSink};
use mote_clock::extend::nearest;
use mote_layout::packet::{PacketHeader, STREAM_SHARED};
use mote_layout::record::{TIME_BITS, split};
use mote_ring::speculation::Reader;
use mote_sys::Result;
use mote_words::counted;

/// Number of the first stream: those of rings come before.
const FIRST: u32 = 1 << 31;

/// One stream of committed records.
struct Kept {
    sink: Box<dyn StreamSink>,
    number: u32,
    sequence: u64,
    last_time: u64,
    /// Its records, by event.
    counts: Vec<u64>,
}

/// Where they go.
pub(crate) struct Output<'s> {
    pub(crate) context: &'s Context,
    /// How to step over each event.
    pub(crate) events: &'s [Steps],
    pub(crate) totals: &'s mut Totals,
    /// What makes addresses of copies of stacks, where records have such.
    pub(crate) stacks: Option<&'s mut Stacks>,
}

/// All that is committed in a session.
#[derive(Default)]
pub(crate) struct Speculated {
    streams: Vec<Kept>,
    records: Vec<u8>,
    is_damage_reported: bool,
    failed: Option<String>,
}

impl Speculated {
    /// Takes memory for what is committed in an area.
    pub(crate) fn make_room(&mut self, area: &GroupArea) {
        let room = area.pool().map_or(0, |pool| Reader::new(pool).room());
        self.records.resize(room.max(self.records.len()), 0);
    }

    /// Frees what threads and processes have open that are no more, as `is_alive(pid, tid, began)` says.
    pub(crate) fn reap<'a>(
        areas: impl Iterator<Item = &'a GroupArea>,
        totals: &mut Totals,
        is_alive: impl Fn(u32, u32, u64) -> bool,
    ) {
        let torn: u32 =
            areas.filter_map(GroupArea::pool).map(|pool| Reader::new(pool).reap(&is_alive).torn).sum();
        if torn > 0 {
            totals.problems.push(format!(
                "some records that were kept aside and committed are missing: {} killed while they were written",
                counted(torn, "process was", "processes were")
            ));
        }
    }

    /// Why the streams cannot be written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.clone()
    }

    /// Writes everything that is committed. Returns true when there was something.
    pub(crate) fn drain<'a>(
        &mut self,
        areas: impl Iterator<Item = &'a GroupArea>,
        mut output: Output<'_>,
    ) -> bool {
        let mut records = std::mem::take(&mut self.records);
        let mut any = false;
        for reader in areas.filter_map(GroupArea::pool).map(Reader::new) {
            while let Some((thread, len)) = reader.take(&mut records) {
                any = true;
                if let Err(why) = self.write(&mut output, &records[..len]) {
                    let why =
                        format!("cannot write the records that process {} has committed: {why}", thread.pid);
                    let text = format!("{why}; recording stops; what was written before is complete");
                    output.totals.problems.push(text);
                    self.failed = Some(why);
                }
            }
        }
        self.records = records;
        any
    }

    fn write(&mut self, output: &mut Output<'_>, records: &[u8]) -> Result<()> {
        let Output { context, events, totals, stacks } = output;
        let Some(first) = records.first_chunk::<8>() else { return Ok(()) };
        let now = context.clock.ticks() + crate::consumer::ring::SKEW_TICKS;
        let begin = nearest(now, split(u64::from_le_bytes(*first)).1, TIME_BITS);
        totals.counts.resize(events.len(), 0);
        let mut counts = vec![0; events.len()];
        let walked = walk::walk(records, crate::consumer::totals::low(begin, now), events, &mut counts);
        if walked.good < records.len() && !self.is_damage_reported {
            self.is_damage_reported = true;
            totals.problems.push(
                "a traced process overwrote records that it kept aside; some of them are missing".to_owned(),
            );
        }
        if self.failed.is_some() {
            totals.unwritten += walked.records;
            return Ok(());
        }
        if walked.good == 0 {
            return Ok(());
        }
        let end = nearest(now, walked.last_time, TIME_BITS).max(begin);
        let good = records.get(..walked.good).unwrap_or(records);
        let unwound = stacks.as_mut().and_then(|stacks| stacks.unwound(good, end, events));
        let good = unwound.as_deref().unwrap_or(good);
        let kept = self.stream(context, begin)?;
        let bytes = kept.add(context, (begin, end), good)?;
        kept.counts.resize(counts.len().max(kept.counts.len()), 0);
        crate::consumer::totals::add(&mut kept.counts, &counts);
        crate::consumer::totals::add(&mut totals.counts, &counts);
        totals.bytes += bytes;
        totals.packets += 1;
        Ok(())
    }

    /// The stream that ends last before `begin`, or a new one.
    fn stream(&mut self, context: &Context, begin: u64) -> Result<&mut Kept> {
        let before = self.streams.iter_mut().enumerate().filter(|(_, kept)| kept.last_time <= begin);
        let found = before.max_by_key(|(_, kept)| kept.last_time).map(|(at, _)| at);
        let at = match found {
            Some(at) => at,
            None => {
                let number = self.streams.len() as u32;
                let name = format!("speculated_{}", self.streams.len());
                let sink = context.sink.stream(&name)?;
                self.streams.push(Kept { sink, number, sequence: 0, last_time: 0, counts: Vec::new() });
                self.streams.len() - 1
            }
        };
        Ok(&mut self.streams[at])
    }

    /// Ends the files. Records of one that was removed meanwhile are lost.
    pub(crate) fn close(&mut self, totals: &mut Totals) {
        for kept in &mut self.streams {
            kept.sink.finish();
            if kept.sink.is_removed() {
                totals.lose(&std::mem::take(&mut kept.counts));
            }
        }
    }
}

impl Kept {
    fn add(&mut self, context: &Context, (begin, end): (u64, u64), content: &[u8]) -> Result<u64> {
        let header = PacketHeader {
            uuid: context.uuid,
            stream_class: STREAM_SHARED,
            stream: FIRST | self.number,
            begin,
            end,
            content: content.len() as u64,
            sequence: self.sequence,
            cpu: self.number,
            lost: Default::default(),
        };
        let header = header.encode();
        self.sink.add(header, &Bytes(content))?;
        self.sequence += 1;
        self.last_time = end;
        Ok((header.len() + content.len()) as u64)
    }
}
