//! `mote filter`: shows what becomes of a filter, stage by stage.

mod asm;
mod event;
mod object;

use crate::out;
use clap::ValueEnum;
use mote_bpf::disassemble::Listing;
use mote_bpf::{Entry, Environment};
use mote_filter::{ContextWord, Decision, Maps, Missing, Rule, Session, Side, compile, explain};
use mote_layout::context::words_of;
use mote_layout::parse::{Description, parse};
use mote_layout::tracer;
use std::ffi::OsString;
use std::process::ExitCode;

/// Show what a filter becomes: its typed tree, its bytecode, its machine code
///
/// The filter is checked against the fields of an event and compiled as `mote record --filter` would: for the traced
/// process, or for the kernel. Nothing is recorded. For an object that clang compiled, each of its filters is shown
/// with the sides on which it can run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote filter 'len > 1500 && proto == \"tcp*\"' --event net:packet_in ./app
  mote filter 'len > 4k' --fields 'len: u32, proto: str' --emit asm
  mote filter --rule 'net:* if len > 4k do count by proto' --event packet_in 4711 --emit bpf
An event of the kernel; whether the kernel could decide about an event of a program, and why not; a filter that clang
compiled:
  mote filter 'prev_comm == \"redis*\"' --event sched:sched_switch --emit bpf
  mote filter '$exe == \"*/sh\"' --event net:packet_in ./app --side kernel
  mote filter large.o --event net:packet_in ./app

Fields of --fields have a type of u8 to u64, i8 to i64, x8 to x64 (shown in base 16), f32, f64, bool, str, bytes, u8[]
(a sequence), u8[6] (an array), or enum u8 IDLE=0 BUSY=1..3.

Exit status: 0 it compiles, 2 it does not.")]
pub(crate) struct Args {
    /// The expression, as of record --filter; or an object with filters, FILE.o
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    expression: String,

    /// What carries the event: a command, the id of a process, a file, or the directory of a recording; without it, the
    /// event is one of the kernel
    #[arg(value_name = "CMD|PID|FILE|DIR")]
    target: Option<OsString>,

    /// The event: its name, or provider:name
    #[arg(short, long, value_name = "NAME")]
    event: Option<String>,

    /// An event with these fields instead
    #[arg(long, value_name = "FIELDS", conflicts_with = "target")]
    fields: Option<String>,

    /// EXPR is a whole rule, as of record --on
    #[arg(long)]
    rule: bool,

    /// Compile it for this side [default: that of the event]
    #[arg(long)]
    side: Option<SideArg>,

    /// What to show
    #[arg(long, value_name = "STAGE", default_value = "tree")]
    emit: Emit,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum SideArg {
    /// The traced process
    User,
    /// The kernel
    Kernel,
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
    let given = args.event.is_some() || args.fields.is_some();
    let described =
        || event::description(args.event.as_deref(), args.target.as_deref(), args.fields.as_deref());
    if let Some(path) = object::path(&args.expression) {
        let text = if given { Some(described()?.0) } else { None };
        let event = text.as_deref().map(parse).transpose()?;
        out::print(&object::sides(path, event.as_ref(), args.side)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(given, "give the event that the filter is for: --event, or --fields");
    let (text, own) = described()?;
    let side = match args.side {
        Some(SideArg::User) => Side::User,
        Some(SideArg::Kernel) => Side::Kernel,
        None => own,
    };
    let event = parse(&text)?;
    let rule = if args.rule { Rule::parse(&args.expression) } else { Rule::filter("*", &args.expression) };
    let shown = rule.and_then(|rule| show(&[rule], &event, args.emit, side));
    match shown {
        Ok(text) => {
            out::print(&text?)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            say!("the filter cannot be used\n{}", problem.render());
            Ok(crate::cmd::FAILED.into())
        }
    }
}

/// The text of a stage.
fn show(
    rules: &[Rule],
    event: &Description<'_>,
    emit: Emit,
    side: Side,
) -> Result<anyhow::Result<String>, mote_filter::Diagnostic> {
    let mut maps = Maps::new();
    // Ids of emitted events are given when a session begins.
    let mut session = Session { side, missing: Missing::Refuse, declare: &mut |_| Ok(0) };
    let decision = compile(rules, event, &mut session, &mut maps)?;
    if emit == Emit::Tree {
        let (typed, optimised) = explain(rules, event, Missing::Refuse, side)?;
        let same = typed == optimised;
        return Ok(Ok(if same { typed } else { format!("{typed}\noptimised:\n{optimised}") }));
    }
    let compiled = match decision {
        Decision::Run(compiled) => compiled,
        Decision::Record => {
            return Ok(Ok(
                "the filter always holds, so every event is recorded, and no program is needed\n".to_owned()
            ));
        }
        Decision::Off => return Ok(Ok("the rule's pattern does not match this event\n".to_owned())),
    };
    compiled.warnings.iter().for_each(|warning| say!("{}", warning.render_warning()));
    Ok(match emit {
        Emit::Asm if side == Side::Kernel => Err(anyhow::anyhow!(
            "the kernel itself makes the machine code: look at it with `bpftool prog dump jited` while the filter is loaded"
        )),
        Emit::Asm => asm::listing(&compiled.insns, event, &maps),
        _ => Ok(bytecode(&compiled.insns, &maps) + &words(&compiled.words, event)),
    })
}

/// What the words are that a program of the kernel's side finds.
fn words(words: &[ContextWord], event: &Description<'_>) -> String {
    let names: Vec<String> = event
        .fields()
        .flat_map(|field| {
            let length = words_of(&field.ty).1.map(|_| format!("length of {}", field.name));
            std::iter::once(field.name.to_owned()).chain(length)
        })
        .collect();
    let line = |(slot, word): (usize, &ContextWord)| match word {
        ContextWord::Field(word) => {
            format!("word {slot}: {}\n", names.get(usize::from(*word)).map_or("?", String::as_str))
        }
        ContextWord::Event(number) => format!("word {slot}: {number}, for the event\n"),
    };
    words.iter().enumerate().map(line).collect()
}

fn bytecode(insns: &[mote_bpf::Insn], maps: &Maps) -> String {
    let (entry, helpers) = (Entry::Context(&[]), tracer::HELPERS);
    let names = Environment { entry, maps: &[], helpers, steps_max: 0 };
    let mut out = Listing { insns, environment: Some(&names) }.to_string();
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
        shown_for(expr, emit, Side::User)
    }

    fn shown_for(expr: &str, emit: Emit, side: Side) -> String {
        let (text, _) = event::description(None, None, Some("len: u32, proto: str")).unwrap();
        let rule = Rule::filter("*", expr).unwrap();
        show(&[rule], &parse(&text).unwrap(), emit, side).unwrap().unwrap()
    }

    #[test]
    fn the_other_side_is_shown() {
        let bytecode = shown_for("proto == \"*x*\" && len > 1500", Emit::Bpf, Side::Kernel);
        assert!(!bytecode.contains("call") && bytecode.contains("word 1: length of proto"), "{bytecode}");
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
        assert!(shown("len >= 0", Emit::Bpf).contains("no program is needed"));
    }
}
