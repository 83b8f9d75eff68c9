//! What stands between the brackets of a function: expressions, `1%`, `100/s`.

use super::Parser;
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::Kind;
use crate::lex::time_unit;
use crate::syntax::{Argument, Expr, ExprKind};

impl Parser {
    /// The call of a function, behind `name(`.
    pub(super) fn call(&mut self, name: String, start: Span) -> Result<Expr, Diagnostic> {
        let mut arguments = Vec::new();
        let mut end = self.eat(")");
        while end.is_none() {
            arguments.push(self.argument()?);
            end = self.eat(")");
            if end.is_none() {
                self.expect(",", "or `)` after an argument")?;
            }
        }
        let span = start.to(end.unwrap_or(start));
        super::node(ExprKind::Call(name, arguments), span)
    }

    fn argument(&mut self) -> Result<Argument, Diagnostic> {
        let next = |n: usize| self.tokens.get(self.at + n).map(|token| &token.kind);
        let start = self.peek().span;
        match (next(0), next(1), next(2)) {
            (Some(Kind::Integer(_) | Kind::Float(_)), Some(Kind::Sign("%")), Some(Kind::Sign(")" | ","))) => {
                let percent = match self.bump().kind {
                    Kind::Integer(value) => value as f64,
                    Kind::Float(value) => value,
                    _ => 0.0,
                };
                Ok(Argument::Percent(percent, start.to(self.bump().span)))
            }
            (Some(Kind::Integer(n)), Some(Kind::Sign("/")), Some(Kind::Name(unit)))
                if time_unit(unit).is_some() =>
            {
                let (n, ns) = (*n, time_unit(unit).unwrap_or(1));
                self.bump();
                self.bump();
                Ok(Argument::Rate(n, ns, start.to(self.bump().span)))
            }
            _ => Ok(Argument::Expr(self.binding(0)?)),
        }
    }
}
