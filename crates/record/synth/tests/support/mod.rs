//! Programs of the tests, compiled, and what is seen of them.
#![allow(dead_code, reason = "each test needs a part of it")]

use mote_synth::{Error, Exit, Fact, Note, Observer, Place};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiled program of `tests/programs`.
pub(crate) struct Program {
    _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Program {
    /// Compiles one, statically linked; `None`, said loudly, where there is no compiler.
    pub(crate) fn compile(name: &str) -> Option<Program> {
        Program::compile_with(name, &["-pthread"])
    }

    /// The same, with these flags besides.
    pub(crate) fn compile_with(name: &str, flags: &[&str]) -> Option<Program> {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
        let mut command = Command::new("cc");
        command.args(["-O1", "-static", "-w"]).args(flags).arg("-o").arg(&path).arg(source);
        match command.status() {
            Ok(status) if status.success() => Some(Program { _folder: folder, path }),
            _ => {
                mote_skip::skip("there is no C compiler that links statically");
                None
            }
        }
    }

    /// The address of a symbol.
    pub(crate) fn symbol(&self, name: &str) -> u64 {
        let file = std::fs::read(&self.path).expect("the program");
        let file = object::File::parse(&*file).expect("ELF");
        file.symbols().find(|symbol| symbol.name() == Ok(name)).expect(name).address()
    }

    /// Where a function is in the file.
    pub(crate) fn part(&self, name: &str, stops: bool) -> Place {
        let file = std::fs::read(&self.path).expect("the program");
        let file = object::File::parse(&*file).expect("ELF");
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).expect(name);
        let text = file.section_by_name(".text").expect("code");
        let (offset, _) = text.file_range().expect("bytes");
        let start = symbol.address() - text.address() + offset;
        Place { stops, file: Some(self.path.clone()), at: start..start + symbol.size() }
    }

    /// Where its code is in the file.
    pub(crate) fn code(&self) -> Range<u64> {
        let file = std::fs::read(&self.path).expect("the program");
        let file = object::File::parse(&*file).expect("ELF");
        let text = file.section_by_name(".text").expect("code");
        let (offset, bytes) = text.file_range().expect("bytes");
        offset..offset + bytes
    }

    pub(crate) fn words(&self) -> Vec<std::ffi::OsString> {
        vec![self.path.clone().into()]
    }
}

/// What one thread has done, instruction by instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    At(u64),
    /// How a branch was left, and where to.
    Left(Exit, u64),
    Enter(u64),
    Interrupt(u64),
    End,
}

/// Keeps everything.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) steps: BTreeMap<i32, Vec<Step>>,
    pub(crate) notes: Vec<(i32, Note)>,
    /// Threads in the order of their begin.
    pub(crate) order: Vec<i32>,
}

impl Observer for Seen {
    fn fact(&mut self, tid: i32, fact: &Fact<'_>) -> Result<(), Error> {
        let steps = self.steps.entry(tid).or_default();
        match fact {
            Fact::Run(run) => {
                let digest: mote_synth::Digest = run.addresses().collect();
                assert_eq!(digest, run.digest);
                steps.extend(run.addresses().map(Step::At));
                match run.exit {
                    Exit::Plain => {}
                    Exit::System => steps.push(Step::Left(run.exit, 0)),
                    _ => steps.push(Step::Left(run.exit, run.to)),
                }
            }
            Fact::Enter(ip) => steps.push(Step::Enter(*ip)),
            Fact::Interrupt(ip) => steps.push(Step::Interrupt(*ip)),
            Fact::End => steps.push(Step::End),
            Fact::Data { .. } | Fact::Space(_) => {}
        }
        Ok(())
    }

    fn note(&mut self, tid: i32, note: &Note) -> Result<(), Error> {
        if let Note::Thread { .. } = note {
            self.order.push(tid);
        }
        self.notes.push((tid, note.clone()));
        Ok(())
    }
}

impl Seen {
    /// The steps of the `number`th thread from the first marker on to the second one.
    pub(crate) fn marked(&self, program: &Program, number: usize) -> &[Step] {
        let steps = &self.steps[&self.order[number]];
        let place = |name| {
            let marker = Step::At(program.symbol(name));
            steps.iter().position(|step| *step == marker).expect(name)
        };
        &steps[place("begin_marked")..place("end_marked")]
    }
}
