//! Events of the system calls: LTTng's names, the C types of the arguments as the kernel's trace events tell them.
//!
//! All share two hooks; nothing but the number tells them apart.

use crate::arch::CALL_NAMES;
use crate::event::{Event, Field, Hook, Origin, Type};
use crate::format::Format;
use crate::labels::{self, Decoded};
use crate::structure;
use mote_layout::types::Scalar;

/// The provider of all.
pub(crate) const FAMILY: &str = "syscalls";

/// Arguments that are texts although they are not `const char *`.
const TEXTS: [(&str, &str); 4] =
    [("mount", "dev_name"), ("mount", "dir_name"), ("mount", "type"), ("umount", "name")];
/// Arguments that are descriptors of directories, or stand for the working directory.
const DIRECTORIES: [&str; 3] = ["dfd", "olddfd", "newdfd"];
/// Arguments that are bytes although they are `const char *`.
const BYTES: [(&str, &str); 4] = [
    ("write", "buf"),
    ("pwrite64", "buf"),
    ("mq_timedsend", "u_msg_ptr"),
    ("kexec_file_load", "cmdline_ptr"),
];

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Syscall {
    /// As LTTng and the kernel's trace events have it: `newfstat`.
    pub name: String,
    /// As the table of numbers has it: `fstat`.
    pub table: &'static str,
    /// Its number.
    pub number: u32,
}

/// The kernel's name of what the table calls `name`.
fn kernel_name(name: &str) -> &str {
    CALL_NAMES.iter().find(|(_, table)| *table == name).map_or(name, |(kernel, _)| kernel)
}

/// All system calls of the table, in the order of their names.
pub(crate) fn all() -> Vec<Syscall> {
    let table =
        mote_layout::syscalls::names().filter_map(|name| Some((mote_layout::syscalls::number(name)?, name)));
    let mut calls: Vec<Syscall> = table
        .map(|(number, name)| Syscall { name: kernel_name(name).to_owned(), table: name, number })
        .collect();
    calls.sort_by(|a, b| a.name.cmp(&b.name));
    calls
}

impl Syscall {
    /// Its entry; without the format of its trace event, the arguments are six words.
    pub(crate) fn entry(&self, format: Option<&Format>) -> Event {
        let words =
            || (0..6).map(|index| argument(&format!("arg{index}"), index, Type::Scalar(Scalar::hex(64))));
        let mut fields: Vec<Field> = match format {
            Some(format) => self.arguments(format),
            None => words().collect(),
        };
        fields.extend(structure::given(&self.name));
        Event {
            provider: FAMILY.to_owned(),
            name: format!("syscall_entry_{}", self.name),
            fields,
            hook: Hook::SyscallEntry(self.number),
        }
    }

    /// Its return, with how long it took if that is wanted.
    pub(crate) fn exit(&self, duration: bool) -> Event {
        let result = Field {
            name: "ret".to_owned(),
            ty: Type::Labelled(Scalar::signed(64), labels::errors()),
            from: Origin::Result,
        };
        let took = || Field {
            name: "duration_ns".to_owned(),
            ty: Type::Scalar(Scalar::unsigned(64)),
            from: Origin::Duration,
        };
        Event {
            provider: FAMILY.to_owned(),
            name: format!("syscall_exit_{}", self.name),
            fields: std::iter::once(result)
                .chain(duration.then(took))
                .chain(structure::returned(&self.name))
                .collect(),
            hook: Hook::SyscallExit(self.number),
        }
    }

    /// The fields of `sys_enter_NAME` without the number; each is one argument.
    fn arguments(&self, format: &Format) -> Vec<Field> {
        let arguments = format.fields.iter().filter(|(field, _)| {
            field.name != "__syscall_nr" && matches!(field.from, Origin::Record(_) | Origin::Made { .. })
        });
        arguments
            .zip(0..6)
            .map(|((field, ty), index)| {
                let words: Vec<&str> = ty.split_whitespace().filter(|word| *word != "__user").collect();
                self.argument(&field.name, &words.join(" "), index)
            })
            .collect()
    }

    fn argument(&self, name: &str, c_type: &str, index: u8) -> Field {
        let is = |list: &[(&str, &str)]| list.contains(&(&self.name, name));
        let text = matches!(c_type, "const char *" | "const char*") && !is(&BYTES);
        if text || is(&TEXTS) {
            return Field { name: name.to_owned(), ty: Type::Text, from: Origin::UserText(index) };
        }
        let scalar = match name {
            // Some are declared unsigned, and -1 all the same.
            "fd" => Scalar::signed(32),
            _ if is_address(c_type, name) => Scalar::hex(64),
            _ => scalar(c_type),
        };
        let ty = match labels::of(&self.name, name) {
            // A plain integer in the trace, as LTTng has it.
            None if DIRECTORIES.contains(&name) => {
                let here = i64::from(libc::AT_FDCWD);
                Type::Labelled(scalar, vec![("AT_FDCWD".to_owned(), here, here)])
            }
            None => Type::Scalar(scalar),
            Some(Decoded::Value(list)) => Type::Enumeration(scalar, labels::each(list)),
            Some(Decoded::Both(values, flags)) => Type::Enumeration(scalar, labels::combined(values, flags)),
            Some(Decoded::Signal) => Type::Enumeration(scalar, labels::signals()),
            Some(Decoded::Flags(list)) => {
                let bits = list.iter().map(|(name, value)| ((*name).to_owned(), *value as u64));
                Type::Flags(unsigned(scalar), bits.collect())
            }
        };
        argument(name, index, ty)
    }
}

fn argument(name: &str, index: u8, ty: Type) -> Field {
    Field { name: name.to_owned(), ty, from: Origin::Argument(index) }
}

/// Whether it is an address, which the kernel has as a number.
fn is_address(c_type: &str, name: &str) -> bool {
    const NAMES: [&str; 6] = ["addr", "start", "brk", "new_addr", "child_tidptr", "newsp"];
    c_type == "unsigned long" && NAMES.contains(&name)
}

/// Sets of bits have no sign.
fn unsigned(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Integer(integer) => Scalar::unsigned(integer.bits),
        other => other,
    }
}

/// How a value of this C type is recorded. Arguments come as 64-bit words, of which the upper part says nothing.
fn scalar(c_type: &str) -> Scalar {
    let plain = c_type.strip_prefix("const ").unwrap_or(c_type);
    match plain {
        "int" | "pid_t" | "clockid_t" | "clock_t" | "timer_t" | "key_t" | "mqd_t" | "key_serial_t"
        | "s32" | "__s32" | "rwf_t" | "const clockid_t" => Scalar::signed(32),
        "unsigned int" | "unsigned" | "u32" | "__u32" | "uint32_t" | "uid_t" | "gid_t" | "qid_t"
        | "dev_t" => Scalar::unsigned(32),
        "umode_t" | "mode_t" => Scalar::unsigned(16),
        "long" | "off_t" | "loff_t" | "ssize_t" | "__kernel_long_t" | "s64" | "__s64" => Scalar::signed(64),
        "aio_context_t" | "__sighandler_t" | "cap_user_header_t" | "cap_user_data_t" => Scalar::hex(64),
        _ if plain.contains('*') => Scalar::hex(64),
        _ => Scalar::unsigned(64),
    }
}
