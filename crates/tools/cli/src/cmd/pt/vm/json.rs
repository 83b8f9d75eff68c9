//! Objects for programs. Addresses and times of the counter are strings with hexadecimal numbers.

use super::label::{Labels, ns, rate};
use mote_analysis::Histogram;
use mote_hardware::vm::{Counts, Doing, Edge, Interval, Rest, Sum};
use serde_json::{Map, Value, json};
use std::fmt::Display;

fn hex(value: u64) -> Value {
    json!(format!("{value:#x}"))
}

fn text(value: impl Display) -> Value {
    json!(value.to_string())
}

/// An interval as an object of JSON.
pub(super) fn interval(labels: &Labels<'_>, cpu: usize, interval: &Interval) -> Value {
    let subject = labels.subject(interval);
    let (hz, begin) = (labels.hz(cpu), labels.begin.unwrap_or(0));
    let since = |time: Option<u64>| ns(time?.checked_sub(begin)?, hz);
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    };
    put("cpu", labels.inputs.get(cpu).map(|input| json!(input.cpu)));
    put("from", labels.inputs.get(cpu).and_then(|input| input.from.as_ref()).map(|from| json!(from)));
    put("state", Some(json!(subject.state)));
    put("begin", interval.begin.map(hex));
    put("end", interval.end.map(hex));
    put("begin_ns", since(interval.begin).map(|ns| json!(ns)));
    put("duration_ns", interval.ticks().and_then(|ticks| ns(ticks, hz)).map(|ns| json!(ns)));
    let (vm, vmcs) = (subject.id.and_then(|id| id.vm), subject.id.and_then(|id| id.vmcs));
    put("vm", vm.map(text));
    put("vm_name", vm.and_then(|vm| labels.names.host(vm)).map(|name| json!(name)));
    put("vcpu", vmcs.map(text));
    put("vcpu_name", vmcs.and_then(|vmcs| labels.names.vmcs(vmcs)).map(|name| json!(name)));
    let is_guest = matches!(interval.doing, Doing::Guest { .. });
    put(if is_guest { "process" } else { "host" }, subject.space.map(text));
    let name = subject.space.and_then(|space| match is_guest {
        true => labels.names.process(vm, space),
        false => labels.names.host(space),
    });
    put(if is_guest { "process_name" } else { "host_name" }, name.map(|name| json!(name)));
    match interval.doing {
        Doing::Idle { by: Rest::Silence, .. } => put("by", Some(json!("silence"))),
        Doing::Idle { by: Rest::Power, .. } => put("by", Some(json!("power events"))),
        Doing::Unknown(why) => put("why", Some(json!(why.words()))),
        _ => {}
    }
    put("begins", Some(edge(interval.begins)));
    put("ends", Some(edge(interval.ends)));
    put("untraced", interval.is_untraced.then_some(json!(true)));
    put("offset", Some(json!(interval.offset)));
    Value::Object(object)
}

fn edge(edge: Edge) -> Value {
    json!(match edge {
        Edge::Seen => "seen",
        Edge::Cut => "cut",
    })
}

/// The summary: an object for each processor, vCPU, process, and program of the host.
pub(super) fn objects(labels: &Labels<'_>, counts: &[Counts]) -> String {
    let summary = labels.summary;
    let mut all = Vec::new();
    for (place, cpu) in summary.cpus() {
        let (hz, counts) = (labels.hz(*place), counts.get(*place).copied().unwrap_or_default());
        let unknown: Map<String, Value> =
            cpu.unknown.iter().map(|(why, sum)| (why.words().to_owned(), time(sum, hz))).collect();
        all.push(json!({
            "kind": "cpu", "cpu": labels.inputs.get(*place).map(|input| input.cpu),
            "from": labels.inputs.get(*place).and_then(|input| input.from.as_ref()),
            "guest": time(&cpu.guest, hz), "vmm": time(&cpu.vmm, hz), "host": time(&cpu.host, hz),
            "idle": time(&cpu.idle, hz), "unknown": unknown, "switches": histogram(&cpu.switches, hz),
            "bytes": counts.bytes, "skipped": counts.skipped, "damaged": counts.damaged,
            "overflows": counts.overflows, "contradictions": counts.contradictions,
            "clock_steps": counts.clock_steps, "late_max_ns": ns(counts.late_max, hz),
        }));
    }
    for (id, vcpu) in summary.vcpus() {
        let hz = labels.hz_of(vcpu);
        let cpus: Vec<_> = vcpu.cpus.iter().filter_map(|cpu| Some(labels.inputs.get(*cpu)?.cpu)).collect();
        let behind: Vec<_> = vcpu.waits.behind.iter().filter_map(|id| Some(id.vmcs?.to_string())).collect();
        all.push(json!({
            "kind": "vcpu", "vm": id.vm.map(text), "vcpu": id.vmcs.map(text),
            "vm_name": id.vm.and_then(|vm| labels.names.host(vm)),
            "vcpu_name": id.vmcs.and_then(|vmcs| labels.names.vmcs(vmcs)),
            "guest": time(&vcpu.guest, hz), "vmm": time(&vcpu.vmm, hz),
            "entries": vcpu.entries, "exits": vcpu.exits, "exits_per_second": rate(vcpu, hz),
            "handling": histogram(&vcpu.handling, hz), "cpus": cpus,
            "waits": {
                "count": vcpu.waits.count, "at_most_ns": ns(vcpu.waits.at_most, hz),
                "at_most_max_ns": ns(vcpu.waits.at_most_max, hz), "behind": behind, "moves": vcpu.waits.moves,
                "overlap_max_ns": ns(vcpu.waits.overlap_max, hz),
            },
        }));
    }
    for ((id, space), process) in summary.processes() {
        let hz = summary.vcpus().get(id).and_then(|vcpu| labels.hz_of(vcpu));
        all.push(json!({
            "kind": "process", "vm": id.vm.map(text), "vcpu": id.vmcs.map(text), "process": text(space),
            "process_name": labels.names.process(id.vm, *space),
            "guest": time(&process.guest, hz), "switches": process.switches,
        }));
    }
    for (space, sum) in summary.host() {
        let name = labels.names.host(space);
        all.push(json!({ "kind": "host", "host": text(space), "host_name": name, "time": time(&sum, labels.hz(0)) }));
    }
    all.iter().map(|object| format!("{object}\n")).collect()
}

/// Absent times are null.
fn time(sum: &Sum, hz: Option<u64>) -> Value {
    let ticks = sum.known();
    json!({
        "intervals": sum.intervals, "untimed": sum.untimed, "ticks": ticks,
        "ns": ticks.and_then(|ticks| ns(ticks, hz)),
        "untraced_ticks": ticks.map(|_| sum.untraced),
    })
}

fn histogram(histogram: &Histogram, hz: Option<u64>) -> Value {
    let shown = |ticks: Option<u64>| ticks.and_then(|ticks| ns(ticks, hz));
    json!({
        "count": histogram.count(),
        "min_ns": shown(histogram.min()), "mean_ns": shown(histogram.mean()),
        "p50_ns": shown(histogram.quantile(500)), "p99_ns": shown(histogram.quantile(990)),
        "max_ns": shown(histogram.max()),
    })
}
