//! A C header with the contexts of events, for filters that clang compiles (`mote record --filter-file`).
//!
//! What a filter's context looks like is told in `mote_layout::context`; this says it in C.

use crate::{Event, Field};
use mote_bpf::helper::{self, Arg, Helper, Returns};
use mote_layout::tracer;
use std::fmt::Write;

/// The header for these events. An event that several objects carry alike is there once.
pub fn c_header<'e>(events: impl Iterator<Item = &'e Event>) -> String {
    let mut out = String::from(HEAD);
    for helper in helper::BUILTIN.iter().chain(tracer::HELPERS) {
        let _ = writeln!(out, "{}", declaration(helper));
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    for event in events {
        let (tag, body) = (tag(event), body(event));
        let versions = seen.iter().filter(|(other, _)| *other == tag).count();
        if seen.iter().any(|known| *known == (tag.clone(), body.clone())) {
            continue;
        }
        // The same name with other fields, as two versions of a library may have it.
        let suffix = if versions == 0 { String::new() } else { format!("_{}", versions + 1) };
        let text = event.text.replace("*/", "* /");
        let about = if text.is_empty() { String::new() } else { format!(": {text}") };
        let _ = write!(out, "\n/* {}{about} */\nstruct {tag}{suffix} {{\n{body}}};\n", event.full_name());
        seen.push((tag, body));
    }
    out.push_str("\n#endif\n");
    out
}

const HEAD: &str = "\
/* Written by `mote list --c-header`. For programs compiled by clang -O2 -g -target bpf, loaded by `mote record --filter-file`.
 *
 *   #include \"events.h\"
 *   SEC(\"filter/net:packet\")
 *   int large(struct mote_net_packet *event) { return event->len > 1500; }
 *
 * The result says what becomes of the event: 0 drop, 1 record, 2 keep aside with this thread's speculation.
 * A text or sequence lies between NAME and NAME_end; compare with the end before you read:
 *
 *   if (event->proto + 3 > event->proto_end) return 0;
 *   return event->proto[0] == 't';
 */
#ifndef MOTE_EVENTS_H
#define MOTE_EVENTS_H

#ifndef SEC
#define SEC(name) __attribute__((section(name), used))
#endif
typedef signed char mote_i8;
typedef unsigned char mote_u8;
typedef short mote_i16;
typedef unsigned short mote_u16;
typedef int mote_i32;
typedef unsigned int mote_u32;
typedef long long mote_i64;
typedef unsigned long long mote_u64;

";

fn tag(event: &Event) -> String {
    format!("mote_{}_{}", identifier(&event.provider), identifier(&event.name))
}

fn body(event: &Event) -> String {
    if event.fields.is_empty() {
        return "    mote_u64 mote_no_fields[0];\n".to_owned();
    }
    event.fields.iter().map(member).collect()
}

/// Names of C: letters, digits and underscores.
fn identifier(name: &str) -> String {
    let word: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if word.starts_with(|c: char| c.is_ascii_digit()) || KEYWORDS.contains(&word.as_str()) {
        format!("_{word}")
    } else {
        word
    }
}

/// Words that cannot be names of members (C11, 6.4.1).
const KEYWORDS: [&str; 32] = [
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "int", "long", "register", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
];

/// A field's words.
fn member(field: &Field) -> String {
    let name = identifier(&field.name);
    let pair = |of: &str| format!("    const {of} *{name};\n    const {of} *{name}_end;\n");
    let ty = field.ty.as_str();
    let labelled = ["enum ", "flags ", "labelled "].iter().find_map(|kind| ty.strip_prefix(kind));
    if let Some(rest) = labelled {
        let (scalar, labels) = rest.split_once(' ').unwrap_or((rest, ""));
        return format!("    {} {name}; /* {} */\n", word(scalar), labels.replace("*/", "* /"));
    }
    match ty.split_once('[') {
        _ if ty == "str" || ty.starts_with("char[") => pair("char"),
        _ if ty == "bytes" => pair("mote_u8"),
        Some((scalar, "]")) => pair(element(scalar)),
        Some((scalar, len)) => {
            format!("    const {} *{name}; /* [{} */\n", element(scalar), len)
        }
        None if matches!(ty, "f32" | "f64") => format!("    mote_u64 {name}; /* bits of a double */\n"),
        None => format!("    {} {name}; /* {ty} */\n", word(ty)),
    }
}

/// A number in the context: extended to 64 bits.
fn word(scalar: &str) -> &'static str {
    if scalar.starts_with('i') { "mote_i64" } else { "mote_u64" }
}

/// A number in memory. BPF has no floats: their bits.
fn element(scalar: &str) -> &'static str {
    match scalar {
        "u8" | "x8" | "bool" => "mote_u8",
        "i8" => "mote_i8",
        "u16" | "x16" => "mote_u16",
        "i16" => "mote_i16",
        "u32" | "x32" | "f32" => "mote_u32",
        "i32" => "mote_i32",
        "i64" => "mote_i64",
        _ => "mote_u64",
    }
}

/// A helper as a pointer to a function at the address of its number, which is how clang makes a call of it.
fn declaration(helper: &Helper) -> String {
    let returns = match helper.returns {
        Returns::Nothing => "void",
        Returns::ValueOrNull | Returns::RecordOrNull => "void *",
        Returns::Number | Returns::UpTo(_) => "mote_i64",
    };
    let args: Vec<&str> = helper
        .args
        .iter()
        .filter(|arg| **arg != Arg::None)
        .map(|arg| match arg {
            Arg::Number => "mote_u64",
            Arg::Size | Arg::SizeOrZero => "mote_u32",
            Arg::Writable | Arg::Map | Arg::MapOf(_) | Arg::Record | Arg::Context => "void *",
            _ => "const void *",
        })
        .collect();
    let args = if args.is_empty() { "void".to_owned() } else { args.join(", ") };
    format!("static {returns} (*const mote_{})({args}) = (void *){};", helper.name, helper.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_words() {
        let of = |name: &str, ty: &str| member(&Field { name: name.to_owned(), ty: ty.to_owned() });
        assert_eq!(of("len", "u32"), "    mote_u64 len; /* u32 */\n");
        assert_eq!(of("proto", "str"), "    const char *proto;\n    const char *proto_end;\n");
        assert_eq!(of("mac", "u8[6]"), "    const mote_u8 *mac; /* [6] */\n");
        assert_eq!(of("ports", "u16[]"), "    const mote_u16 *ports;\n    const mote_u16 *ports_end;\n");
        assert_eq!(of("state", "enum i8 ON=1"), "    mote_i64 state; /* ON=1 */\n");
        assert_eq!(of("int", "f32"), "    mote_u64 _int; /* bits of a double */\n");
    }
}
