//! How fast an engine is: `cargo run --release --example count -- [--step | --system] PROGRAM
//! ARGUMENT..`.

use mote_synth::system::Guest;
use mote_synth::{Error, Fact, Note, Observer};
use std::time::Instant;

#[derive(Default)]
struct Count {
    instructions: u64,
    facts: u64,
    notes: u64,
}

impl Observer for Count {
    fn fact(&mut self, _: i32, fact: &Fact<'_>) -> Result<(), Error> {
        self.facts += 1;
        if let Fact::Run(run) = fact {
            self.instructions += run.count();
        }
        Ok(())
    }

    fn note(&mut self, _: i32, _: &Note) -> Result<(), Error> {
        self.notes += 1;
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let steps = words.first().is_some_and(|word| word == "--step");
    let has_kernel = words.first().is_some_and(|word| word == "--system");
    words.drain(..usize::from(steps || has_kernel));
    let folder = std::env::temp_dir();
    let mut count = Count::default();
    let begin = Instant::now();
    let status = if steps {
        mote_synth::step::run(&words, &mut count)
    } else if has_kernel {
        let kernel = std::env::var_os("KERNEL").map(Into::into);
        mote_synth::system::run(&words, &Guest { kernel, folder, ..Guest::default() }, &mut count)
    } else {
        mote_synth::qemu::run(&words, mote_synth::qemu::Code::Executed, &mut count)
    }?;
    let seconds = begin.elapsed().as_secs_f64();
    let Count { instructions, facts, notes } = count;
    println!("{instructions} instructions, {facts} facts, {notes} notes in {seconds:.2} s, status {status}");
    println!("{:.1} million instructions a second", instructions as f64 / seconds / 1e6);
    Ok(())
}
