//! A filter of fifty texts alone, without an event around it: machine code, interpreter, and what a person would write;
//! what it takes to make one.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::stopwatch::thread_ns;
use mote_bpf::environment::{Entry, STEPS_MAX};
use mote_bpf::{Environment, Insn, Word, verify};
use mote_filter::{Decision, Maps, Missing, Rule, Session, compile};
use mote_layout::tracer;
use mote_layout::{context, parse};
use mote_vm::{Choice, Map, Program, Setup, Update};
use std::fmt::Write;
use std::hint::black_box;

/// How many fields there are.
pub(super) const FIELDS: usize = 50;

/// The texts, and their comparison as a person would write it.
macro_rules! fifty {
    ($($at:literal $text:literal)*) => {
        const TEXTS: [&str; FIELDS] = [$($text),*];

        #[inline(never)]
        fn by_hand(fields: &[&str; FIELDS]) -> bool {
            $(fields[$at] == $text)&&*
        }
    };
}

fifty! {
    0 "tcp" 1 "udp" 2 "icmp" 3 "sctp" 4 "dccp" 5 "GET" 6 "POST" 7 "PUT" 8 "DELETE" 9 "HEAD"
    10 "/index.html" 11 "/favicon.ico" 12 "/api/v1/users" 13 "/login" 14 "/logout" 15 "eth0" 16 "wlan0" 17 "lo" 18 "docker0" 19 "br-lan"
    20 "alpha" 21 "bravo" 22 "charlie" 23 "delta" 24 "echo" 25 "foxtrot" 26 "golf" 27 "hotel" 28 "india" 29 "juliett"
    30 "kilo" 31 "lima" 32 "mike" 33 "november" 34 "oscar" 35 "papa" 36 "quebec" 37 "romeo" 38 "sierra" 39 "tango"
    40 "application" 41 "text/html" 42 "image/png" 43 "gzip" 44 "deflate" 45 "keep-alive" 46 "close" 47 "localhost" 48 "production" 49 "ok"
}

/// What evaluates the 50 predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    ByHand,
    Jit,
    Interpreter,
}

impl Engine {
    pub(super) const ALL: [Engine; 3] = [Engine::ByHand, Engine::Jit, Engine::Interpreter];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Engine::ByHand => "rust",
            Engine::Jit => "jit",
            Engine::Interpreter => "interpreter",
        }
    }
}

/// The filter in all its forms, and an event's fields.
pub(super) struct Fifty {
    jit: Program,
    interpreter: Program,
    fields: [String; FIELDS],
    /// What the programs' maps lie in.
    _memory: Memory,
}

fn description() -> String {
    let mut text = "mote1\nbench:fifty\n6 fifty.rs:1\n\n".to_owned();
    for at in 0..FIELDS {
        let done = writeln!(text, "f{at} str");
        debug_assert!(done.is_ok(), "writing to a string");
    }
    text
}

fn expression() -> String {
    let tests = TEXTS.iter().enumerate().map(|(at, text)| format!("f{at} == \"{text}\""));
    tests.collect::<Vec<_>>().join(" && ")
}

/// From text to instructions.
fn compiled(description: &str) -> anyhow::Result<(Vec<Insn>, Maps)> {
    let event = parse::parse(description.as_bytes())
        .map_err(|why| anyhow::anyhow!("a description of the bench is wrong: {why}"))?;
    let rule = Rule::filter("bench:fifty", &expression())
        .map_err(|why| anyhow::anyhow!("a rule of the bench is wrong: {}", why.render()))?;
    let mut declare = |_: &mote_filter::Emitted| Err("nothing is emitted".to_owned());
    let mut session =
        Session { side: mote_filter::Side::User, missing: Missing::Refuse, declare: &mut declare };
    let mut maps = Maps::new();
    match compile(&[rule], &event, &mut session, &mut maps) {
        Ok(Decision::Run(program)) => Ok((program.insns, maps)),
        Ok(other) => anyhow::bail!("a filter became {other:?}"),
        Err(why) => anyhow::bail!("a rule of the bench is wrong: {}", why.render()),
    }
}

/// What maps lie in.
type Memory = Vec<Box<[u64]>>;

/// Memory for the maps, and the maps in it.
fn placed(maps: &Maps) -> anyhow::Result<(Memory, Vec<Map>)> {
    let (mut memory, mut placed) = (Vec::new(), Vec::new());
    for entry in maps.entries() {
        let mut bytes = vec![0u64; Map::bytes(&entry.shape) / 8].into_boxed_slice();
        // SAFETY: as many bytes as the map takes, aligned to 8; they live as long as the programs (`Fifty`).
        let map = unsafe { Map::create(bytes.as_mut_ptr().cast(), &entry.shape) }
            .map_err(|why| anyhow::anyhow!("a map of the bench is wrong: {why}"))?;
        if !entry.initial.is_empty() {
            map.update(&0u32.to_le_bytes(), &entry.initial, Update::Any)
                .map_err(|why| anyhow::anyhow!("a map of the bench cannot be filled: {why}"))?;
        }
        memory.push(bytes);
        placed.push(map);
    }
    Ok((memory, placed))
}

/// Verifies and loads.
fn loaded(insns: &[Insn], words: &[Word], maps: (&Maps, &[Map]), engine: Choice) -> anyhow::Result<Program> {
    let shapes = maps.0.shapes();
    let environment = Environment {
        entry: Entry::Context(words),
        maps: &shapes,
        helpers: tracer::HELPERS,
        steps_max: STEPS_MAX,
    };
    let mut room = mote_vm::workspace().map_err(|why| anyhow::anyhow!("no memory: {why}"))?;
    let verified = verify::verify(insns, &environment, &mut room)
        .map_err(|why| anyhow::anyhow!("a program of the bench was refused: {why}"))?;
    let setup = Setup { maps: maps.1, engine, ..Setup::default() };
    Program::load(&verified, &setup).map_err(|why| anyhow::anyhow!("a program cannot be loaded: {why}"))
}

fn words(description: &str) -> Vec<Word> {
    parse::parse(description.as_bytes()).map(|event| context::words(&event).collect()).unwrap_or_default()
}

impl Fifty {
    /// Makes it; all tests hold.
    pub(super) fn new() -> anyhow::Result<Fifty> {
        let description = description();
        let words = words(&description);
        let (insns, maps) = compiled(&description)?;
        let (memory, placed) = placed(&maps)?;
        let load = |engine| loaded(&insns, &words, (&maps, &placed), engine);
        let (jit, interpreter) = (load(Choice::Jit)?, load(Choice::Interpreter)?);
        Ok(Fifty { jit, interpreter, fields: TEXTS.map(str::to_owned), _memory: memory })
    }

    /// Makes the test of the field at `depth`, counted from 1, fail, and no other; 0: none fails.
    pub(super) fn fail_at(&mut self, depth: usize) {
        self.fields = TEXTS.map(str::to_owned);
        if let Some(field) = depth.checked_sub(1).and_then(|at| self.fields.get_mut(at)) {
            // Of the same length: the last letter tells.
            field.pop();
            field.push('~');
        }
    }

    /// Nanoseconds of one evaluation, and whether all evaluations came to `expected`.
    pub(super) fn cost(&self, engine: Engine, turns: u64, expected: bool) -> anyhow::Result<f64> {
        let fields: [&str; FIELDS] = std::array::from_fn(|at| self.fields[at].as_str());
        let words: Vec<u64> = fields
            .iter()
            .flat_map(|field| {
                let range = field.as_bytes().as_ptr_range();
                [range.start.expose_provenance() as u64, range.end.expose_provenance() as u64]
            })
            .collect();
        let begin = thread_ns();
        let mut held = 0u64;
        for _ in 0..turns {
            let holds = match engine {
                Engine::ByHand => by_hand(black_box(&fields)),
                Engine::Jit => ask(&self.jit, black_box(&words)),
                Engine::Interpreter => ask(&self.interpreter, black_box(&words)),
            };
            held += u64::from(holds);
        }
        let ns = (thread_ns() - begin) as f64 / turns as f64;
        anyhow::ensure!(held == if expected { turns } else { 0 }, "{} decides wrongly", engine.name());
        Ok(ns)
    }
}

#[inline(always)]
fn ask(program: &Program, words: &[u64]) -> bool {
    // SAFETY: the program was verified for a context of these words, which point to the fields.
    let answer = unsafe { program.run(words.as_ptr().expose_provenance() as u64, 0) };
    answer == Ok(1)
}

/// `fifty/...`: one evaluation; making one, its parts, and its memory.
pub(super) fn figures(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let (turns, rounds) = effort.choose((100_000, 7), (2_000_000, 11));
    let fifty = Fifty::new()?;
    let mut samples = Samples::default();
    for round in 0..=rounds {
        for engine in Engine::ALL {
            let ns = fifty.cost(engine, turns, true)?;
            if round > 0 {
                samples.add(engine.name(), ns);
            }
        }
        build(&mut samples)?;
    }
    let mut figures: Vec<Figure> = Engine::ALL
        .iter()
        .map(|engine| Figure::new(&format!("fifty/{}", engine.name()), "ns", samples.of(engine.name())))
        .collect();
    let parts = ["fifty/build", "fifty/build/compile", "fifty/build/verify", "fifty/build/jit"];
    figures.extend(parts.map(|part| Figure::new(part, "us", samples.of(part))));
    let bytes = fifty.jit.memory_bytes() as f64 / 1024.0;
    figures.push(Figure::new("fifty/memory", "KiB", &[bytes; 5]));
    Ok(figures)
}

/// Times what it takes to make the filter from its text. Verifying includes the pages of the verifier's memory.
fn build(samples: &mut Samples) -> anyhow::Result<()> {
    let description = description();
    let words = words(&description);
    let begin = thread_ns();
    let (insns, maps) = compiled(&description)?;
    let at_compiled = thread_ns();
    let (_memory, placed) = placed(&maps)?;
    let interpreted = loaded(&insns, &words, (&maps, &placed), Choice::Interpreter)?;
    let at_verified = thread_ns();
    drop(loaded(&insns, &words, (&maps, &placed), Choice::Jit)?);
    let end = thread_ns();
    drop(interpreted);
    let us = |ns: u64| ns as f64 / 1000.0;
    let (compile, verify, both) = (at_compiled - begin, at_verified - at_compiled, end - at_verified);
    samples.add("fifty/build", us(compile + both));
    samples.add("fifty/build/compile", us(compile));
    samples.add("fifty/build/verify", us(verify));
    samples.add("fifty/build/jit", us(both.saturating_sub(verify)));
    Ok(())
}

/// From here on the kernel lets this process, and the programs that it starts, make no machine code (prctl(2),
/// `PR_SET_MDWE`, Linux 6.3): filters are interpreted. False when it cannot.
pub(super) fn refuse_machine_code() -> bool {
    const PR_SET_MDWE: i32 = 65;
    const REFUSE_EXEC_GAIN: u64 = 1;
    // SAFETY: changes what mprotect(2) allows; no memory is touched.
    unsafe { libc::prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0u64, 0u64, 0u64) == 0 }
}
