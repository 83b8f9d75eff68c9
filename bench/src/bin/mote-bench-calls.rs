//! System calls that do nothing, in a loop: the workload of the benchmark `kernel` that does not carry mote.
//!
//! `mote-bench-calls CALL COUNT RESULT`: writes a line `CALL NANOSECONDS` to the file RESULT.
#![forbid(unsafe_code)]

#[path = "../calls.rs"]
mod calls;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [call, count, result] = arguments.as_slice() else {
        anyhow::bail!("usage: mote-bench-calls CALL COUNT RESULT");
    };
    Ok(std::fs::write(result, calls::run(call, count.parse()?)?)?)
}
