//! The attribute `#[mote::probe]`, which runs in the compiler and leaves a macro of the crate `mote` in the function.
//!
//! A function is read no further than is needed: its name, and its body, which is its last piece.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

/// Records the calls of a function: an event `f:NAME` when it returns, with how long it took.
///
/// `#[mote::probe]`, `#[mote::probe(FIELD: TYPE = VALUE, ...)]`, `#[mote::probe("NAME", FIELD: TYPE = VALUE, ...)]`
///
/// The name is the function's with its module's, unless another one is given: of a method, for instance, that with
/// its type's. The event has a field `duration` in nanoseconds, as those of `mote functions` have, and is shown as they
/// are: `mote functions -i DIR`, `mote export`. Values are evaluated when the function begins; what one of them borrows
/// cannot be moved in the function. For types see [`event!`](https://docs.rs/mote-trace).
///
/// ```ignore
/// #[mote::probe(bytes: usize = text.len())]
/// fn parse(text: &str) -> u32 {
///     text.split(',').count() as u32
/// }
///
/// impl Connection {
///     #[mote::probe("Connection::answer")]
///     async fn answer(&mut self) {}
/// }
/// ```
/// A call counts however it ends: by `return`, `?`, or a panic that unwinds. Of an `async` function it is the time from
/// when it is first polled to when it is done, or dropped.
///
/// # Cost
/// Off: one 5-byte NOP, and a test when the function returns. On: two readings of `CLOCK_MONOTONIC`, and the event.
#[proc_macro_attribute]
pub fn probe(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    match probed(arguments, &mut tokens) {
        Ok(()) => tokens.into_iter().collect(),
        Err((why, span)) => {
            // The function as it was, so that nothing else is reported.
            let mut all = error(why, span);
            all.extend(tokens);
            all
        }
    }
}

/// Puts the macro into the function's body.
fn probed(arguments: TokenStream, tokens: &mut [TokenTree]) -> Result<(), (&'static str, Span)> {
    let is =
        |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident.to_string() == word);
    let keyword = tokens.iter().position(|token| is(token, "fn"));
    let keyword = keyword.ok_or(("`#[mote::probe]` is for functions", Span::call_site()))?;
    if let Some(word) = tokens.iter().take(keyword).find(|token| is(token, "const")) {
        return Err(("a `const fn` may run in the compiler, and has no probe", word.span()));
    }
    let Some(TokenTree::Ident(name)) = tokens.get(keyword + 1) else {
        return Err(("`#[mote::probe]` is for functions with a name", Span::call_site()));
    };
    let name = name.to_string();
    match tokens.last_mut() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
            *body = with_probe(body, called(name.trim_start_matches("r#"), arguments));
            Ok(())
        }
        _ => Err(("`#[mote::probe]` is for functions with a body", Span::call_site())),
    }
}

/// `{ PROBE { BODY } }`.
fn with_probe(body: &Group, probe: TokenStream) -> Group {
    let mut tokens = probe;
    tokens.extend([TokenTree::Group(body.clone())]);
    let mut group = Group::new(Delimiter::Brace, tokens);
    group.set_span(body.span());
    group
}

/// `::mote::__call! { "NAME"; ARGUMENTS }`.
fn called(name: &str, arguments: TokenStream) -> TokenStream {
    let name = TokenTree::Literal(Literal::string(name));
    let inside = [name, punct(';')].into_iter().chain(arguments).collect();
    let mut tokens = path("__call");
    tokens.extend([punct('!'), TokenTree::Group(Group::new(Delimiter::Brace, inside))]);
    tokens
}

/// `::mote::NAME`.
fn path(name: &str) -> TokenStream {
    let ident = |name| TokenTree::Ident(Ident::new(name, Span::call_site()));
    let colons = || [proc_macro::Spacing::Joint, proc_macro::Spacing::Alone].map(colon);
    colons().into_iter().chain([ident("mote")]).chain(colons()).chain([ident(name)]).collect()
}

fn colon(spacing: proc_macro::Spacing) -> TokenTree {
    TokenTree::Punct(proc_macro::Punct::new(':', spacing))
}

fn punct(mark: char) -> TokenTree {
    TokenTree::Punct(proc_macro::Punct::new(mark, proc_macro::Spacing::Alone))
}

/// `::core::compile_error!("WHY");`, where something is wrong.
fn error(why: &str, span: Span) -> TokenStream {
    let text = Group::new(Delimiter::Parenthesis, TokenTree::Literal(Literal::string(why)).into());
    let name = TokenTree::Ident(Ident::new("compile_error", span));
    [name, punct('!'), TokenTree::Group(text), punct(';')].into_iter().collect()
}
