//! Any bytes as packets of a processor that runs virtual machines: intervals lie side by side, and all bytes are
//! counted.
#![no_main]

use mote_hardware::vm::{Machine, Names, Rates, Summary};
use mote_pt::errata::Errata;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first_chunk::<4>() else { return };
    let [mtc, numerator, size, errata] = how.map(u32::from);
    let rates = Rates { mtc: (mtc % 16) as u8, tsc_per_art: (numerator, 1 + mtc % 3), tsc_hz: None };
    let rates = Some(rates).filter(|_| mtc < 200);
    let names = Errata::NAMES.iter().enumerate();
    let errata = names.filter(|(bit, _)| errata >> (bit % 8) & 1 != 0);
    let errata = errata.fold(Errata::default(), |all, (_, name)| all.with(name).expect("it is known"));
    let mut machine = Machine::new(rates).with_errata(errata);
    let mut summary = Summary::new(Names::default());
    let mut offset = 0;
    let mut end = None;
    let mut take = |interval: mote_hardware::vm::Interval| {
        let times = interval.begin.zip(interval.end);
        assert!(times.is_none_or(|(begin, end)| begin <= end), "{interval:?}");
        assert!(interval.begin.zip(end).is_none_or(|(begin, end)| end <= begin), "{interval:?}");
        end = interval.end.or(end);
        summary.add(0, &interval);
    };
    for part in bytes.chunks(64 + 8 * size as usize) {
        machine.feed(part, offset, &mut take);
        offset += part.len() as u64;
    }
    let counts = machine.finish(&mut take);
    assert_eq!(counts.bytes, bytes.len() as u64);
    assert!(counts.skipped + counts.damaged <= counts.bytes, "{counts:?}");
    let _ = summary.finish();
});
