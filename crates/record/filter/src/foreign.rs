//! What is left of rules where the contexts of a thread are not to be had.
//!
//! A recording of some processes has switches to their threads as well, which happen in other threads. Contexts are
//! those of the thread in which an event happens: there they would be those of a thread that is not recorded.

use crate::rule::Rule;
use crate::syntax::{Action, Expr, ExprKind, UnaryOp};

/// Contexts of the thread in which an event happens, beside `$last`.
const OF_THREAD: [&str; 7] = ["tid", "vtid", "pid", "vpid", "comm", "procname", "delta"];

/// Levels of a condition that are looked into: each may double what is left. A higher one fails as a whole, if it names
/// such a context.
const HEIGHT_MAX: u32 = 12;

fn is_of_thread(name: &str) -> bool {
    OF_THREAD.contains(&name) || name.starts_with("last.")
}

impl Rule {
    /// Whether the condition or an action names a context of the thread in which an event happens.
    pub fn names_thread(&self) -> bool {
        self.has_context(&is_of_thread)
    }

    /// The rule for events of a thread whose contexts are absent: its condition fails where it needs one, and actions
    /// that name one are left out. `None` when the condition never holds then, or no action is left.
    pub fn without_thread(&self) -> Option<Rule> {
        let condition = match &self.condition {
            Some(condition) => Some(holds(condition)?),
            None => None,
        };
        let actions: Vec<Action> =
            self.actions.iter().filter(|action| !action.kind.has_context(&is_of_thread)).cloned().collect();
        (!actions.is_empty()).then(|| self.with(condition, actions))
    }
}

fn is_plain(expr: &Expr) -> bool {
    !expr.has_context(&is_of_thread)
}

/// What holds just where the expression does, without the contexts of a thread: `None` when it always fails or is
/// false.
fn holds(expr: &Expr) -> Option<Expr> {
    if is_plain(expr) {
        return Some(expr.clone());
    }
    match &expr.kind {
        _ if expr.height() > HEIGHT_MAX => None,
        ExprKind::And(list) => all(expr, list, holds),
        ExprKind::Or(list) => first_of(expr, list, holds, does_not_hold),
        ExprKind::Unary(UnaryOp::Not, inner) => does_not_hold(inner),
        _ => None,
    }
}

/// What holds just where the expression is false and does not fail.
fn does_not_hold(expr: &Expr) -> Option<Expr> {
    if is_plain(expr) {
        return Some(Expr::new(ExprKind::Unary(UnaryOp::Not, Box::new(expr.clone())), expr.span));
    }
    match &expr.kind {
        _ if expr.height() > HEIGHT_MAX => None,
        ExprKind::And(list) => first_of(expr, list, does_not_hold, holds),
        ExprKind::Or(list) => all(expr, list, does_not_hold),
        ExprKind::Unary(UnaryOp::Not, inner) => holds(inner),
        _ => None,
    }
}

/// All of the list, each as `of` says.
fn all(expr: &Expr, list: &[Expr], of: fn(&Expr) -> Option<Expr>) -> Option<Expr> {
    joined(ExprKind::And, list.iter().map(of).collect::<Option<_>>()?, expr)
}

/// One of a list decides, and those before it have gone on to the next: `decides` and `goes_on` are what holds then.
fn first_of(
    expr: &Expr,
    list: &[Expr],
    decides: fn(&Expr) -> Option<Expr>,
    goes_on: fn(&Expr) -> Option<Expr>,
) -> Option<Expr> {
    let mut outcomes = Vec::new();
    // Those before that may have failed. Of others it is enough that they have not decided.
    let mut before = Vec::new();
    for one in list {
        if let Some(decided) = decides(one) {
            let mut whole = before.clone();
            whole.push(decided);
            outcomes.extend(joined(ExprKind::And, whole, expr));
        }
        if !is_plain(one) {
            let Some(on) = goes_on(one) else { break };
            before.push(on);
        }
    }
    joined(ExprKind::Or, outcomes, expr)
}

fn joined(kind: fn(Vec<Expr>) -> ExprKind, mut list: Vec<Expr>, expr: &Expr) -> Option<Expr> {
    if list.len() < 2 { list.pop() } else { Some(Expr::new(kind(list), expr.span)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(rule: &Rule) -> Vec<String> {
        rule.actions.iter().map(|action| rule.title_of(action)).collect()
    }

    fn left(text: &str) -> Option<Rule> {
        Rule::parse(text).expect("a rule").without_thread()
    }

    #[test]
    fn conditions_fail_and_actions_are_left_out() {
        for none in [
            "a:b if $tid == 5 || x > 3",
            "a:b if !($ctx.pid == 5)",
            "a:b if x > 3 && $comm == \"x\"",
            "a:b if !(x > 3 || $tid == 5) || $tid == 5",
            "a:b if changed(x)",
            "a:b if $last.x < x do count",
            "a:b do count by $comm",
            "a:b do hist $delta by x",
        ] {
            assert!(left(none).is_none(), "{none}");
            assert!(Rule::parse(none).expect("a rule").names_thread(), "{none}");
        }
        let whole = "a:b if $cpu == 1 && $window do count by x";
        assert!(!Rule::parse(whole).expect("a rule").names_thread());
        assert_eq!(titles(&left(whole).expect("all of it")), [whole]);
    }

    /// As far as a condition is worked out without the context, it holds.
    #[test]
    fn what_is_not_needed_does_not_fail() {
        for (text, same) in [
            ("a:b if x > 3 || $tid == 5", "x > 3"),
            ("a:b if x > 3 || $tid == 5 || y", "x > 3"),
            ("a:b if x > 3 || y && $tid == 5 || z", "x > 3 || (!y && z)"),
            ("a:b if (x || $tid == 5) && y", "x && y"),
            ("a:b if !(x && $tid == 5)", "!x"),
        ] {
            let left = left(text).and_then(|rule| rule.condition).expect("it may hold");
            let same = Rule::filter("a:b", same).expect("a rule").condition.expect("a condition");
            assert_eq!(shape(&left), shape(&same), "{text}");
        }
    }

    /// Without spans.
    fn shape(expr: &Expr) -> String {
        let list = |list: &[Expr]| list.iter().map(shape).collect::<Vec<_>>().join(" ");
        match &expr.kind {
            ExprKind::And(all) => format!("(and {})", list(all)),
            ExprKind::Or(all) => format!("(or {})", list(all)),
            ExprKind::Unary(_, inner) => format!("(not {})", shape(inner)),
            ExprKind::Binary(op, a, b) => format!("({} {} {})", op.sign(), shape(a), shape(b)),
            other => format!("{other:?}"),
        }
    }

    /// Results are by title: what is left counts where the whole rule does.
    #[test]
    fn what_is_left_keeps_its_title() {
        for (text, left_out) in
            [("a:b do record, count by $comm, count by x", 1), ("a:b do count by $tid, count by x", 0)]
        {
            let mut wanted = titles(&Rule::parse(text).expect("a rule"));
            wanted.remove(left_out);
            assert_eq!(titles(&left(text).expect("actions")), wanted, "{text}");
        }
    }
}
