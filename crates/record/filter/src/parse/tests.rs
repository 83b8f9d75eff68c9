//! Expressions as they are understood, and what is said of those that are not.

use super::*;

/// The tree with all its brackets.
fn show(expr: &Expr) -> String {
    let list = |items: &[Expr], sign: &str| {
        format!("({})", items.iter().map(show).collect::<Vec<_>>().join(&format!(" {sign} ")))
    };
    match &expr.kind {
        ExprKind::Integer(value) => value.to_string(),
        ExprKind::Float(value) => format!("{value:?}"),
        ExprKind::String(text) => text.to_string(),
        ExprKind::Name(name) => name.clone(),
        ExprKind::Context(name) => format!("${name}"),
        ExprKind::ElapsedBy(key) => format!("elapsed/{}", key.name),
        ExprKind::Index(array, index) => format!("{}[{}]", show(array), show(index)),
        ExprKind::Call(name, arguments) => format!("{name}/{}", arguments.len()),
        ExprKind::Unary(op, inner) => format!("{op:?}({})", show(inner)),
        ExprKind::Binary(op, left, right) => format!("({} {} {})", show(left), op.sign(), show(right)),
        ExprKind::And(items) => list(items, "&&"),
        ExprKind::Or(items) => list(items, "||"),
        ExprKind::In(left, members) => format!("({} in {})", show(left), members.len()),
    }
}

#[test]
fn precedence_is_lttngs() {
    for (text, tree) in [
        ("2 & 2 == 2", "((2 & 2) == 2)"),
        ("a || b && c == d", "(a || (b && (c == d)))"),
        (
            "eax_reg & 0xff7 == 0x240 && x[4] >> 12 <= 0x1234",
            "(((eax_reg & 4087) == 576) && ((x[4] >> 12) <= 4660))",
        ),
        (
            "$ctx.procname == \"lttng*\" && (!flag || poel < 34)",
            "(($ctx.procname == \"lttng*\") && (Not(flag) || (poel < 34)))",
        ),
        (
            "$app.my_provider:my_context == 17.34e9 || some_enum >= 14",
            "(($app.my_provider:my_context == 17340000000.0) || (some_enum >= 14))",
        ),
        ("$ctx.cpu_id == 2 && filename != \"*.log\"", "(($ctx.cpu_id == 2) && (filename != \"*.log\"))"),
        ("a - b - c * d", "((a - b) - (c * d))"),
        ("a < b == c", "((a < b) == c)"),
        ("1 | 2 ^ 3 & 4 << 5 + 6", "(1 | (2 ^ (3 & (4 << (5 + 6)))))"),
        ("-a.b[i + 1] + ~c", "(Minus(a.b[(i + 1)]) + BitNot(c))"),
        ("!a == b", "(Not(a) == b)"),
        ("a && b && c || d || e", "((a && b && c) || d || e)"),
        ("port in (80, 8000..8080) && x", "((port in 2) && x)"),
        ("every(10) && sample(1%) && limit(100/s)", "(every/1 && sample/1 && limit/1)"),
        ("$elapsed by id > 5ms", "(elapsed/id > 5000000)"),
        (
            "$elapsed by a[ i + 1 ] > 1 && $ctx.elapsed by ( id | 1 ) < 2",
            "((elapsed/a[i+1] > 1) && (elapsed/id|1 < 2))",
        ),
        ("$elapsed by $elapsed by $span == $elapsed", "(elapsed/$elapsedby$span == $elapsed)"),
        ("`odd-name` == 'x'", "(odd-name == \"x\")"),
        ("a /* why */ == 1 // because", "(a == 1)"),
    ] {
        assert_eq!(expression(text).map(|expr| show(&expr)).as_deref(), Ok(tree), "{text}");
    }
}

#[test]
fn numbers_have_units() {
    for (text, value) in [
        ("250us", 250_000),
        ("1.5ms", 1_500_000),
        ("4k", 4096),
        ("1GiB", 1 << 30),
        ("0x1F", 31),
        ("010", 8),
        ("0b101", 5),
        ("12UL", 12),
        ("18446744073709551615", u64::MAX),
        ("0", 0),
    ] {
        assert_eq!(expression(text).map(|expr| expr.kind), Ok(ExprKind::Integer(value)), "{text}");
    }
    assert_eq!(expression(".5e1").map(|expr| expr.kind), Ok(ExprKind::Float(5.0)));
}

#[test]
fn texts_have_escapes() {
    for (text, shown) in [
        (r#""a\*b*c""#, r#""a\*b*c""#),
        (r#""\x41\102\u0043""#, r#""ABC""#),
        (r#""\"\\""#, r#""\"\\""#),
        (r#""é""#, r#""é""#),
        (r#""\xff""#, r#""\xff""#),
    ] {
        assert_eq!(expression(text).map(|expr| show(&expr)).as_deref(), Ok(shown), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (text, message) in [
        ("", "expected a field, a number or a string, found the end"),
        ("a ==", "expected a field, a number or a string, found the end"),
        ("(a == 1", "no `)` for this `(`"),
        ("a == 1)", "no `(` before this `)`"),
        ("a = 1", "`=` is not a comparison"),
        ("a == \"x", "the string has no end"),
        ("a == \"\\q\"", "unknown escape `\\q`"),
        ("a == \"\\0\"", "a string has no NUL in it"),
        ("a > 5x", "unknown unit `x`"),
        ("a > 089", "`8` is not an octal digit"),
        ("a > 99999999999999999999", "the number does not fit 64 bits"),
        ("a > 0x", "`0x` is not a number"),
        ("a b", "expected an operator, or the end, found `b`"),
        ("$", "`$` without a name"),
        ("a # b", "`#` has no meaning here"),
        ("a in 5", "expected `(` after `in`, found a number"),
        ("x[1].y == 2", "elements of arrays have no members"),
        ("/* a", "comment without an end"),
    ] {
        assert_eq!(expression(text).unwrap_err().message(), message, "{text}");
    }
}

#[test]
fn depth_is_bounded_and_length_is_not() {
    let deep = |open: &str, close: &str, n: usize| format!("{}a{}", open.repeat(n), close.repeat(n));
    for (open, close) in [("(", ")"), ("!", ""), ("a[", "]"), ("f(", ")"), ("a && (", ")"), ("a + (", ")")] {
        assert!(expression(&deep(open, close, 20)).is_ok());
        let problem = expression(&deep(open, close, 100_000)).unwrap_err();
        assert!(problem.message().contains("deeper than 64 levels"), "{open}: {problem}");
    }
    assert!(expression(&vec!["a"; 200].join(" + ")).unwrap_err().message().contains("on top of one another"));
    assert!(expression(&vec![deep("!", "", 20); 60].join(" + ")).is_err());
    assert!(expression(&format!("a{}", "[0]".repeat(200))).is_err());
    let long = vec!["len == 1"; 10_000].join(" && ");
    assert!(long.len() > 100_000 && expression(&long).is_ok());
    assert!(expression(&format!("a in ({})", vec!["1"; 50_000].join(", "))).is_ok());
}
