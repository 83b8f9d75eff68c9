//! The probe list of a binary: its functions, and the placeholders that compilers have left in it for probes.
//!
//! `mote coldpatch` writes it while the binary has its symbols and debug information; with it, the functions of the
//! stripped binary have names, addresses and lines, wherever that is loaded. The source of the idea is iProbe (Arora et
//! al. 2013, sections II-A and IV-A: the probe list of ColdPatch).
//!
//! # Format
//! JSON, one object a line, told apart by `line`:
//! ```text
//! {"line":"list","version":1,"build_id":"5d…","text":"9c31…","functions":2,"placeholders":1}
//! {"line":"function","address":4416,"size":31,"name":"parse","file":"/src/app.c","at":12}
//! {"line":"placeholder","offset":4431,"address":4431,"size":5,"kind":"enter","was":"call","function":"parse", ...}
//! ```
//! The first line says how many of the others there are, so that a list which was cut is known for one. Functions come
//! first; both are in the order of addresses, which are those of the file. Keys that a reader does not know are left
//! for later versions; a list of another version is refused.
//!
//! # Whose list it is
//! The build id says it. A binary without one is known by a digest of its code ([`List::is_of`]).
#![forbid(unsafe_code)]

mod read;
mod write;

pub use read::{BYTES_MAX, ListError, Wrong};

use serde::{Deserialize, Serialize};

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// What the name of a list ends with that lies beside its binary: `app.probes` of `app`.
pub const ENDING: &str = ".probes";
/// The section of a rewritten binary that has its placeholders of [`Kind::Rewritten`], with the instructions that made
/// room for the jumps there.
pub const PADS: &str = ".mote.pads";

/// A probe list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// GNU build id of the binary in hex; empty when it has none.
    pub build_id: String,
    /// Digest of the binary's code, as it is after placeholders became NOPs, in hex.
    pub text: String,
    /// By address.
    pub functions: Vec<Function>,
    /// By address.
    pub placeholders: Vec<Placeholder>,
}

/// A function of the binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Where it begins, in the file's own address space.
    pub address: u64,
    /// Bytes; 0 when the symbol table did not say.
    pub size: u64,
    /// Name as in the symbol table.
    pub name: String,
    /// Source file, where debug information had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in that.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "at")]
    pub line: Option<u32>,
}

/// A place in the code that a compiler, or a macro, has left for a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placeholder {
    /// Where it is in the file, in bytes.
    pub offset: u64,
    /// Its address, in the file's own address space.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// The option of the compiler, or the macro, that has left the place.
    pub kind: Kind,
    /// What stood there.
    pub was: Was,
    /// Name in the symbol table of the function that it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Source file of the code there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in that.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "at")]
    pub line: Option<u32>,
    /// Where the code there belongs to functions that were inlined: these, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<Inlined>,
    /// The name of the event that a macro has put there: `provider:name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Where the function begins, of a placeholder that lies elsewhere: [`Kind::Rewritten`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
}

/// A function that was inlined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inlined {
    /// Its name.
    pub function: String,
    /// Source file of the call in whose place it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in that.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "at")]
    pub line: Option<u32>,
}

/// What leaves placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `-finstrument-functions`: `__cyg_profile_func_enter` where a function begins.
    Enter,
    /// The same: `__cyg_profile_func_exit` where it ends.
    Exit,
    /// `-pg -mfentry`: `__fentry__` before the function's first instruction.
    Fentry,
    /// `-pg`: `mcount` behind the function's prologue.
    Mcount,
    /// `-fpatchable-function-entry`.
    Patchable,
    /// `-fxray-instrument`: where a function begins.
    XrayEntry,
    /// The same: where it returns.
    XrayExit,
    /// The same: where it ends with a jump to another one.
    XrayTail,
    /// The same: an event of the program's own.
    XrayEvent,
    /// `sys/sdt.h`.
    Usdt,
    /// `mote`'s own events and switches.
    Mote,
    /// `mote coldpatch --rewrite`: elsewhere in the file, where the function's entry jumps to.
    Rewritten,
}

impl Kind {
    /// All kinds, in the order in which lists number them.
    pub const ALL: [Kind; 12] = [
        Kind::Enter,
        Kind::Exit,
        Kind::Fentry,
        Kind::Mcount,
        Kind::Patchable,
        Kind::XrayEntry,
        Kind::XrayExit,
        Kind::XrayTail,
        Kind::XrayEvent,
        Kind::Usdt,
        Kind::Mote,
        Kind::Rewritten,
    ];

    /// In one word, as lists have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Enter => "enter",
            Kind::Exit => "exit",
            Kind::Fentry => "fentry",
            Kind::Mcount => "mcount",
            Kind::Patchable => "patchable",
            Kind::XrayEntry => "xray-entry",
            Kind::XrayExit => "xray-exit",
            Kind::XrayTail => "xray-tail",
            Kind::XrayEvent => "xray-event",
            Kind::Usdt => "usdt",
            Kind::Mote => "mote",
            Kind::Rewritten => "rewritten",
        }
    }
}

/// What stood at a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Was {
    /// A call, which became a NOP.
    Call,
    /// A jump to a function that returns to the caller, which became a return and a NOP.
    Jump,
    /// What does nothing already, and was left as it is: a NOP, or an XRay sled.
    Nop,
}

impl List {
    /// Whether it is the list of a binary with this build id, which is empty when there is none; then `text` is asked
    /// for the digest of its code.
    pub fn is_of(&self, build_id: &str, text: impl FnOnce() -> Option<String>) -> bool {
        if self.build_id.is_empty() {
            return build_id.is_empty() && text().is_some_and(|text| text == self.text);
        }
        self.build_id == build_id
    }

    /// The function that begins at `address`.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<&Function> {
        let at = self.functions.binary_search_by_key(&address, |function| function.address).ok()?;
        self.functions.get(at)
    }

    /// What it is the list of, in words.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.build_id.is_empty() {
            true => format!("of a binary without a build id (its code: {})", self.text),
            false => format!("of build {}", self.build_id),
        }
    }
}
