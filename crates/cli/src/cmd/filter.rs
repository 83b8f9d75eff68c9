//! `mote filter`: shows what becomes of a filter, stage by stage.

mod asm;
mod event;

use clap::ValueEnum;
use mote_bpf::disassemble::Listing;
use mote_filter::{Decision, Maps, Missing, Rule, Session, compile, explain};
use mote_layout::parse::{Description, parse};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Show what a filter becomes: its typed tree, its bytecode, its machine code
///
/// The filter is checked against the fields of an event and compiled as `mote record --filter` would. Nothing is recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote filter 'len > 1500 && proto == \"tcp*\"' --event net:packet_in ./app
  mote filter 'len > 4k' --fields 'len: u32, proto: str' --emit asm
  mote filter --rule 'net:* if len > 4k do count by proto' --event packet_in 4711 --emit bpf

Fields of --fields have a type of u8 to u64, i8 to i64, x8 to x64 (shown in base 16), f32, f64, bool, str, bytes, u8[] (a sequence),
u8[6] (an array), or enum u8 IDLE=0 BUSY=1..3.

Exit status: 0 it compiles, 2 it does not.")]
pub(crate) struct Args {
    /// The expression, as of record --filter
    #[arg(value_name = "EXPR")]
    expression: String,

    /// What carries the event: a command, the id of a process, a file, or the directory of a recording
    #[arg(value_name = "CMD|PID|FILE|DIR", required_unless_present = "fields")]
    target: Option<OsString>,

    /// The event: its name, or provider:name
    #[arg(short, long, value_name = "NAME", required_unless_present = "fields")]
    event: Option<String>,

    /// An event with these fields instead
    #[arg(long, value_name = "FIELDS", conflicts_with = "target")]
    fields: Option<String>,

    /// EXPR is a whole rule, as of record --on
    #[arg(long)]
    rule: bool,

    /// What to show
    #[arg(long, value_name = "STAGE", default_value = "tree")]
    emit: Emit,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Emit {
    /// The typed tree, and what the optimiser makes of it
    Tree,
    /// The eBPF program and its maps
    Bpf,
    /// The machine code, annotated with the eBPF instructions
    Asm,
}

/// Shows a filter; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = event::description(args.event.as_deref(), args.target.as_deref(), args.fields.as_deref())?;
    let event = parse(&text)?;
    let rule = if args.rule { Rule::parse(&args.expression) } else { Rule::filter("*", &args.expression) };
    let shown = rule.and_then(|rule| show(&[rule], &event, args.emit));
    let out = match shown {
        Ok(out) => out?,
        Err(problem) => {
            say!("the filter cannot be used\n{}", problem.render());
            return Ok(crate::cmd::FAILED.into());
        }
    };
    match io::stdout().lock().write_all(out.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The text of a stage.
fn show(
    rules: &[Rule],
    event: &Description<'_>,
    emit: Emit,
) -> Result<anyhow::Result<String>, mote_filter::Diagnostic> {
    let mut maps = Maps::new();
    // Ids of emitted events are given when a session begins.
    let mut session = Session { missing: Missing::Refuse, declare: &mut |_| Ok(0) };
    let decision = compile(rules, event, &mut session, &mut maps)?;
    if emit == Emit::Tree {
        let (typed, optimised) = explain(rules, event, Missing::Refuse)?;
        let same = typed == optimised;
        return Ok(Ok(if same { typed } else { format!("{typed}\noptimised:\n{optimised}") }));
    }
    let compiled = match decision {
        Decision::Run(compiled) => compiled,
        Decision::Record => {
            return Ok(Ok("it always holds: every event is recorded, without a program\n".to_owned()));
        }
        Decision::Off => return Ok(Ok("the rule is not about this event\n".to_owned())),
    };
    compiled.warnings.iter().for_each(|warning| say!("{}", warning.render_warning()));
    Ok(match emit {
        Emit::Asm => asm::listing(&compiled.insns, event, &maps),
        _ => Ok(bytecode(&compiled.insns, &maps)),
    })
}

fn bytecode(insns: &[mote_bpf::Insn], maps: &Maps) -> String {
    let mut out = Listing { insns, environment: None }.to_string();
    for (at, map) in maps.entries().iter().enumerate() {
        let shape = map.shape;
        let kind = format!("{:?}", shape.kind).to_lowercase();
        let sizes =
            format!("{} bytes -> {} bytes, {} entries", shape.key_bytes, shape.value_bytes, shape.entries);
        out.push_str(&format!("map {at}: {kind}, {sizes}: {}\n", map.name));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stage shows of an expression.
    fn shown(expr: &str, emit: Emit) -> String {
        let text = event::description(None, None, Some("len: u32, proto: str")).unwrap();
        let rule = Rule::filter("*", expr).unwrap();
        show(&[rule], &parse(&text).unwrap(), emit).unwrap().unwrap()
    }

    #[test]
    fn each_stage_is_shown() {
        let expr = "proto == \"*x*\" && len > 1500";
        assert!(
            shown(expr, Emit::Tree).contains("optimised:\nif\n  and\n    len: i64 in {1501..4294967295}\n")
        );
        let bytecode = shown(expr, Emit::Bpf);
        assert!(bytecode.contains("call text_find") && bytecode.contains("map 0: array"), "{bytecode}");
        let machine = shown(expr, Emit::Asm);
        assert!(machine.contains("call text_find") && machine.contains("bytes of machine code"), "{machine}");
        assert!(shown("len >= 0", Emit::Bpf).contains("without a program"));
    }
}
