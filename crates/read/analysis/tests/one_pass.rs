//! One pass serves many analyses, of any source, with the results that each has alone.

use mote_analysis::{Analysis, Counts, Losses, Summary, Syscalls, run};
use mote_timeline::{Entry, Problems, Range, Record, Source, Trace};
use std::path::Path;

fn sample() -> Trace {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../lib/ctf/tests/data/lttng-2.16");
    Trace::open(&dir).expect("it opens")
}

#[test]
fn many_analyses_share_a_pass() {
    let trace = sample();
    let alone = run(&mut trace.events(Range::ALL), Counts::new(&trace));
    let lost = run(&mut trace.events(Range::ALL), Losses::new(&trace));
    let wanted = (Counts::new(&trace), Losses::new(&trace), Some(Summary::new(&trace)), None::<Syscalls>);
    let (counts, losses, report, none) = run(&mut trace.events(Range::ALL), wanted);
    assert_eq!((counts.events(), counts.kinds(), counts.threads()), (1076, alone.kinds(), alone.threads()));
    assert_eq!(losses, lost);
    let report = report.expect("it was asked for");
    assert_eq!((report.events, &report.kinds, &report.lost), (1076, &alone.kinds(), &lost));
    assert!(none.is_none());
}

/// Every second event of another source.
struct Halved<S> {
    source: S,
}

impl<S: Source> Source for Halved<S> {
    fn trace(&self) -> &Trace {
        self.source.trace()
    }

    fn next(&mut self) -> Option<Entry<'_>> {
        self.source.next()?;
        self.source.next()
    }

    fn seek(&mut self, range: Range) {
        self.source.seek(range);
    }

    fn problems(&self) -> &Problems {
        self.source.problems()
    }
}

/// Times of events.
#[derive(Default)]
struct Times(Vec<i64>);

impl Analysis for Times {
    type Output = Vec<i64>;

    fn event(&mut self, record: &Record<'_>) {
        self.0.push(record.time());
    }

    fn finish(self) -> Vec<i64> {
        self.0
    }
}

#[test]
fn analyses_and_sources_can_be_chosen_at_run_time() {
    let trace = sample();
    let whole = run(&mut trace.events(Range::ALL), Times::default());
    let mut source: Box<dyn Source> = Box::new(Halved { source: trace.events(Range::ALL) });
    let mut counts = Counts::new(&trace);
    let mut times = Times::default();
    let chosen: &mut dyn Analysis<Output = Vec<i64>> = &mut times;
    run(&mut *source, (&mut counts, chosen));
    assert_eq!(counts.events(), 538);
    assert!(times.0.iter().eq(whole.iter().skip(1).step_by(2)));
    // The same reading again, from the middle on.
    source.seek(Range { from: whole[600], to: i64::MAX });
    let later = run(&mut *source, Times::default());
    assert!(later.iter().eq(whole.iter().skip_while(|time| **time < whole[600]).skip(1).step_by(2)));
}
