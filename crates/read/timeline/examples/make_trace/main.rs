//! Makes a recording to measure with: `make_trace DIR [EVENTS-PER-STREAM [STREAMS [MEAN-STEP]]]`.
#![forbid(unsafe_code)]

mod build;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| args.get(index).map_or(Ok(default), |text| text.parse());
    let (Some(dir), Ok(events), Ok(streams), Ok(step)) =
        (args.first(), number(1, 5_000_000), number(2, 2), number(3, 100))
    else {
        eprintln!("usage: make_trace DIR [EVENTS-PER-STREAM [STREAMS [MEAN-STEP]]]");
        return ExitCode::from(2);
    };
    let streams = u32::try_from(streams).unwrap_or(u32::MAX);
    let plan = build::Plan { events, streams, step, packet_bytes: 1 << 20, ..build::Plan::default() };
    match build::build(Path::new(dir), &plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make_trace: cannot write {dir}: {error}");
            ExitCode::from(2)
        }
    }
}
