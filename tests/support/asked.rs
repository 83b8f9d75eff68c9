//! A program that does what it is asked to (`tests/programs/c/asked.c`).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that does one thing for each line of its input, and answers with a line.
pub(crate) struct Asked {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Asked {
    pub(crate) fn start(program: &Path) -> Asked {
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut asked = Asked { child, to, from };
        assert_eq!(asked.ask("here"), "here");
        asked
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn begin(&mut self, what: &str) {
        writeln!(self.to, "{what}").expect("it listens");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, what: &str) -> String {
        self.begin(what);
        self.answer()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
