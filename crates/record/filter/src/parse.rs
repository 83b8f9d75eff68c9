//! From tokens to syntax: operator precedence after Pratt.
//!
//! The order is LTTng's (lttng-event-rule(7) of 2.13), with `*` and `+` above the shifts as in C. From tight to loose:
//! unary, `* / %`, `+ -`, `<< >>`, `&`, `^`, `|`, `< <= > >= in`, `== !=`, `&&`, `||`. Unlike C's, bit operations bind
//! tighter than comparisons.

use crate::diagnostic::{Diagnostic, Span};
use crate::lex::{Kind, Token, tokens};
use crate::syntax::{BinaryOp, Expr, ExprKind, Member, SpeculationKey, UnaryOp};

mod actions;
mod call;

/// Most levels of nesting, and of the tree.
pub(crate) const DEPTH_MAX: u32 = 64;

/// How tightly an operator binds, and what it makes.
enum Infix {
    Binary(BinaryOp),
    And,
    Or,
    In,
}

const AND: u8 = 2;
const EQUALITY: u8 = 3;
const UNARY: u8 = 11;

fn infix(token: &Kind) -> Option<(u8, Infix)> {
    Some(match token {
        Kind::Sign("||") => (1, Infix::Or),
        Kind::Sign("&&") => (AND, Infix::And),
        Kind::Sign("==") => (EQUALITY, Infix::Binary(BinaryOp::Eq)),
        Kind::Sign("!=") => (EQUALITY, Infix::Binary(BinaryOp::Ne)),
        Kind::Sign("<") => (4, Infix::Binary(BinaryOp::Lt)),
        Kind::Sign("<=") => (4, Infix::Binary(BinaryOp::Le)),
        Kind::Sign(">") => (4, Infix::Binary(BinaryOp::Gt)),
        Kind::Sign(">=") => (4, Infix::Binary(BinaryOp::Ge)),
        Kind::Name(name) if name == "in" => (4, Infix::In),
        Kind::Sign("|") => (5, Infix::Binary(BinaryOp::BitOr)),
        Kind::Sign("^") => (6, Infix::Binary(BinaryOp::BitXor)),
        Kind::Sign("&") => (7, Infix::Binary(BinaryOp::BitAnd)),
        Kind::Sign("<<") => (8, Infix::Binary(BinaryOp::Shl)),
        Kind::Sign(">>") => (8, Infix::Binary(BinaryOp::Shr)),
        Kind::Sign("+") => (9, Infix::Binary(BinaryOp::Add)),
        Kind::Sign("-") => (9, Infix::Binary(BinaryOp::Sub)),
        Kind::Sign("*") => (10, Infix::Binary(BinaryOp::Mul)),
        Kind::Sign("/") => (10, Infix::Binary(BinaryOp::Div)),
        Kind::Sign("%") => (10, Infix::Binary(BinaryOp::Mod)),
        _ => return None,
    })
}

/// A parser, at some token.
pub(crate) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    /// Whether a `by` here begins the keys of a table: `hist $elapsed by status`.
    by_begins_keys: bool,
}

impl Parser {
    /// At the first token of `text` behind byte `from`.
    pub(crate) fn new(text: &str, from: usize) -> Result<Parser, Diagnostic> {
        Ok(Parser { tokens: tokens(text, from)?, at: 0, depth: 0, by_begins_keys: false })
    }

    /// The next token.
    pub(crate) fn peek(&self) -> &Token {
        // The last token is `End`, and `bump` does not go over it.
        &self.tokens[self.at]
    }

    fn bump(&mut self) -> Token {
        let token = self.peek().clone();
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, sign: &'static str) -> Option<Span> {
        (self.peek().kind == Kind::Sign(sign)).then(|| self.bump().span)
    }

    fn expect(&mut self, sign: &'static str, after: &str) -> Result<Span, Diagnostic> {
        self.eat(sign).ok_or_else(|| self.unexpected(&format!("`{sign}` {after}")))
    }

    /// Takes a word of the language.
    pub(crate) fn eat_word(&mut self, word: &str) -> Option<Span> {
        matches!(&self.peek().kind, Kind::Name(name) if name == word).then(|| self.bump().span)
    }

    fn name(&mut self, what: &str) -> Result<(String, Span), Diagnostic> {
        match self.peek().kind.clone() {
            Kind::Name(name) => Ok((name, self.bump().span)),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Nothing follows.
    pub(crate) fn end(&self) -> Result<(), Diagnostic> {
        match &self.peek().kind {
            Kind::End => Ok(()),
            Kind::Sign("=") => {
                let problem = Diagnostic::syntax(self.peek().span, "`=` is not a comparison");
                Err(problem.help("write `==`"))
            }
            Kind::Sign(")") => Err(Diagnostic::syntax(self.peek().span, "no `(` before this `)`")),
            _ => Err(self.unexpected("an operator, or the end")),
        }
    }

    fn unexpected(&self, wanted: &str) -> Diagnostic {
        let found = match &self.peek().kind {
            Kind::End => "the end".to_owned(),
            Kind::Sign(sign) => format!("`{sign}`"),
            Kind::Name(name) => format!("`{name}`"),
            Kind::Context(name) => format!("`${name}`"),
            Kind::Integer(_) | Kind::Float(_) => "a number".to_owned(),
            Kind::String(_) => "a string".to_owned(),
        };
        Diagnostic::syntax(self.peek().span, format!("expected {wanted}, found {found}"))
    }

    /// One level deeper, if that is allowed.
    fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Parser) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        if self.depth >= DEPTH_MAX {
            let message = format!("nested deeper than {DEPTH_MAX} levels");
            return Err(Diagnostic::syntax(self.peek().span, message).help("split the rule into several"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A whole expression.
    pub(crate) fn expression(&mut self) -> Result<Expr, Diagnostic> {
        self.binding(0)
    }

    /// An expression of operators that bind tighter than `loosest`.
    fn binding(&mut self, loosest: u8) -> Result<Expr, Diagnostic> {
        self.deeper(|parser| {
            let mut left = parser.operand()?;
            while let Some((strength, infix)) = infix(&parser.peek().kind)
                && strength > loosest
            {
                parser.bump();
                left = match infix {
                    Infix::And => parser.logical(left, "&&", strength, ExprKind::And)?,
                    Infix::Or => parser.logical(left, "||", strength, ExprKind::Or)?,
                    Infix::In => parser.member_list(left)?,
                    Infix::Binary(op) => {
                        let right = parser.binding(strength)?;
                        let span = left.span.to(right.span);
                        node(ExprKind::Binary(op, Box::new(left), Box::new(right)), span)?
                    }
                };
            }
            Ok(left)
        })
    }

    /// `a && b && ..`, behind the first operator.
    fn logical(
        &mut self,
        first: Expr,
        sign: &'static str,
        strength: u8,
        make: fn(Vec<Expr>) -> ExprKind,
    ) -> Result<Expr, Diagnostic> {
        let start = first.span;
        let mut operands = vec![first];
        loop {
            operands.push(self.binding(strength)?);
            if self.eat(sign).is_none() {
                break;
            }
        }
        let end = operands.last().map_or(start, |last| last.span);
        node(make(operands), start.to(end))
    }

    /// `a in (1, 3..5, "x")`, behind `in`.
    fn member_list(&mut self, left: Expr) -> Result<Expr, Diagnostic> {
        self.expect("(", "after `in`")?;
        let mut members = Vec::new();
        let end = loop {
            let first = self.binding(EQUALITY)?;
            if self.eat("..").is_some() {
                members.push(Member::Range(first, self.binding(EQUALITY)?));
            } else {
                members.push(Member::One(first));
            }
            if let Some(end) = self.eat(")") {
                break end;
            }
            self.expect(",", "or `)` in the list")?;
        };
        let span = left.span.to(end);
        node(ExprKind::In(Box::new(left), members), span)
    }

    /// What stands between operators, with its own unary ones.
    fn operand(&mut self) -> Result<Expr, Diagnostic> {
        let unary = match self.peek().kind {
            Kind::Sign("!") => Some(UnaryOp::Not),
            Kind::Sign("-") => Some(UnaryOp::Minus),
            Kind::Sign("+") => Some(UnaryOp::Plus),
            Kind::Sign("~") => Some(UnaryOp::BitNot),
            _ => None,
        };
        if let Some(op) = unary {
            let start = self.bump().span;
            let inner = self.binding(UNARY)?;
            let span = start.to(inner.span);
            return node(ExprKind::Unary(op, Box::new(inner)), span);
        }
        let mut operand = self.primary()?;
        while self.eat("[").is_some() {
            let index = self.binding(0)?;
            let end = self.expect("]", "after the index")?;
            let span = operand.span.to(end);
            operand = node(ExprKind::Index(Box::new(operand), Box::new(index)), span)?;
        }
        if matches!(self.peek().kind, Kind::Sign("." | "->")) {
            let problem = Diagnostic::syntax(self.peek().span, "elements of arrays have no members");
            return Err(problem.help("events have plain fields and arrays of numbers"));
        }
        Ok(operand)
    }

    fn primary(&mut self) -> Result<Expr, Diagnostic> {
        let span = self.peek().span;
        let kind = match self.peek().kind.clone() {
            Kind::Integer(value) => ExprKind::Integer(value),
            Kind::Float(value) => ExprKind::Float(value),
            Kind::String(text) => ExprKind::String(text),
            Kind::Context(name) => {
                self.bump();
                return self.context(name, span);
            }
            Kind::Name(name) => {
                self.bump();
                if self.eat("(").is_some() {
                    return self.call(name, span);
                }
                return node(ExprKind::Name(name), span);
            }
            Kind::Sign("(") => {
                self.bump();
                let by_begins_keys = std::mem::take(&mut self.by_begins_keys);
                let inner = self.binding(0)?;
                self.by_begins_keys = by_begins_keys;
                if self.peek().kind == Kind::End {
                    let problem = Diagnostic::syntax(span, "no `)` for this `(`");
                    return Err(problem.help("add `)`"));
                }
                let end = self.expect(")", "after the expression in parentheses")?;
                return node(inner.kind, span.to(end));
            }
            _ => return Err(self.unexpected("a field, a number or a string")),
        };
        self.bump();
        node(kind, span)
    }

    /// `$NAME`, or `$elapsed by KEY`, behind the name.
    fn context(&mut self, name: String, span: Span) -> Result<Expr, Diagnostic> {
        let is_elapsed = name.strip_prefix("ctx.").unwrap_or(&name) == "elapsed";
        if !is_elapsed || self.by_begins_keys {
            return node(ExprKind::Context(name), span);
        }
        match self.speculation_key()? {
            None => node(ExprKind::Context(name), span),
            Some(key) => {
                let span = span.to(key.expr.span);
                node(ExprKind::ElapsedBy(Box::new(key)), span)
            }
        }
    }

    /// `[by KEY]`: a key is an operand; what has operators is in brackets.
    fn speculation_key(&mut self) -> Result<Option<SpeculationKey>, Diagnostic> {
        if self.eat_word("by").is_none() {
            return Ok(None);
        }
        let start = self.at;
        let expr = self.deeper(Parser::operand)?;
        let words: Vec<String> =
            self.tokens[start..self.at].iter().map(|token| token.kind.to_string()).collect();
        let words = match words.as_slice() {
            [first, inner @ .., last] if first == "(" && last == ")" => inner,
            all => all,
        };
        Ok(Some(SpeculationKey { name: words.concat(), expr }))
    }
}

/// An expression, if the tree is not too high: later passes walk it by recursion.
fn node(kind: ExprKind, span: Span) -> Result<Expr, Diagnostic> {
    let expr = Expr::new(kind, span);
    if expr.height() <= DEPTH_MAX {
        return Ok(expr);
    }
    let message = format!("more than {DEPTH_MAX} operators on top of one another");
    Err(Diagnostic::syntax(span, message).help("`&&` and `||` may be any number; split the others"))
}

/// The expression that is all of `text`.
pub(crate) fn expression(text: &str) -> Result<Expr, Diagnostic> {
    let mut parser = Parser::new(text, 0)?;
    let parsed = parser.expression()?;
    parser.end()?;
    Ok(parsed)
}

#[cfg(test)]
mod tests;
