//! Patterns of probes: the words between the colons.

use crate::error::Wrong;
use mote_functions::arguments::ArgumentType;
use mote_layout::types::Scalar;

/// What kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Uprobe,
    Uretprobe,
    Usdt,
    Kprobe,
    Kretprobe,
    Fentry,
    Fexit,
}

impl Kind {
    pub(crate) fn of(word: &str) -> Option<Kind> {
        Some(match word {
            "uprobe" => Kind::Uprobe,
            "uretprobe" => Kind::Uretprobe,
            "usdt" => Kind::Usdt,
            "kprobe" => Kind::Kprobe,
            "kretprobe" => Kind::Kretprobe,
            "fentry" | "kfunc" => Kind::Fentry,
            "fexit" | "kretfunc" => Kind::Fexit,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Uprobe => "uprobe",
            Kind::Uretprobe => "uretprobe",
            Kind::Usdt => "usdt",
            Kind::Kprobe => "kprobe",
            Kind::Kretprobe => "kretprobe",
            Kind::Fentry => "fentry",
            Kind::Fexit => "fexit",
        }
    }

    /// Whether it is about functions of the kernel.
    pub(crate) fn is_of_kernel(self) -> bool {
        !matches!(self, Kind::Uprobe | Kind::Uretprobe | Kind::Usdt)
    }

    /// Whether the kernel jumps to programs there (fentry, fexit), without a trap.
    pub(crate) fn is_jump(self) -> bool {
        matches!(self, Kind::Fentry | Kind::Fexit)
    }

    /// Whether it is at returns.
    pub(crate) fn returns(self) -> bool {
        matches!(self, Kind::Uretprobe | Kind::Kretprobe | Kind::Fexit)
    }
}

/// A pattern, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    /// As the person wrote it; empty for the kernel.
    pub(crate) binary: String,
    /// Of static probes; `None`: any.
    pub(crate) provider: Option<String>,
    /// Function or static probe; may be a pattern.
    pub(crate) name: String,
    /// Behind the function.
    pub(crate) offset: u64,
    /// Names and types that the person gave.
    pub(crate) arguments: Option<Vec<(String, ArgumentType)>>,
}

impl Spec {
    pub(crate) fn parse(pattern: &str) -> Result<Spec, Wrong> {
        let syntax = |what: &str| Wrong::Syntax(what.to_owned());
        let (kind, rest) = pattern.split_once(':').ok_or_else(|| syntax("there is no colon"))?;
        let kind = Kind::of(kind).ok_or_else(|| syntax("it begins with no kind of probe"))?;
        let plain = |name: &str| Spec {
            kind,
            binary: String::new(),
            provider: None,
            name: name.to_owned(),
            offset: 0,
            arguments: None,
        };
        let mut spec = match kind {
            Kind::Usdt => {
                // The colons of its arguments are none of the pattern's.
                let (rest, list) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
                    Some((rest, list)) => (rest, Some(list)),
                    None => (rest, None),
                };
                let mut spec = static_probe(rest, plain(""))
                    .ok_or_else(|| syntax("a static probe is `usdt:BIN:PROVIDER:NAME`"))?;
                spec.arguments = list.map(arguments).transpose()?;
                spec
            }
            Kind::Uprobe | Kind::Uretprobe => {
                let (binary, name) =
                    rest.split_once(':').ok_or_else(|| syntax("a function is `uprobe:BIN:FUNCTION`"))?;
                Spec { binary: binary.to_owned(), ..plain(name) }
            }
            _ => plain(rest),
        };
        if kind != Kind::Usdt {
            spec.take_arguments()?;
            spec.take_offset()?;
        }
        if spec.name.is_empty()
            || (spec.binary.is_empty() && matches!(kind, Kind::Uprobe | Kind::Uretprobe | Kind::Usdt))
        {
            return Err(syntax("a name between its colons is empty"));
        }
        if spec.offset > 0 && kind.returns() {
            return Err(syntax("a function returns as a whole: no `+OFFSET`"));
        }
        if spec.offset > 0 && kind.is_jump() {
            return Err(syntax("it is at the entry of a function; `kprobe:` takes `+OFFSET`"));
        }
        Ok(spec)
    }

    /// Cuts `(id: i32, path: str)` off, unless the parentheses belong to a C++ name (`f(int)`).
    fn take_arguments(&mut self) -> Result<(), Wrong> {
        let Some((name, list)) = self.name.strip_suffix(')').and_then(|name| name.split_once('(')) else {
            return Ok(());
        };
        if !list.contains(':') || list.contains("::") {
            return Ok(());
        }
        self.arguments = Some(arguments(list)?);
        self.name = name.to_owned();
        Ok(())
    }

    fn take_offset(&mut self) -> Result<(), Wrong> {
        let Some((name, offset)) = self.name.rsplit_once('+') else { return Ok(()) };
        // `operator+` is a name.
        let Some(offset) = number(offset) else { return Ok(()) };
        self.offset = offset;
        self.name = name.to_owned();
        Ok(())
    }

    pub(crate) fn is_glob(&self) -> bool {
        self.name.contains(['*', '?'])
    }
}

fn static_probe(rest: &str, plain: Spec) -> Option<Spec> {
    let (binary, rest) = rest.split_once(':')?;
    let (provider, name) = match rest.split_once(':') {
        Some((provider, name)) => (Some(provider.to_owned()), name),
        None => (None, rest),
    };
    Some(Spec { binary: binary.to_owned(), provider, name: name.to_owned(), ..plain })
}

/// `id: i32, path: str`
fn arguments(list: &str) -> Result<Vec<(String, ArgumentType)>, Wrong> {
    let arguments = mote_functions::arguments::arguments(list).map_err(Wrong::Syntax)?;
    let is_float = |ty: &ArgumentType| matches!(ty, ArgumentType::Scalar(Scalar::F32 | Scalar::F64));
    match arguments.iter().find(|(_, ty)| is_float(ty)) {
        Some((name, _)) => Err(Wrong::Syntax(format!(
            "`{name}` is a floating point number, in a register that the kernel does not show; `mote functions` does"
        ))),
        None => Ok(arguments),
    }
}

/// A number in base 10, or in base 16 with `0x`.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_taken_apart() {
        let spec = Spec::parse("uprobe:/bin/bash:readline").expect("right");
        assert_eq!(
            (spec.kind, spec.binary.as_str(), spec.name.as_str(), spec.offset),
            (Kind::Uprobe, "/bin/bash", "readline", 0)
        );
        let spec = Spec::parse("uprobe:app:work+0x10").expect("right");
        assert_eq!((spec.name.as_str(), spec.offset), ("work", 16));
        let spec = Spec::parse("uprobe:app:shop::checkout(int, char*)").expect("right");
        assert_eq!((spec.name.as_str(), spec.arguments), ("shop::checkout(int, char*)", None));
        let spec = Spec::parse("uprobe:app:operator+").expect("right");
        assert_eq!(spec.name, "operator+");
        let spec = Spec::parse("uprobe:app:open(path: str, flags:x32)").expect("right");
        assert_eq!(spec.name, "open");
        let arguments = spec.arguments.expect("given");
        assert_eq!(
            arguments,
            [
                ("path".to_owned(), ArgumentType::Text),
                ("flags".to_owned(), ArgumentType::Scalar(Scalar::hex(32)))
            ]
        );
        let spec = Spec::parse("usdt:/lib/libpython.so:python:function__entry(file: str, line: i32)")
            .expect("right");
        assert_eq!((spec.binary.as_str(), spec.provider.as_deref()), ("/lib/libpython.so", Some("python")));
        let arguments = spec.arguments.expect("given");
        assert_eq!(spec.name, "function__entry");
        assert_eq!(
            arguments,
            [
                ("file".to_owned(), ArgumentType::Text),
                ("line".to_owned(), ArgumentType::Scalar(Scalar::signed(32)))
            ]
        );
        let spec = Spec::parse("usdt:postgres:query__start(sql: str)").expect("right");
        assert_eq!(
            (spec.provider, spec.arguments),
            (None, Some(vec![("sql".to_owned(), ArgumentType::Text)]))
        );
        let spec = Spec::parse("usdt:libc:setjmp").expect("right");
        assert_eq!((spec.provider, spec.name.as_str()), (None, "setjmp"));
        let spec = Spec::parse("usdt:libc:libc:set*").expect("right");
        assert_eq!((spec.provider.as_deref(), spec.is_glob()), (Some("libc"), true));
    }

    #[test]
    fn wrong_patterns_say_what_is_wrong() {
        for (pattern, says) in [
            ("uprobe:", "uprobe:BIN:FUNCTION"),
            ("uprobe:app", "uprobe:BIN:FUNCTION"),
            ("uprobe:app:", "empty"),
            ("uprobe::f", "empty"),
            ("usdt:app", "usdt:BIN:PROVIDER:NAME"),
            ("usdt:app:tick(a: text)", "is not a type of an argument"),
            ("usdt:app:tick(a)", "NAME: TYPE"),
            ("uretprobe:app:f+4", "as a whole"),
            ("fexit:f+4", "as a whole"),
            ("fentry:f+4", "`kprobe:` takes"),
            ("fentry:", "empty"),
            ("uprobe:app:f(a: f64)", "does not show"),
            ("uprobe:app:f(a b: i8)", "NAME: TYPE"),
        ] {
            let wrong = Spec::parse(pattern).expect_err(pattern).to_string();
            assert!(wrong.contains(says), "{pattern}: {wrong}");
        }
    }
}
