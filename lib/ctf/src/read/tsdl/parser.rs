//! The parser's state and its smallest verbs: peek, expect, look up a type, count what was built.

use super::lexer::{Token, tokens};
use crate::error::{MAX_DEPTH, MetadataError, MetadataFault};
use crate::model::{ByteOrder, EnumClass, FieldClass, StructClass, VariantClass};
use crate::read::{Oddities, max_classes, place};
use std::collections::HashMap;

pub(super) type Parsed<T> = Result<T, MetadataError>;

/// Named types of one lexical scope.
#[derive(Default)]
pub(super) struct TypeScope {
    pub(super) aliases: HashMap<String, FieldClass>,
    pub(super) structs: HashMap<String, StructClass>,
    pub(super) variants: HashMap<String, VariantClass>,
    pub(super) enums: HashMap<String, EnumClass>,
}

/// A parser in the middle of its text.
pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    tokens: Vec<(Token<'t>, usize)>,
    at: usize,
    pub(super) scopes: Vec<TypeScope>,
    /// What `native` means.
    pub(super) order: ByteOrder,
    /// Clocks by name; the indices are in the order in which the names were first seen.
    pub(super) clocks: HashMap<String, usize>,
    /// Where each clock was first seen.
    pub(super) clock_places: Vec<usize>,
    pub(super) oddities: Oddities,
    depth: u32,
    classes: usize,
}

/// A value after `=`.
pub(super) enum Value {
    Int(i128),
    Str(String),
    Path(Vec<String>),
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Parsed<Parser<'t>> {
        let tokens = tokens(text)?;
        let order = native_order(&tokens);
        let scopes = vec![TypeScope::default()];
        Ok(Parser {
            text,
            tokens,
            at: 0,
            scopes,
            order,
            clocks: HashMap::new(),
            clock_places: Vec::new(),
            oddities: Oddities::default(),
            depth: 0,
            classes: 0,
        })
    }

    /// Where the current token is.
    pub(super) fn here(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |(_, at)| *at)
    }

    /// Where the token is that was just read.
    pub(super) fn before(&self) -> usize {
        self.tokens.get(self.at.saturating_sub(1)).map_or(0, |(_, at)| *at)
    }

    /// A fault at byte `at`.
    pub(super) fn fault_at<T>(&self, at: usize, kind: MetadataFault) -> Parsed<T> {
        Err(place(self.text, at, kind))
    }

    /// A fault at the current token.
    pub(super) fn fault<T>(&self, kind: MetadataFault) -> Parsed<T> {
        self.fault_at(self.here(), kind)
    }

    /// A fault of what was just read.
    pub(super) fn fault_before<T>(&self, kind: MetadataFault) -> Parsed<T> {
        self.fault_at(self.before(), kind)
    }

    pub(super) fn peek(&self) -> &Token<'t> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> &Token<'t> {
        self.tokens.get(self.at + ahead).map_or(&Token::End, |(token, _)| token)
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Takes `punct` if it is next.
    pub(super) fn take(&mut self, punct: &str) -> bool {
        let found = matches!(self.peek(), Token::Punct(p) if *p == punct);
        self.at += usize::from(found);
        found
    }

    /// Takes the word `word` if it is next.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Ident(w) if *w == word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, punct: &'static str) -> Parsed<()> {
        if self.take(punct) { Ok(()) } else { self.fault(MetadataFault::Expected(punct)) }
    }

    pub(super) fn ident(&mut self) -> Parsed<&'t str> {
        if let Token::Ident(word) = *self.peek() {
            self.skip();
            return Ok(word);
        }
        self.fault(MetadataFault::Expected("a name"))
    }

    pub(super) fn peek_ident(&self) -> Option<&'t str> {
        if let Token::Ident(word) = *self.peek() { Some(word) } else { None }
    }

    /// `a.b.c`
    pub(super) fn path(&mut self) -> Parsed<Vec<String>> {
        let mut path = vec![self.ident()?.to_owned()];
        while self.take(".") {
            path.push(self.ident()?.to_owned());
        }
        Ok(path)
    }

    /// A value after `=`.
    pub(super) fn value(&mut self) -> Parsed<Value> {
        match self.peek().clone() {
            Token::Str(text) => {
                self.skip();
                // Adjacent texts are one, as in C.
                let mut whole = text.into_owned();
                while let Token::Str(more) = self.peek().clone() {
                    whole.push_str(&more);
                    self.skip();
                }
                Ok(Value::Str(whole))
            }
            Token::Ident(_) => Ok(Value::Path(self.path()?)),
            _ => Ok(Value::Int(self.integer()?)),
        }
    }

    /// An integer with an optional sign.
    pub(super) fn integer(&mut self) -> Parsed<i128> {
        let negative = self.take("-");
        if !negative {
            self.take("+");
        }
        if let Token::Int(value) = *self.peek() {
            self.skip();
            let value = i128::from(value);
            return Ok(if negative { -value } else { value });
        }
        self.fault(MetadataFault::Expected("an integer"))
    }

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return self.fault(MetadataFault::TooDeep);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Runs `inner` in a lexical scope of its own, one level deeper.
    pub(super) fn scoped<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.scopes.push(TypeScope::default());
        let result = self.nested(inner);
        self.scopes.pop();
        result
    }

    /// The innermost definition that `find` returns.
    pub(super) fn find<T: Clone>(&self, find: impl Fn(&TypeScope) -> Option<&T>) -> Option<T> {
        self.scopes.iter().rev().find_map(find).cloned()
    }

    /// Counts the classes of `class` and its depth, so that names for names cannot blow up.
    pub(super) fn admit(&mut self, class: FieldClass) -> Parsed<FieldClass> {
        self.admit_levels(&class, 0)?;
        Ok(class)
    }

    /// [`Parser::admit`] for a class that `more` levels will be put around.
    pub(super) fn admit_levels(&mut self, class: &FieldClass, more: u32) -> Parsed<()> {
        let (depth, count) = weigh(class);
        self.classes = self.classes.saturating_add(count);
        if depth + more + self.depth > MAX_DEPTH {
            return self.fault_before(MetadataFault::TooDeep);
        }
        if self.classes > max_classes(self.text.len()) {
            return self.fault_before(MetadataFault::TooBig);
        }
        Ok(())
    }

    /// The current scope of types.
    pub(super) fn types(&mut self) -> &mut TypeScope {
        if self.scopes.is_empty() {
            self.scopes.push(TypeScope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }
}

/// Depth and number of the classes of `class`; it was built under the depth limit itself.
fn weigh(class: &FieldClass) -> (u32, usize) {
    let add = |(depth, count): (u32, usize), class: &FieldClass| {
        let (d, c) = weigh(class);
        (depth.max(d), count.saturating_add(c))
    };
    let (depth, count) = match class {
        FieldClass::Struct(c) => c.members.iter().fold((0, 0), |sum, m| add(sum, &m.class)),
        FieldClass::Variant(c) => c.options.iter().fold((0, 0), |sum, o| add(sum, &o.class)),
        FieldClass::Array(c) => weigh(&c.element),
        FieldClass::Optional(c) => weigh(&c.class),
        FieldClass::Enum(c) => (0, c.mappings.len()),
        _ => (0, 0),
    };
    (depth + 1, count.saturating_add(1))
}

/// The byte order that the `trace` block gives; types before that block use it too.
fn native_order(tokens: &[(Token<'_>, usize)]) -> ByteOrder {
    let mut depth = 0_u32;
    let mut in_trace = false;
    for window in tokens.windows(3) {
        match (&window[0].0, &window[1].0, &window[2].0) {
            (Token::Punct("{"), ..) => depth += 1,
            (Token::Punct("}"), ..) => depth = depth.saturating_sub(1),
            (Token::Ident("trace"), Token::Punct("{"), _) if depth == 0 => in_trace = true,
            (Token::Ident(_), Token::Punct("{"), _) if depth == 0 => in_trace = false,
            (Token::Ident("byte_order"), Token::Punct("="), Token::Ident(order))
                if in_trace && depth == 1 =>
            {
                return if matches!(*order, "be" | "network") { ByteOrder::Big } else { ByteOrder::Little };
            }
            _ => {}
        }
    }
    ByteOrder::Little
}
