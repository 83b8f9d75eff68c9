//! Plans of probes in functions: any bytes are refused, or are a plan of which each part can be asked for.
#![no_main]

use mote_layout::functions::{Plan, Value};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(plan) = Plan::parse(bytes) else { return };
    assert_eq!(plan.probes().count(), plan.probe_count());
    for memory in plan.memories() {
        assert!(plan.code(&memory).is_none_or(|code| code.len() <= bytes.len()));
    }
    for probe in plan.probes() {
        assert!(plan.text(&probe).is_none_or(|text| text.len() <= bytes.len()));
        plan.values(&probe).unwrap_or_default().iter().for_each(|value| drop(Value::from_bytes(*value)));
        let _ = (
            plan.guard(probe.address),
            plan.memory_at(probe.body),
            plan.may_return(probe.address, probe.copy),
        );
    }
    plan.guards().for_each(drop);
    plan.counters().for_each(drop);
    let _ = plan.counts.and_then(|counts| counts.bytes());
});
