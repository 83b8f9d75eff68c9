//! `mote coldpatch`: prepares a binary for probes.

use crate::{cmd, out};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use mote_coldpatch::{Cold, Left, Refused, Rewrite, Symbols, coldpatch};
use mote_functions::{Lists, Pattern, beside_of};
use mote_probelist::{Kind, List, Placeholder, Was};
use mote_symbol::Image;
use mote_words::counted;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make NOPs of the calls that a compiler has put into a program for instrumentation, and list them
///
/// Of a program that is built with -finstrument-functions or -pg, each call of the compiler's hooks becomes a NOP of
/// the same length, and each jump to one a return: it costs little then. The list OUT.probes has the functions and all
/// places for probes, with names, files and lines, and belongs to this build: with it, `mote functions` finds the
/// functions of the stripped program, wherever that is loaded.
///
/// --rewrite is for programs and libraries that were built without any of that: of the functions that it means, those
/// in which a running process has no room for a jump get placeholders; with --everywhere the others, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gcc -O2 -g -finstrument-functions -o app app.c
  mote coldpatch app                        app.cold and app.cold.probes
  mote coldpatch app -o bin/app --strip     without symbols and debug information
  mote coldpatch app -o app                 in its own place
  mote coldpatch /usr/bin/lua5.4 --rewrite '*' -o ./lua5.4      of a package, as it is
  mote coldpatch libz.so.1 --rewrite 'inflate*' --everywhere -o lib/libz.so.1
  mote functions 'parse_*' -- bin/app       by bin/app.probes, which is beside it
  mote functions --probes app.probes 'parse_*' -p 4711
  mote list --functions bin/app             its functions, by the list
  mote coldpatch app --format json | jq .placeholders

Placeholders, by what leaves them:
  enter, exit   -finstrument-functions: calls of and jumps to __cyg_profile_func_enter and _exit
  fentry        -pg -mfentry: calls of __fentry__, or NOPs (-mnop-mcount)
  mcount        -pg: calls of mcount
  patchable     -fpatchable-function-entry: NOPs
  xray-...      clang -fxray-instrument: sleds, which do nothing
  usdt          sys/sdt.h: NOPs
  mote          mote's own events and switches: NOPs
  rewritten     --rewrite: NOPs in new segments of the file, which functions jump to

Only calls and jumps are changed; what does nothing is listed. Calls by the linker's tables (PLT, GOT) are found, too.
The code that loads their arguments stays. With --rewrite the first instructions of functions become jumps. What cannot
be done safely stays as it was, and is counted with its reason.

The hooks are known by their names: prepare a program before it is stripped. A program that has its list beside it is
prepared already.

JSON: one object. Its keys are stable:
  output, list  the files
  build_id      in hex; empty when there is none, and the list is known by a digest of the code
  functions     how many functions the list has
  placeholders  {kind: {calls, jumps, nops}}
  left          [{address, kind, why}], what goes on as before
  refused       [{address, symbol, why}], functions that could not be rewritten
  unneeded      how many functions need not be: they can be probed by a jump as they are

Exit status: 0 done, 1 the program has no placeholder, or no function could be rewritten, and
nothing was written, 2 failed.")]
pub(crate) struct Args {
    /// The program or library
    #[arg(value_name = "BINARY")]
    binary: PathBuf,
    /// What to write; the list is OUT.probes [default: BINARY.cold]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Leave out symbols and debug information
    #[arg(long)]
    strip: bool,
    /// Give the functions that PATTERN means placeholders where no jump can be written into a
    /// running process, as `mote functions` names them; repeat for more
    #[arg(long, value_name = "PATTERN")]
    rewrite: Vec<String>,
    /// Rewrite functions that can be probed by a jump, too: each call then takes two jumps more
    #[arg(long, requires = "rewrite")]
    everywhere: bool,
    /// A table for people, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Prepares the binary; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let binary = &args.binary;
    let bytes = read(binary)?;
    check_is_new(binary, &bytes)?;
    let symbols = if args.strip { Symbols::Strip } else { Symbols::Keep };
    let patterns: Result<Vec<Pattern>, String> = args.rewrite.iter().map(|text| Pattern::new(text)).collect();
    let patterns = patterns.map_err(anyhow::Error::msg)?;
    let rewrite = if args.everywhere { Rewrite::All(&patterns) } else { Rewrite::Needed(&patterns) };
    let cold = coldpatch(binary, &bytes, symbols, rewrite)?;
    tell(binary, &cold);
    let is_rewritten = |place: &Placeholder| place.kind == Kind::Rewritten;
    // A file in which nothing has to be rewritten is as good as one in which something was.
    let is_done = cold.unneeded > 0 || cold.list.placeholders.iter().any(is_rewritten);
    if !patterns.is_empty() && !is_done {
        let why = if cold.refused.is_empty() { ": none is called so" } else { "" };
        say!("no function of {} was rewritten{why}", binary.display());
        return Ok(cmd::NOTHING.into());
    }
    if patterns.is_empty() && cold.list.placeholders.is_empty() {
        say!(
            "{} has no placeholder; build it with -finstrument-functions, -pg -mfentry or \
             -fpatchable-function-entry=5, and prepare it before it is stripped; or have it rewritten (--rewrite)",
            binary.display()
        );
        return Ok(cmd::NOTHING.into());
    }
    let output = args.output.clone().unwrap_or_else(|| with_ending(binary, ".cold"));
    // A link leads to a file, which is run by its own name, and has its list beside it.
    let output = if output.is_symlink() { fs::canonicalize(&output).unwrap_or(output) } else { output };
    let list = beside_of(&output);
    let mut text = Vec::new();
    cold.list.write(&mut text)?;
    // The list is right for the binary before and after.
    replace(&list, &text, 0o644)?;
    let mode = fs::metadata(binary).map_or(0o755, |data| data.permissions().mode() & 0o777);
    replace(&output, &cold.bytes, mode)?;
    let page = match args.format {
        Format::Table => table(&output, &list, &cold.list),
        Format::Json => format!("{:#}\n", json_of(&output, &list, &cold)),
    };
    out::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes of a regular file: to open a pipe or a device could wait for ever.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let context = || format!("cannot read {}", path.display());
    let is_file = fs::metadata(path).with_context(context)?.is_file();
    ensure!(is_file, "{} is not a program or library: it is no regular file", path.display());
    fs::read(path).with_context(context)
}

/// Once its calls are NOPs, they cannot be found again.
fn check_is_new(binary: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let image = Image::from_bytes(binary, bytes)?;
    let is_prepared = Lists::default().of_file(&image, binary).list.is_some();
    ensure!(
        !is_prepared,
        "{} has been prepared already: {} is its list; remove that to prepare it once more",
        binary.display(),
        beside_of(binary).display()
    );
    Ok(())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Puts a file in the place of what is at `path`: what runs from there keeps the old one.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let new = with_ending(path, &format!(".{}.new", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Says on stderr what else there is to know.
fn tell(binary: &Path, cold: &Cold) {
    let mut left: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for Left { address, kind, why } in &cold.left {
        left.entry((*kind, *why)).or_default().push(format!("{address:#x}"));
    }
    for ((kind, why), addresses) in left {
        /// So many are named.
        const SOME: usize = 5;
        let more = if addresses.len() > SOME { ", ..." } else { "" };
        let some: Vec<&str> = addresses.iter().take(SOME).map(String::as_str).collect();
        let places = counted(addresses.len(), "place", "places");
        say!("{places} of {} stay as before: {} (at {}{more})", kind.word(), why.words(), some.join(", "));
    }
    let mut refused: BTreeMap<_, usize> = BTreeMap::new();
    cold.refused.iter().for_each(|Refused { why, .. }| *refused.entry(*why).or_default() += 1);
    for (why, count) in refused {
        say!("{} not rewritten: {why}", counted(count, "function is", "functions are"));
    }
    if cold.unneeded > 0 {
        let functions = counted(cold.unneeded, "function needs", "functions need");
        say!("{functions} no placeholder: there is room for a jump (--everywhere gives them one)");
    }
    if cold.list.build_id.is_empty() {
        say!(
            "{} has no build id: its list is known by a digest of its code; -Wl,--build-id makes one",
            binary.display()
        );
    }
    if !cold.list.placeholders.is_empty()
        && cold.list.functions.iter().all(|function| function.file.is_none())
    {
        say!("{} has no debug information: its list has no lines; -g makes some", binary.display());
    }
}

/// Calls, jumps and NOPs of each kind.
fn counts(list: &List) -> BTreeMap<Kind, [usize; 3]> {
    let mut counts: BTreeMap<Kind, [usize; 3]> = BTreeMap::new();
    for placeholder in &list.placeholders {
        let [calls, jumps, nops] = counts.entry(placeholder.kind).or_default();
        *match placeholder.was {
            Was::Call => calls,
            Was::Jump => jumps,
            Was::Nop => nops,
        } += 1;
    }
    counts
}

fn table(output: &Path, path: &Path, list: &List) -> String {
    let functions: BTreeSet<_> = list.placeholders.iter().filter_map(|one| one.function.as_ref()).collect();
    let mut page = format!(
        "{}: {} in {}\n",
        output.display(),
        counted(list.placeholders.len(), "placeholder", "placeholders"),
        counted(functions.len(), "function", "functions")
    );
    for (kind, [calls, jumps, nops]) in counts(list) {
        let nop = if kind == Kind::Rewritten { "that was made" } else { "that did nothing before" };
        let nop = (nop, if kind == Kind::Rewritten { "that were made" } else { nop });
        let parts = [
            (calls, "call made NOP", "calls made NOPs"),
            (jumps, "jump made a return", "jumps made returns"),
            (nops, nop.0, nop.1),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, one, more)| counted(count, one, more)).collect();
        let _ = writeln!(page, "  {:<11} {}", kind.word(), parts.join(", "));
    }
    let functions = counted(list.functions.len(), "function", "functions");
    let _ = writeln!(page, "{}: the list, with {functions}", path.display());
    page
}

fn json_of(output: &Path, path: &Path, cold: &Cold) -> Value {
    let counts = counts(&cold.list).into_iter();
    let placeholders: serde_json::Map<String, Value> = counts
        .map(|(kind, [calls, jumps, nops])| {
            (kind.word().to_owned(), json!({ "calls": calls, "jumps": jumps, "nops": nops }))
        })
        .collect();
    let left = cold
        .left
        .iter()
        .map(|left| json!({ "address": left.address, "kind": left.kind.word(), "why": left.why.words() }));
    let refused = cold.refused.iter().map(|Refused { address, name, why }| {
        json!({ "address": address, "symbol": name, "why": why.to_string() })
    });
    json!({
        "output": output.to_string_lossy(),
        "list": path.to_string_lossy(),
        "build_id": cold.list.build_id,
        "functions": cold.list.functions.len(),
        "placeholders": placeholders,
        "left": left.collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
        "unneeded": cold.unneeded,
    })
}
