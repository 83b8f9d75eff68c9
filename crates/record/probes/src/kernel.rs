//! Probes of the kernel's functions: which ones a pattern means, and what their arguments are.
//!
//! The kernel's types tell the functions and their parameters (`mote_catalog::btf`). Kprobes stop at any function that
//! the kernel lets be probed, typed or not; fentry and fexit are for the typed ones of the kernel itself (not of
//! modules, whose types are elsewhere) that the compiler has left room in.

use crate::error::{Wrong, similar};
use crate::function::{Builder, Passed, anywhere, apart, given_type, ip, type_of, word, words};
use crate::pattern::{Kind, Spec};
use crate::selection::{KERNEL_MATCHES_MAX, Selection, event_name};
use mote_catalog::btf::{Btf, Prototype};
use mote_catalog::event::{Event, Field, Hook, Origin, Type};
use mote_catalog::tracefs::Tracefs;
use mote_pattern::Glob;
use mote_symbol::functions::{Kind as Value, Structure};
use mote_sys::Errno;
use std::collections::HashSet;
use std::path::Path;

/// The kernel's types, and whether programs can be attached to its functions.
#[derive(Clone, Copy, Debug)]
pub struct KernelTypes<'t> {
    /// Its functions and their parameters.
    pub btf: &'t Btf,
    /// Tries to attach a program to a function (`mote_kernel::attach::try_function`): this crate loads none.
    pub try_function: fn(&Btf) -> Result<(), Errno>,
}

/// Most words of arguments that the kernel passes to programs (`MAX_BPF_FUNC_ARGS`).
const WORDS_MAX: usize = 12;
/// Largest structure that it passes by value.
const STRUCTURE_MAX: u64 = 16;

/// What the kernel itself calls before it sees that a program is running already, or after: a program there calls
/// itself until the kernel's stack is full. Newer kernels refuse these (`btf_id_deny` of `kernel/bpf/verifier.c`); in
/// 6.1 the list is shorter, and such a program is its end.
const AROUND_PROGRAMS: [&str; 9] = [
    "__rcu_read_lock",
    "__rcu_read_unlock",
    "rcu_read_unlock_strict",
    "migrate_disable",
    "migrate_enable",
    "__migrate_enable",
    "___migrate_enable",
    "preempt_count_add",
    "preempt_count_sub",
];

/// What is known of the kernel.
pub(crate) struct Kernel<'t> {
    types: Option<KernelTypes<'t>>,
    /// Functions in which there is room for a jump, read when they are asked for first.
    roomy: Option<Option<HashSet<String>>>,
}

impl<'t> Kernel<'t> {
    pub(crate) fn new(types: Option<KernelTypes<'t>>) -> Kernel<'t> {
        Kernel { types, roomy: None }
    }

    fn types(&self) -> Result<&'t Btf, Wrong> {
        self.types.map(|types| types.btf).ok_or(Wrong::NoTypes)
    }

    /// The names of functions in which there is room for a jump; `None` where the kernel does not say.
    fn roomy(&mut self) -> Option<&HashSet<String>> {
        let read = || Tracefs::open().ok()?.functions().ok();
        self.roomy.get_or_insert_with(read).as_ref()
    }

    /// Says so where the kernel has no probes of this kind.
    fn check(&self, kind: Kind) -> Result<(), Wrong> {
        if !kind.is_jump() {
            let is_there = Path::new("/sys/bus/event_source/devices/kprobe/type").exists();
            return if is_there { Ok(()) } else { Err(Wrong::NoKprobes) };
        }
        let types = self.types.ok_or(Wrong::NoTypes)?;
        (types.try_function)(types.btf).map_err(Wrong::NoFentry)
    }

    /// The names of the functions that a pattern means, in order.
    fn fitting(&mut self, spec: &Spec) -> Result<Vec<String>, Wrong> {
        if !spec.is_glob() {
            return Ok(vec![spec.name.clone()]);
        }
        let glob = Glob::new(&spec.name);
        let mut names: Vec<String> = match self.types() {
            Ok(types) => types.functions().map(|(name, _)| name.to_owned()).collect(),
            Err(why) if spec.kind.is_jump() => return Err(why),
            Err(_) => Vec::new(),
        };
        match self.roomy() {
            Some(roomy) if spec.kind.is_jump() => names.retain(|name| roomy.contains(name)),
            Some(roomy) => names = roomy.iter().cloned().collect(),
            None => {}
        }
        names.retain(|name| glob.matches(name));
        names.sort_unstable();
        names.dedup();
        match names.len() {
            0 => Err(Wrong::NoKernelFunction { name: spec.name.clone(), similar: String::new() }),
            count if count > KERNEL_MATCHES_MAX => Err(Wrong::TooManyOfKernel { count }),
            _ => Ok(names),
        }
    }
}

/// Adds the events of the functions that `spec` means.
pub(crate) fn add(spec: &Spec, kernel: &mut Kernel<'_>, selection: &mut Selection) -> Result<(), Wrong> {
    kernel.check(spec.kind)?;
    for name in kernel.fitting(spec)? {
        match event(spec, &name, kernel.types(), &mut selection.notes) {
            Ok(event) => selection.events.push(event),
            Err(why) if spec.is_glob() => selection.notes.push(why.to_string()),
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// The event of one function.
fn event(
    spec: &Spec,
    name: &str,
    types: Result<&Btf, Wrong>,
    notes: &mut Vec<String>,
) -> Result<Event, Wrong> {
    let (returns, provider) = (spec.kind.returns(), spec.kind.name());
    let builder = |notes, passed| Builder { spec, notes, name, passed };
    let (fields, hook) = if spec.kind.is_jump() {
        let types = types?;
        if AROUND_PROGRAMS.contains(&name) {
            let why =
                "the kernel calls it around each program, and a program there would be called without end";
            return Err(Wrong::Unfit { name: name.to_owned(), why });
        }
        let btf_id = types.function(name).ok_or_else(|| none(name, types))?;
        let prototype = types.prototype(btf_id).ok_or_else(|| none(name, types))?;
        unfit(&prototype).map_err(|why| Wrong::Unfit { name: name.to_owned(), why })?;
        let fields = of_words(&mut builder(notes, Passed::Words), &prototype)?;
        (fields, Hook::Fentry { function: name.to_owned(), btf_id, returns })
    } else {
        let prototype = types.ok().and_then(|types| types.prototype(types.function(name)?));
        let signature = prototype.map(|prototype| prototype.signature);
        let mut builder = builder(notes, Passed::KernelRegisters);
        let fields = match returns {
            true => [vec![ip()], builder.result(signature.as_ref())].concat(),
            false => builder.entry(signature.as_ref()),
        };
        (fields, Hook::Kprobe { function: name.to_owned(), offset: spec.offset, returns })
    };
    Ok(Event { provider: provider.to_owned(), name: event_name(&[provider, name]), fields, hook })
}

fn none(name: &str, types: &Btf) -> Wrong {
    Wrong::NoKernelFunction {
        name: name.to_owned(),
        similar: similar(name, types.functions().map(|(name, _)| name)),
    }
}

/// What keeps the kernel from passing a function's arguments to programs (`btf_distill_func_proto`).
fn unfit(prototype: &Prototype) -> Result<(), &'static str> {
    let kinds = || prototype.signature.parameters.iter().map(|parameter| &parameter.kind);
    let is_unpassed = |kind: &Value| match kind {
        Value::Float { .. } | Value::Unknown => true,
        Value::Aggregate(Structure { bytes, .. }) => *bytes > STRUCTURE_MAX || *bytes == 0,
        _ => false,
    };
    if prototype.is_variadic {
        return Err("it takes a varying number of arguments");
    }
    if matches!(prototype.signature.result, Some(Value::Aggregate(_) | Value::Float { .. } | Value::Unknown))
    {
        return Err("it returns a structure");
    }
    if kinds().any(is_unpassed) {
        return Err(
            "an argument is a structure of more than 16 bytes, or of another type that programs are not given",
        );
    }
    if words_of(prototype) > WORDS_MAX {
        return Err("it has more than 12 words of arguments");
    }
    Ok(())
}

/// Words of all arguments: where the result is.
fn words_of(prototype: &Prototype) -> usize {
    let words_of = |kind: &Value| match kind {
        Value::Integer { bytes, .. } => words(u64::from(*bytes)),
        Value::Aggregate(structure) => words(structure.bytes),
        _ => 1,
    };
    prototype.signature.parameters.iter().map(|parameter| words_of(&parameter.kind)).sum()
}

/// The fields of a function whose context is words: its arguments, at a return its result behind them.
fn of_words(builder: &mut Builder<'_>, prototype: &Prototype) -> Result<Vec<Field>, Wrong> {
    let mut fields = builder.typed(&prototype.signature);
    for (name, ty) in builder.spec.arguments.iter().flatten() {
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let Some(at) = names.iter().position(|other| other == name) else {
            let (function, has) = (builder.name.to_owned(), names.join(", "));
            let has = if has.is_empty() { "none".to_owned() } else { has };
            return Err(Wrong::NoArgument { function, name: name.clone(), has });
        };
        if let Some(field) = fields.get_mut(at) {
            *field = retyped(field, given_type(*ty));
        }
    }
    if let (true, Some(result)) = (builder.spec.kind.returns(), &prototype.signature.result) {
        let ty = type_of(result);
        let from = anywhere(word(words_of(prototype), &ty), &ty);
        fields.push(Field { name: "ret".to_owned(), ty, from });
    }
    apart(&mut fields);
    Ok(fields)
}

/// The field with another type, from the same place.
fn retyped(field: &Field, ty: Type) -> Field {
    let place = match &field.from {
        Origin::AnyText(place) => place,
        place => place,
    };
    // What was known as an address stays one for the verifier, whatever the person makes of it.
    let place = match place {
        Origin::Argument(at) => word(usize::from(*at), &ty),
        place => place.clone(),
    };
    let from = anywhere(place, &ty);
    Field { name: field.name.clone(), ty, from }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::types::Scalar;
    use mote_symbol::functions::{Convention, Parameter, Place, Signature};

    fn prototype(parameters: &[(&str, Value)], result: Option<Value>) -> Prototype {
        let parameters = parameters.iter().map(|(name, kind)| Parameter {
            name: (*name).to_owned(),
            kind: kind.clone(),
            place: Place::ByConvention,
        });
        let signature = Signature { parameters: parameters.collect(), result, convention: Convention::C };
        Prototype { signature, is_variadic: false }
    }

    fn fields(pattern: &str, prototype: &Prototype) -> Result<Vec<String>, String> {
        let spec = Spec::parse(pattern).expect("right");
        let mut notes = Vec::new();
        let mut builder = Builder { spec: &spec, notes: &mut notes, name: &spec.name, passed: Passed::Words };
        let fields = of_words(&mut builder, prototype).map_err(|wrong| wrong.to_string())?;
        let line = |field: &Field| {
            let ty = match &field.ty {
                Type::Scalar(scalar) => scalar.name().to_owned(),
                other => format!("{other:?}"),
            };
            format!("{} {ty} {:?}", field.name, field.from)
        };
        Ok(fields.iter().map(line).chain(notes).collect())
    }

    const INT: Value = Value::Integer { bytes: 4, signed: true };

    #[test]
    fn arguments_are_words_and_the_result_is_behind_them() {
        let open = prototype(
            &[("dfd", INT), ("path", Value::Text), ("at", Value::opaque(16)), ("how", Value::Pointer(None))],
            Some(INT),
        );
        let entry = [
            "dfd i32 Argument(0)",
            "path Text AnyText(Address(1))",
            "how x64 Address(4)",
            "argument `at` of f is not recorded: a structure by value",
        ];
        assert_eq!(fields("fentry:f", &open).expect("fits"), entry);
        assert_eq!(fields("fexit:f", &open).expect("fits")[3], "ret i32 Argument(5)");
        let changed = fields("fentry:f(path: ptr, dfd: u32)", &open).expect("both are there");
        assert_eq!(changed[..2], ["dfd u32 Argument(0)", "path x64 Address(1)"]);
        assert_eq!(
            fields("fentry:f(how: str)", &open).expect("it is there")[2],
            "how Text AnyText(Address(4))"
        );
        let wrong = fields("fentry:f(paht: ptr)", &open).expect_err("no such argument");
        assert!(wrong.contains("no argument `paht`; it has dfd, path, how"), "{wrong}");
        let named = prototype(&[("ret", INT)], Some(Value::Text));
        assert_eq!(
            fields("fexit:f", &named).expect("fits"),
            ["ret i32 Argument(0)", "ret_ Text AnyText(Address(1))"]
        );
    }

    #[test]
    fn what_the_kernel_does_not_pass_is_said() {
        assert_eq!(unfit(&prototype(&[("a", INT)], None)), Ok(()));
        let says = |prototype: Prototype| unfit(&prototype).expect_err("does not fit");
        let large = says(prototype(&[("a", Value::opaque(24))], None));
        assert!(large.contains("16 bytes"), "{large}");
        let returned = says(prototype(&[], Some(Value::opaque(8))));
        assert!(returned.contains("returns a structure"), "{returned}");
        let many: Vec<(&str, Value)> = vec![("a", Value::opaque(16)); 7];
        assert!(says(prototype(&many, None)).contains("12 words"));
        let variadic = says(Prototype { is_variadic: true, ..prototype(&[], None) });
        assert!(variadic.contains("varying"), "{variadic}");
    }

    #[test]
    fn a_kprobe_has_the_arguments_that_are_named_or_typed() {
        let names = |pattern| -> Vec<String> {
            let spec = Spec::parse(pattern).expect("right");
            let types = Err(Wrong::NoTypes);
            let event = event(&spec, &spec.name, types, &mut Vec::new()).expect("right");
            event.fields.into_iter().map(|field| field.name).collect()
        };
        assert_eq!(names("kprobe:vfs_read(file: ptr, buf: ptr, count: u64)"), ["ip", "file", "buf", "count"]);
        assert_eq!(names("kprobe:vfs_read"), ["ip", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6"]);
        assert_eq!(names("kretprobe:vfs_read"), ["ip", "ret"]);
        let Ok(types) = Btf::of_kernel() else {
            mote_skip::skip("this kernel tells no types");
            return;
        };
        let typed = |pattern| {
            let spec = Spec::parse(pattern).expect("right");
            event(&spec, &spec.name, Ok(&types), &mut Vec::new()).expect("every kernel has it").fields
        };
        let open = typed("kprobe:do_sys_openat2");
        let path = open.iter().find(|field| field.ty == Type::Text).expect("its path");
        assert!(
            matches!(&path.from, Origin::AnyText(from) if matches!(**from, Origin::Operand(_))),
            "{path:?}"
        );
        assert_eq!(typed("kretprobe:vfs_read")[1].ty, Type::Scalar(Scalar::signed(64)));
        let spec = Spec::parse("fentry:__rcu_read_lock").expect("right");
        let endless =
            event(&spec, &spec.name, Ok(&types), &mut Vec::new()).expect_err("it would call itself");
        assert!(endless.to_string().contains("without end"), "{endless}");
        let read = typed("fexit:vfs_read");
        let names: Vec<&str> = read.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["file", "buf", "count", "pos", "ret"]);
        assert_eq!(read[4].from, Origin::Argument(4));
        assert_eq!(read[1].from, Origin::Address(1), "what is read into is no text yet");
    }
}
