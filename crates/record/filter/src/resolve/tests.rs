//! Types: what is accepted, and what is said of the rest.

use crate::interpret::{Facts, Interpreter, Word};
use crate::{Decision, Kind, Maps, Missing, Rule, Session, Side, compile};
use mote_layout::parse::parse;

const FIELDS: &str = "len u32\nproto str\nstate enum u8 IDLE=0 BUSY=1..3\nmac u8[6]\npath u16[]\nload f64\nloads f32[2]\nup bool\n";

/// Fields of the events that LTTng's manual speaks of.
const LTTNG: &str = "msg_id i32\nsize u32\nflag bool\npoel i32\nsome_enum enum u8 A=0 B=1..20\nfilename str\neax_reg x32\nx u32[]\nmy_field str\nmy_other_field str\nmsg.user u32\ntarget_cpu u32\nseq u8[]\n";

fn compiled(fields: &str, rule: Result<Rule, crate::Diagnostic>) -> Result<(), crate::Diagnostic> {
    let string = format!("mote1\nnet:in\n6 f:1\n\n{fields}");
    let event = parse(string.as_bytes()).unwrap();
    let mut session = Session { side: Side::User, missing: Missing::Refuse, declare: &mut |_| Ok(1) };
    compile(&[rule?], &event, &mut session, &mut Maps::new()).map(drop)
}

#[test]
fn what_lttngs_manual_shows_is_accepted() {
    for expr in [
        "msg_id == 23 && size >= 2048",
        "$ctx.procname == \"lttng*\" && (!flag || poel < 34)",
        "some_enum >= 14",
        "$ctx.cpu_id == 2 && filename != \"*.log\"",
        "eax_reg & 0xff7 == 0x240 && x[4] >> 12 <= 0x1234",
        "my_field == \"user34\"",
        "my_field == my_other_field",
        "my_field == \"192.168.*\"",
        "msg.user == 1 && target_cpu == 0 && seq[7] == 1",
        "$ctx.vpid == 4242 && $ctx.vtid != 1 && size == 0x10UL && msg_id == 017",
        "2 & 2 == 2",
        "my_field == \"a\\*b\" && -poel > +3 && ~size != 0",
    ] {
        assert_eq!(compiled(LTTNG, Rule::filter("*", expr)), Ok(()), "{expr}");
    }
    // What is not there makes LTTng's whole expression false.
    let rule = Rule::filter("*", "$app.my_provider:my_context == 17.34e9 || some_enum >= 14").unwrap();
    let string = format!("mote1\nnet:in\n6 f:1\n\n{LTTNG}");
    let mut session = Session { side: Side::User, missing: Missing::Never, declare: &mut |_| Ok(1) };
    match compile(&[rule], &parse(string.as_bytes()).unwrap(), &mut session, &mut Maps::new()) {
        Ok(Decision::Run(compiled)) => assert!(!compiled.records && compiled.warnings.len() == 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn types_are_checked() {
    for (expr, message) in [
        ("lne > 3", "event net:in has no field `lne`"),
        ("proto > 3", "a number cannot be compared with a string"),
        ("len == \"x\"", "an integer cannot be compared with a string"),
        ("mac == \"x\"", "an array cannot be compared with a string"),
        ("proto", "this is not a condition"),
        ("proto + 1 == 2", "expected a number"),
        ("load + 1.0 > 2", "floats have no arithmetic"),
        ("load > len", "an integer field cannot be compared with a float field"),
        ("loads[0] > load", "a 32-bit float cannot be compared with a 64-bit float"),
        ("state == BUZY", "the enumeration has no label \"BUZY\""),
        ("state == \"X*\"", "the enumeration has no label \"X*\""),
        ("len == BUSY", "event net:in has no field `BUSY`"),
        ("mac[6] == 1", "the array has 6 elements"),
        ("mac[-1] == 1", "an index cannot be negative"),
        ("len[0] == 1", "only arrays, sequences and strings have elements"),
        ("len << 64 == 0", "a shift by 64 is too far for 64 bits"),
        ("len / 0 == 0", "division by zero"),
        ("$tdi == 3", "there is no context `$tdi`"),
        ("frist(3)", "there is no function `frist`"),
        ("first(x)", "`first` does not take these arguments"),
        ("sample(120%)", "a part must be from 0% to 100%"),
        ("contains(len, \"x\")", "`contains` takes a string"),
        ("proto in (1, 2)", "expected a string in quotes"),
        ("len in (proto)", "expected a number"),
        ("len in (5..2)", "this range is empty"),
        ("proto < \"a*\"", "a pattern cannot be compared by < or >"),
        ("\"a*\" > \"abc\"", "a pattern cannot be compared by < or >"),
        ("\"a*\" == \"*c\"", "two patterns cannot be compared"),
        ("len > -9223372036854775809", "-9223372036854775809 does not fit 64 bits"),
        ("len > -18446744073709551615", "-18446744073709551615 does not fit 64 bits"),
        ("$last.proto == \"x\"", "only a hash of the last string is kept"),
        ("$last.path == 1", "the last value of `path` is not kept"),
        ("changed(len + 1)", "`changed` takes the name of a field"),
        ("$comm == proto", "a context can be compared with a constant only"),
        ("$exe == \"a*b*c\"", "a pattern for a context has too many `*`"),
    ] {
        let problem = compiled(FIELDS, Rule::filter("*", expr)).unwrap_err();
        assert_eq!(problem.message(), message, "{expr}");
        assert!(problem.render().contains("net:in:1:"), "{}", problem.render());
    }
    for (rule, message) in [
        ("* do count by mac", "this cannot be a key"),
        ("* do hist load", "a histogram takes integers"),
        ("* do hist proto", "a histogram takes numbers"),
        ("* do count by prefix(len, 3)", "`prefix` takes a string and a number"),
        ("* do emit e(a = proto, b = proto)", "an emitted event can have one string only"),
        ("* do count by prefix(proto, 200), proto, proto", "the keys take 264 bytes; the most is 256"),
        ("* do speculate by load", "this cannot be the key of a speculation"),
        ("* do speculate by mac", "this cannot be the key of a speculation"),
        ("* do speculate by $comm", "this cannot be the key of a speculation"),
        ("* do speculate by 3", "this cannot be the key of a speculation"),
        ("* do commit by lne", "event net:in has no field `lne`"),
        ("* if $elapsed by $exe > 3 do record", "this cannot be the key of a speculation"),
        ("* do speculate by $span", "event net:in has no `$span`"),
        ("* if $span == 3 do record", "event net:in has no `$span`"),
    ] {
        assert_eq!(compiled(FIELDS, Rule::parse(rule)).unwrap_err().message(), message, "{rule}");
    }
}

#[test]
fn constants_are_compared() {
    let decided = |expr: &str| {
        let event = parse(b"mote1\nnet:in\n6 f:1\n\nlen u32\n").unwrap();
        let mut session = Session { side: Side::User, missing: Missing::Refuse, declare: &mut |_| Ok(1) };
        let rule = Rule::filter("*", expr).unwrap();
        match compile(&[rule], &event, &mut session, &mut Maps::new()) {
            Ok(Decision::Record) => true,
            Ok(Decision::Run(compiled)) => compiled.records && panic!("{expr} is not decided"),
            Ok(Decision::Off) => false,
            Err(problem) => panic!("{}", problem.render()),
        }
    };
    for (expr, holds) in [
        ("\"salut*\" == \"salut vous\"", true),
        ("\"salut vous\" == \"salut*\"", true),
        ("\"salut*\" != \"salut vous\"", false),
        ("\"salut*\" == \"bonjour\"", false),
        ("\"abc\" < \"abd\" && \"b\" >= \"b\"", true),
        ("-9223372036854775808 < 0", true),
        // A shift of a positive number is one; LTTng's is negative.
        ("(1 << 63) > 0", true),
        ("(1 << 63) < 0", false),
    ] {
        assert_eq!(decided(expr), holds, "{expr}");
    }
}

#[test]
fn problems_point_at_what_is_wrong() {
    let problem = compiled(FIELDS, Rule::filter("*", "len > 3 && stat == BUSY")).unwrap_err();
    let expected = "\
error: event net:in has no field `stat`
 --> net:in:1:12
  |
1 | len > 3 && stat == BUSY
  |            ^^^^
  |
  = help: did you mean `state`?";
    assert_eq!((problem.render().as_str(), problem.kind()), (expected, Kind::UnknownField));
}

#[test]
fn long_rules_compile_or_are_refused() {
    let long = vec!["len == 1 && proto == \"abc\""; 4000].join(" || ");
    assert!(long.len() > 100_000);
    assert_eq!(compiled(FIELDS, Rule::filter("*", &long)), Ok(()));
    let longer = (0..30_000).map(|at| format!("path[{}] == {at}", at % 600)).collect::<Vec<_>>().join(" || ");
    assert_eq!(compiled(FIELDS, Rule::filter("*", &longer)).unwrap_err().kind(), Kind::TooLarge);
    let flags = (0..200).map(|at| format!("set f{at}")).collect::<Vec<_>>().join(", ");
    assert_eq!(compiled(FIELDS, Rule::parse(&format!("* do {flags}"))), Ok(()));
    let patterns = (0..3000).map(|at| format!("\"string{at}\"")).collect::<Vec<_>>().join(", ");
    assert_eq!(compiled(FIELDS, Rule::filter("*", &format!("proto in ({patterns})"))), Ok(()));
}

#[test]
fn labels_of_bits_stand_beside_bit_operators() {
    const KERNEL: &str = "flags flags u32 O_WRONLY=1 O_CREAT=64\nret labelled i64 ENOENT=-2\ncomm char[16]\nstate enum u8 IDLE=0 BUSY=1..3\n";
    for good in [
        "flags & O_CREAT",
        "O_CREAT & flags",
        "(flags & 3) == O_WRONLY",
        "flags & (O_CREAT | flags)",
        "flags == O_CREAT",
        "ret == ENOENT && comm == \"sh\"",
        "ret in (ENOENT, -13)",
    ] {
        assert_eq!(compiled(KERNEL, Rule::filter("*", good)), Ok(()), "{good}");
    }
    for (bad, message) in [
        ("flags & O_CREATE", "the enumeration has no label \"O_CREATE\""),
        ("state & BUSY", "the label BUSY stands for several values"),
        ("ret + ENOENT > 1", "event net:in has no field `ENOENT`"),
    ] {
        assert_eq!(compiled(KERNEL, Rule::filter("*", bad)).unwrap_err().message(), message, "{bad}");
    }
}

#[test]
fn the_duration_of_a_call_that_began_before_the_recording_is_absent() {
    let records = |name: &str, condition: &str, ns: u64| {
        let string = format!("mote1\nsyscalls:{name}\n6 f:1\n\nret i64\nduration_ns u64\n");
        let event = parse(string.as_bytes()).unwrap();
        let rule = Rule::filter("*", condition).unwrap();
        let mut interpreter = Interpreter::new(&[rule], &event, Missing::Refuse, Side::Kernel)
            .unwrap()
            .expect("it is about it");
        interpreter.records(&[Word::Number(0), Word::Number(ns)], &Facts::default())
    };
    for condition in
        ["duration_ns < 1ms", "duration_ns >= 0", "!(duration_ns > 1ms)", "duration_ns + ret < 9"]
    {
        assert!(records("syscall_exit_read", condition, 5), "{condition}");
        assert!(!records("syscall_exit_read", condition, 0), "{condition}");
        assert!(records("other_read", condition, 0), "a field of that name elsewhere is one like others");
    }
}

#[test]
fn the_level_is_known_when_a_rule_is_compiled() {
    let decided = |expr: &str| {
        let event = parse(b"mote1\nnet:in\n4 f:1\n\nlen u32\n").unwrap();
        let mut session = Session { side: Side::User, missing: Missing::Refuse, declare: &mut |_| Ok(1) };
        compile(&[Rule::filter("*", expr).unwrap()], &event, &mut session, &mut Maps::new())
            .map(|decision| match decision {
                Decision::Run(_) => "run",
                Decision::Record => "always",
                Decision::Off => "never",
            })
            .map_err(|problem| problem.message().to_owned())
    };
    for holds in
        ["$level == warning", "$level <= warn", "$level < info", "$level in (err, warning)", "$level == 4"]
    {
        assert_eq!(decided(holds), Ok("always"), "{holds}");
    }
    assert_eq!(decided("$level <= error"), Ok("never"));
    assert_eq!(decided("$level >= info || len > 3"), Ok("run"));
    assert_eq!(decided("$level == loud"), Err("the enumeration has no label \"loud\"".to_owned()));
}
