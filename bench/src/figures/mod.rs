//! The figures: what mote costs, beside the floor and beside its peers.
//!
//! A benchmark runs *workloads* (this program again, `mote-bench work ...`, or small C programs) under the real
//! recorder, called as a library, and prints the median of at least five repetitions with its spread. Cases take turns,
//! because the machine may have other things to do.

mod bodies;
mod cooperate;
mod disabled;
mod disk;
mod effort;
mod event_cost;
pub(crate) mod figure;
mod filter;
#[allow(unsafe_code, reason = "it runs eBPF without a tracer around it")]
mod filter_fifty;
mod filter_paper;
mod filter_work;
#[allow(unsafe_code, reason = "it is a restartable sequence of its own")]
mod floor;
mod functions;
mod functions_counted;
mod functions_coverage;
mod functions_fperf;
mod functions_off;
mod functions_recorded;
mod functions_switch;
mod functions_whole;
mod jit;
#[allow(unsafe_code, reason = "it makes a page executable, and runs what a compiler has made")]
mod jit_work;
mod kernel;
mod kernel_calls;
mod kernel_floor;
mod kernel_peers;
mod kernel_programs;
mod kernel_shared;
mod kernel_work;
mod lttng;
mod native;
mod pt;
mod pt_analyses;
mod pt_flow;
mod pt_streams;
mod pt_time;
mod rcu;
mod rcu_hash;
mod rcu_hash_work;
mod rcu_plot;
mod rcu_sides;
mod rcu_work;
mod server_cpu;
mod server_tracers;
mod servers;
mod session;
mod size;
mod spans;
mod startup;
mod stopwatch;
mod turns;
mod view;
pub(crate) mod work;

pub(crate) use effort::Effort;
pub(crate) use session::built;

use figure::Figure;

type Benchmark = fn(Effort) -> anyhow::Result<Vec<Figure>>;

const BENCHMARKS: [(&str, Benchmark); 18] = [
    ("event_cost", event_cost::run),
    ("disk", disk::run),
    ("view", view::run),
    ("startup", startup::run),
    ("size", size::run),
    ("spans", spans::run),
    ("rcu", rcu::run),
    ("filter", filter::run),
    ("kernel", kernel::run),
    ("servers", servers::run),
    ("redis", servers::redis),
    ("kernel_calls", kernel_calls::alone),
    ("kernel_programs", kernel_programs::run),
    ("functions", functions::run),
    ("fperf", functions_fperf::run),
    ("pt", pt::run),
    ("pt_analyses", pt_analyses::run),
    ("jit", jit::run),
];

/// The names that [`run`] knows, in the order of the usage.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BENCHMARKS.into_iter().map(|(name, _)| name)
}

/// Runs the benchmark `name` and prints its figures.
///
/// # Errors
/// There is none of this name, or it could not be measured.
pub(crate) fn run(name: &str, effort: Effort, json: bool) -> anyhow::Result<()> {
    let Some((name, benchmark)) = BENCHMARKS.into_iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = names().collect();
        anyhow::bail!("there is no benchmark '{name}'; try {}", names.join(", "));
    };
    for figure in benchmark(effort)? {
        println!("{}", if json { figure.json(name)? } else { figure.row(name) });
    }
    Ok(())
}
