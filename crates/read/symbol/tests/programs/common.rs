//! Programs that are compiled for a test, run up to a point, and looked at.

use mote_journal::Map;
use mote_symbol::collect::{self, BuildIds};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Prints addresses of itself by name, and waits until it is killed.
pub(crate) const PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
#define HERE(to) __asm__ volatile("lea 0(%%rip), %0" : "=r"(to))
static inline __attribute__((always_inline)) void *inlined(void) {
    void *at;
    HERE(at); /* line 7 */
    return at;
}
__attribute__((noinline)) void *inner(void **inside) {
    *inside = inlined(); /* line 11 */
    return __builtin_return_address(0);
}
__attribute__((noinline)) void *outer(void **inside) {
    void *back = inner(inside); /* line 15 */
    __asm__ volatile("" ::: "memory");
    return back;
}
int main(void) {
    void *inside, *back = outer(&inside);
    printf("inner %p\ninside %p\nback %p\nend\n", (void *)inner, inside, back);
    fflush(stdout);
    for (;;) pause();
}
"#;

/// Compiles `source` with `compiler` (`gcc`, `g++`) and more arguments; `None`, said loudly, when there is no compiler.
pub(crate) fn compile(
    dir: &Path,
    name: &str,
    compiler: &str,
    source: &str,
    more: &[&str],
) -> Option<PathBuf> {
    let extension = if compiler == "g++" { "cpp" } else { "c" };
    let code = dir.join(format!("{name}.{extension}"));
    std::fs::write(&code, source).expect("a directory of the test");
    let program = dir.join(name);
    let run = Command::new(compiler).arg(&code).arg("-o").arg(&program).args(more).current_dir(dir).output();
    let Ok(run) = run else {
        mote_skip::skip(format_args!("there is no {compiler}"));
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(program)
}

/// A program that has printed its addresses and waits.
pub(crate) struct Running {
    child: Child,
    pub(crate) addresses: HashMap<String, u64>,
}

impl Running {
    pub(crate) fn start(program: &Path) -> Running {
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().expect("it was just compiled");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let lines = lines.map(|line| line.expect("text")).take_while(|line| line != "end");
        let address = |line: String| {
            let (name, address) = line.split_once(" 0x").map(|(n, a)| (n.to_owned(), a.to_owned()))?;
            Some((name, u64::from_str_radix(&address, 16).ok()?))
        };
        let addresses = lines.filter_map(address).collect();
        Running { child, addresses }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As the recorder notes them.
    pub(crate) fn maps(&self) -> Vec<Map> {
        let mut maps = collect::maps(self.pid());
        BuildIds::default().fill(self.pid(), &mut maps);
        maps
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
