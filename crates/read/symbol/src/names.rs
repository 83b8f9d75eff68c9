//! The names of a function: as in the symbol table, and as a person writes them.

use crate::demangle::demangle;

/// Whether `is` holds for one of the names that a symbol has for people: without its version, demangled, without
/// parameters, and without generic arguments.
pub fn fits(symbol: &str, is: impl Fn(&str) -> bool) -> bool {
    let name = plain(symbol);
    if is(name) {
        return true;
    }
    let demangled = demangle(name);
    if *demangled == *name {
        return false;
    }
    let bare = bare(&demangled);
    is(&demangled) || is(&bare) || is(&without_generics(&bare))
}

/// Without the version: `memcpy@@GLIBC_2.14`.
#[must_use]
pub fn plain(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}

/// Without parameters and result: `shop::twice<int>` of `int shop::twice<int>(int)`; `operator()` keeps its own.
#[must_use]
pub fn bare(name: &str) -> String {
    let operator = name.find("operator");
    let from = match operator {
        Some(at) if name.get(at..).is_some_and(|rest| rest.starts_with("operator()")) => {
            at + "operator()".len()
        }
        _ => 0,
    };
    let end = name.get(from..).and_then(|rest| rest.find('(')).map_or(name.len(), |at| from + at);
    // `(anonymous namespace)::f` begins with one.
    let head = name.get(..end).filter(|head| !head.is_empty()).unwrap_or(name);
    // `operator new` has a space of its own.
    let plain = head.get(..operator.unwrap_or(head.len())).unwrap_or(head);
    let mut depth = 0_u32;
    let mut start = 0;
    for (at, byte) in plain.bytes().enumerate() {
        match byte {
            b'<' | b'(' => depth += 1,
            b'>' | b')' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    head.get(start..).unwrap_or(head).trim_start_matches(['*', '&']).to_owned()
}

/// Without generic and template arguments: `shop::twice` of `shop::twice<int>`, and `Cart::drop` of
/// `<Cart<T> as Drop>::drop`.
#[must_use]
pub fn without_generics(name: &str) -> String {
    if let Some(rest) = name.strip_prefix('<')
        && let Some(end) = closing(rest)
        && let (Some(inner), Some(behind)) = (rest.get(..end), rest.get(end + 1..))
    {
        let of = inner.split_once(" as ").map_or(inner, |(of, _)| of);
        return without_generics(of) + &without_generics(behind);
    }
    // `operator<` and its like are names.
    let (head, operator) = name.split_at(name.find("operator").unwrap_or(name.len()));
    let mut depth = 0_u32;
    let mut out = String::new();
    for c in head.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    // Rust's generic functions are `f::<T>`.
    let out = out.replace("::::", "::");
    let whole = if operator.is_empty() { out.trim_end_matches("::") } else { &out };
    whole.to_owned() + operator
}

/// Where the bracket ends that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_u32;
    text.bytes().enumerate().find_map(|(at, byte)| {
        match byte {
            b'<' => depth += 1,
            // Not that of `->`.
            b'>' if !text.get(..at).is_some_and(|before| before.ends_with('-')) => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_parameters() {
        for (name, short) in [
            ("main", "main"),
            ("shop::checkout(int, char const*)", "shop::checkout"),
            ("int shop::twice<int>(int)", "shop::twice<int>"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("shop::Cart::operator()(int)", "shop::Cart::operator()"),
            ("operator new(unsigned long)", "operator new"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"),
            ("char const* name_of<int>()", "name_of<int>"),
            ("", ""),
        ] {
            assert_eq!(bare(name), short, "{name}");
        }
    }

    #[test]
    fn names_without_generic_arguments() {
        for (name, short) in [
            ("shop::twice<int>", "shop::twice"),
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec::push"),
            ("core::ptr::drop_in_place::<T>", "core::ptr::drop_in_place"),
            ("<shop::Cart<T> as core::ops::Drop>::drop", "shop::Cart::drop"),
            ("<F as FnOnce<(A,)>>::call_once", "F::call_once"),
            ("std::operator<<", "std::operator<<"),
            ("main", "main"),
            ("<", ""),
            ("", ""),
        ] {
            assert_eq!(without_generics(name), short, "{name}");
        }
    }

    #[test]
    fn a_symbol_fits_by_each_of_its_names() {
        for name in ["_ZN4shop8checkoutEi", "shop::checkout(int)", "shop::checkout"] {
            assert!(fits("_ZN4shop8checkoutEi", |one| one == name), "{name}");
        }
        assert!(fits("memcpy@@GLIBC_2.14", |one| one == "memcpy"));
        assert!(!fits("memcpy", |one| one == "shop::checkout"));
    }
}
