//! Commands whose output is shown and counted: tests that passed, failed, and were skipped.

use anyhow::Context;
use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;

/// Tests that were run, in all steps together.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Tests that steps leave out by their names, because others run them, or a quick run does without.
    pub(crate) left_out: u64,
    /// One line for each, as it was printed.
    pub(crate) skips: Vec<String>,
    /// What a summary has to say beside the number of failures: the names of tests that failed, and what cargo says of
    /// programs that did not end as tests do, whose tests nobody counts.
    pub(crate) wrong: Vec<String>,
    /// Tests that failed beside others, and passed when they were run once more, one by one.
    pub(crate) unstable: Vec<String>,
    /// The lines that follow name tests that failed.
    is_list_of_failures: bool,
    /// What threads said when they panicked: the name of the thread, which is that of its test, and some lines.
    panics: Vec<(String, Vec<String>)>,
    /// The lines that follow are of the last panic.
    is_panic: bool,
}

/// How much of a panic is kept.
const LINES_OF_PANIC: usize = 12;
/// Of no more tests that fail in a step a second try may say something else: a change that is wrong fails in many.
const UNSTABLE_MAX: usize = 3;

impl Counts {
    /// Takes a line of output: the result of a test program, or a skip.
    pub(crate) fn note(&mut self, line: &str) {
        if let Some(said) = skip_in(line) {
            self.skips.push(said.to_owned());
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let before = result.split(word).next().unwrap_or("");
                before.trim().rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += number(" passed");
            self.failed += number(" failed");
            self.left_out += number(" filtered out");
        }
        self.note_panic(line);
        if is_wrong(line) || self.is_list_of_failures && line.starts_with("    ") {
            self.wrong.push(line.trim().to_owned());
        }
        // The names follow the last of these lines; before, there is what the tests have printed, if anything.
        self.is_list_of_failures =
            line == "failures:" || self.is_list_of_failures && (line.is_empty() || line.starts_with("    "));
    }

    fn note_panic(&mut self, line: &str) {
        let begun = line.strip_prefix("thread '").filter(|rest| rest.contains(" panicked at "));
        if let Some((name, _)) = begun.and_then(|rest| rest.split_once('\'')) {
            self.panics.push((name.to_owned(), Vec::new()));
            self.is_panic = true;
        }
        self.is_panic &= !line.starts_with("note: run with `RUST_BACKTRACE") && !line.starts_with("test ");
        if let Some((_, lines)) = self.panics.last_mut().filter(|_| self.is_panic) {
            lines.push(line.to_owned());
            self.is_panic = lines.len() < LINES_OF_PANIC;
        }
    }

    /// What tests that failed said when they did, so that the end of a long log tells why.
    pub(crate) fn panics_of_failed(&self) -> impl Iterator<Item = &str> {
        let is_one = |name: &String| self.wrong.contains(name) || self.unstable.contains(name);
        let failed = self.panics.iter().filter(move |(name, _)| is_one(name));
        failed.flat_map(|(_, lines)| lines).map(String::as_str)
    }

    /// The tests that failed, where they are few and nothing else was wrong: a program that a signal has ended, say,
    /// has tests that did not run.
    fn few_failed(&self) -> Option<Vec<String>> {
        let (said, names): (Vec<_>, Vec<_>) = self.wrong.iter().partition(|what| what.contains(' '));
        let is_of_failures = |what: &String| what.starts_with("error: test failed") || what.contains(FAILED);
        let is_few = (1..=UNSTABLE_MAX).contains(&names.len()) && said.into_iter().all(is_of_failures);
        is_few.then(|| names.into_iter().cloned().collect())
    }

    /// Takes what came of tests that were run once more; returns whether all of them passed.
    fn take_again(&mut self, tests: Vec<String>, again: &Counts) -> bool {
        if again.failed > 0 || again.passed < tests.len() as u64 {
            return false;
        }
        self.wrong.clear();
        self.failed = self.failed.saturating_sub(tests.len() as u64);
        self.passed += tests.len() as u64;
        self.unstable.extend(tests);
        true
    }

    /// Takes what was counted apart.
    fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.left_out += other.left_out;
        self.skips.extend(other.skips);
        self.wrong.extend(other.wrong);
        self.unstable.extend(other.unstable);
        self.panics.extend(other.panics);
    }

    /// Counts something that the chores themselves leave out.
    pub(crate) fn skip(&mut self, why: &str) {
        self.skips.push(format!("{}{why}", mote_skip::MARK));
    }
}

/// What a line says of a skip. Tests of ours say it by `mote_skip`; tests and tools of others may call it otherwise.
fn skip_in(line: &str) -> Option<&str> {
    /// How a line begins that says so, in small letters; what follows is no letter.
    const WORDS: [&str; 4] = ["skip", "skips", "skipped", "skipping"];
    // Where tests run one by one, the harness has begun the line: `test NAME ... `.
    let said =
        line.strip_prefix("test ").and_then(|test| test.split_once(" ... ")).map_or(line, |test| test.1);
    // Where they say little of themselves, it has begun with a dot for each.
    let said = said.trim_start_matches(['.', ' ', '\t']);
    let word = said.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    WORDS.contains(&word.to_ascii_lowercase().as_str()).then_some(said)
}

/// Whether cargo says in a line that something cannot be built, that a program of tests failed, or how one died. What
/// programs of tests print themselves is theirs.
fn is_wrong(line: &str) -> bool {
    const SAID: [&str; 4] =
        ["error: could not compile", "error: test failed", "error: doctest failed", "error: failed to"];
    const WITHIN: [&str; 3] =
        ["process didn't exit successfully: ", "could not execute process", "(os error 28)"];
    SAID.iter().any(|said| line.starts_with(said)) || WITHIN.iter().any(|said| line.contains(said))
}

/// How the programs of tests end of which some failed.
const FAILED: &str = "(exit status: 101)";

/// Runs tests as [`follow`] does, by the command that `command` makes of words for their program: first of `words`.
/// Where a few of them fail, these are run once more, one by one: many tests look at what a busy machine does to
/// programs, and a run of thousands must not depend on one moment. Those that pass then are counted as unstable, and
/// what they said is shown at the end.
///
/// # Errors
/// A command cannot be started.
pub(crate) fn follow_tests(
    counts: &mut Counts,
    words: &[&str],
    command: impl Fn(&[&str]) -> Command,
) -> anyhow::Result<bool> {
    let mut first = Counts::default();
    let passed =
        follow(&mut command(words), &mut first)? || again(&mut first, &|line| println!("{line}"), command)?;
    counts.add(first);
    Ok(passed)
}

/// Runs those that failed once more, where they are few, and shows what they print. Returns whether all have passed
/// now.
fn again(counts: &mut Counts, show: &Show, command: impl Fn(&[&str]) -> Command) -> anyhow::Result<bool> {
    let Some(tests) = counts.few_failed() else { return Ok(false) };
    show(&format!("== once more, one by one: {}", tests.join(", ")));
    let words = ["--exact", "--test-threads=1"].into_iter().chain(tests.iter().map(String::as_str));
    let mut second = Counts::default();
    let passed = read_lines(&mut command(&words.collect::<Vec<_>>()), |line| {
        show(line);
        second.note(line);
    })?;
    Ok(counts.take_again(tests, &second) && passed.success())
}

/// Where lines go that somebody should see.
type Show = dyn Fn(&str) + Sync;

/// Runs programs of tests beside each other, as many at once as there are processors, by the commands that `command`
/// makes of them. What each prints is shown when it has ended. Where a few tests of one fail, these are run once more
/// as [`follow_tests`] does it, when all programs have ended. Returns whether all passed.
///
/// # Errors
/// A command cannot be started.
pub(crate) fn follow_beside<P: Display + Sync>(
    counts: &mut Counts,
    programs: &[P],
    command: impl Fn(&P) -> Command + Sync,
) -> anyhow::Result<bool> {
    beside(counts, programs, &|line| println!("{line}"), command)
}

fn beside<P: Display + Sync>(
    counts: &mut Counts,
    programs: &[P],
    show: &Show,
    command: impl Fn(&P) -> Command + Sync,
) -> anyhow::Result<bool> {
    let open = Mutex::new(programs.iter());
    let ended = Mutex::new((counts, Vec::new()));
    let work = || -> anyhow::Result<()> {
        while let Some(program) = open.lock().ok().and_then(|mut open| open.next()) {
            let mut lines = Vec::new();
            let status = read_lines(&mut command(program), |line| lines.push(line.to_owned()))?;
            if !status.success() {
                lines.push(format!("process didn't exit successfully: `{program}` ({status})"));
            }
            let mut of_program = Counts::default();
            let mut ended = ended.lock().ok().context("a thread has panicked")?;
            show(&format!("-- {program}"));
            for line in lines {
                show(&line);
                of_program.note(&line);
            }
            if status.success() {
                ended.0.add(of_program);
            } else {
                ended.1.push((program, of_program));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let workers = 0..std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = workers.map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().ok().context("a thread has panicked")?)
    })?;
    let (counts, failed) = ended.into_inner().ok().context("a thread has panicked")?;
    let mut all_passed = true;
    for (program, mut of_program) in failed {
        all_passed &= again(&mut of_program, show, |words| {
            let mut command = command(program);
            command.args(words);
            command
        })?;
        counts.add(of_program);
    }
    Ok(all_passed)
}

/// Runs a command, shows what it prints, and counts the tests and skips in it. Returns whether it succeeded.
///
/// # Errors
/// The command cannot be started.
pub(crate) fn follow(command: &mut Command, counts: &mut Counts) -> anyhow::Result<bool> {
    follow_lines(command, |line| counts.note(line))
}

/// Runs a command, shows what it prints, and gives each line to `note`. Returns whether it succeeded.
///
/// # Errors
/// The command cannot be started.
pub(crate) fn follow_lines(command: &mut Command, mut note: impl FnMut(&str)) -> anyhow::Result<bool> {
    let status = read_lines(command, |line| {
        println!("{line}");
        note(line);
    })?;
    Ok(status.success())
}

/// Runs a command, and gives each line that it prints to `note`. Returns how it ended.
///
/// # Errors
/// The command cannot be started.
fn read_lines(command: &mut Command, mut note: impl FnMut(&str)) -> anyhow::Result<ExitStatus> {
    // Of tests that pass, the harness shows what they print, as tools of others may say that they skip something.
    // Panics that tests expect say where they are without a backtrace, which would hide what matters.
    command.env("RUST_TEST_NOCAPTURE", "1").env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdout(writer.try_clone().context("cannot make a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    // The command has the pipe's other end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what the command prints")?;
        let line = String::from_utf8_lossy(&line);
        note(&line);
    }
    child.wait().context("the command is lost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_skips_are_counted() {
        let mut counts = Counts::default();
        counts.note(
            "test result: ok. 12 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s",
        );
        counts.note("SKIP: no babeltrace2");
        assert_eq!((counts.passed, counts.failed, counts.left_out, counts.skips.len()), (12, 1, 7, 1));
    }

    #[test]
    fn a_skip_is_counted_whatever_it_calls_itself() {
        let mut counts = Counts::default();
        for line in [
            "SKIP: a::b: there is no gcc",
            "skipped: there is no gcc",
            "Skipping the rest",
            "  SKIPPED (no root)",
            "...SKIP: a::b: there is no gcc",
            "test a::b ... SKIP: a::b: there is no gcc",
        ] {
            counts.note(line);
        }
        assert_eq!(counts.skips.len(), 6, "{:?}", counts.skips);
        assert_eq!(counts.skips.last().unwrap(), "SKIP: a::b: there is no gcc");
        for line in ["test skips_are_counted ... ok", "skipper: no", "it may skip: no", "test a ... ok", ""] {
            counts.note(line);
        }
        assert_eq!(counts.skips.len(), 6, "{:?}", counts.skips);
    }

    #[test]
    fn what_tests_say_is_counted() {
        let mut counts = Counts::default();
        counts.note(&format!("{}a::b: why", mote_skip::MARK));
        counts.skip("why");
        assert_eq!(counts.skips, ["SKIP: a::b: why", "SKIP: why"]);
    }

    #[test]
    fn what_failed_is_remembered() {
        let mut counts = Counts::default();
        let output = "\
thread 'a::d' (1) panicked at a.rs:1:
as is expected
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
test a::d - should panic ... ok
thread 'a::b' (2) panicked at a.rs:2:
left: 1
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
test a::b ... FAILED

failures:

failures:
    a::b
    a::c

test result: FAILED. 1 passed; 2 failed; 0 ignored;
    not a name
error: test failed, to rerun pass `-p a --lib`
Caused by:
  process didn't exit successfully: `target/debug/deps/a` (signal: 11, SIGSEGV: invalid memory reference)
test a::errors ... ok";
        output.lines().for_each(|line| counts.note(line));
        assert_eq!(
            counts.wrong,
            [
                "a::b",
                "a::c",
                "error: test failed, to rerun pass `-p a --lib`",
                "process didn't exit successfully: `target/debug/deps/a` (signal: 11, SIGSEGV: invalid memory reference)",
            ]
        );
        let said: Vec<&str> = counts.panics_of_failed().collect();
        assert_eq!(said, ["thread 'a::b' (2) panicked at a.rs:2:", "left: 1"]);
    }

    /// What a program prints of which tests with these names failed.
    fn failures(names: &[&str], end: &str) -> String {
        let list: String = names.iter().map(|name| format!("    {name}\n")).collect();
        let result = format!("test result: FAILED. 5 passed; {} failed;", names.len());
        let said = "error: test failed, to rerun pass `-p a --lib`\nCaused by:";
        format!("failures:\n{list}\n{result}\n{said}\n  process didn't exit successfully: `a` ({end})\n")
    }

    fn counted(printed: &str) -> Counts {
        let mut counts = Counts::default();
        printed.lines().for_each(|line| counts.note(line));
        counts
    }

    #[test]
    fn a_few_that_failed_may_pass_once_more() {
        let mut counts = counted(&failures(&["a::b", "a::c"], "exit status: 101"));
        let tests = counts.few_failed().expect("few");
        assert_eq!(tests, ["a::b", "a::c"]);
        let again = counted("test result: FAILED. 1 passed; 1 failed; 0 ignored; 9 filtered out;");
        assert!(!counts.take_again(tests.clone(), &again));
        assert_eq!((counts.passed, counts.failed, counts.wrong.len()), (5, 2, 4));
        // One of them is not there any more.
        assert!(!counts.take_again(tests.clone(), &counted("test result: ok. 1 passed; 0 failed;")));
        assert!(counts.take_again(tests, &counted("test result: ok. 2 passed; 0 failed; 9 filtered out;")));
        assert_eq!((counts.passed, counts.failed, counts.left_out, counts.wrong.len()), (7, 0, 0, 0));
        assert_eq!(counts.unstable, ["a::b", "a::c"]);
    }

    #[test]
    fn what_is_no_moment_of_a_machine_is_not_run_once_more() {
        assert_eq!(counted(&failures(&["a", "b", "c", "d"], "exit status: 101")).few_failed(), None);
        assert_eq!(counted(&failures(&["a"], "signal: 11, SIGSEGV")).few_failed(), None);
        assert_eq!(counted("error: could not compile `a`").few_failed(), None);
        // What an earlier step had is its own.
        let mut counts = counted(&failures(&["a"], "exit status: 101"));
        counts.add(counted(&failures(&["b"], "exit status: 101")));
        assert_eq!((counts.passed, counts.failed, counts.wrong.len()), (10, 2, 6));
    }

    #[test]
    fn of_programs_beside_each_other_those_that_fail_are_told() {
        let script = |program: &&str| match *program {
            "good" => "echo 'test result: ok. 2 passed; 0 failed;'".to_owned(),
            "dead" => "kill -SEGV $$".to_owned(),
            name => {
                let once_more =
                    if name == "bad" { "" } else { "echo 'test result: ok. 1 passed; 0 failed;'; exit;" };
                let list = format!("failures:\\n    {name}\\n\\ntest result: FAILED. 1 passed; 1 failed;\\n");
                format!("test $# = 0 || {{ {once_more} :; }}; printf '{list}'; exit 101")
            }
        };
        let run = |programs: &[&str]| {
            let mut counts = Counts::default();
            let passed = beside(&mut counts, programs, &|_| (), |program| {
                let mut command = Command::new("sh");
                command.args(["-c", &script(program), "sh"]);
                command
            });
            (passed.unwrap(), counts)
        };
        let (passed, counts) = run(&["good", "unstable", "good"]);
        assert!(passed && counts.wrong.is_empty());
        assert_eq!((counts.passed, counts.failed, counts.unstable), (6, 0, vec!["unstable".to_owned()]));
        let (passed, counts) = run(&["good", "bad"]);
        assert_eq!((passed, counts.passed, counts.failed), (false, 3, 1));
        assert_eq!(counts.wrong[0], "bad");
        let (passed, counts) = run(&["dead", "good"]);
        assert_eq!((passed, counts.passed), (false, 2));
        assert!(counts.wrong[0].contains("dead") && counts.wrong[0].contains("signal"), "{:?}", counts.wrong);
    }

    #[test]
    fn a_command_is_followed_to_its_end() {
        let mut counts = Counts::default();
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: ok. 2 passed; 0 failed;'; echo 'SKIP: x' >&2; exit 3"]);
        // Not shown: the run that this test is in would count the line, too.
        assert!(!read_lines(&mut command, |line| counts.note(line)).unwrap().success());
        assert_eq!((counts.passed, counts.skips.len()), (2, 1));
    }
}
