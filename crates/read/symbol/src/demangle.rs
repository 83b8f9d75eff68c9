//! Names as a person wrote them: C++ and Rust.

use std::borrow::Cow;

/// Longest name that is tried; longer ones stay as they are.
const LEN_MAX: usize = 4096;
/// How deep a C++ name may nest: the demangler recurses.
const DEPTH_MAX: u32 = 96;

/// The name in its language; itself when it is no mangled name.
///
/// Hashes at the end of Rust's names are left away.
#[must_use]
pub fn demangle(name: &str) -> Cow<'_, str> {
    // `_ZN...17h<hash>E` is Rust's old scheme in C++'s: Rust's is asked first.
    if !name.starts_with("_R") && !name.starts_with("_Z") && !name.starts_with("__Z") || name.len() > LEN_MAX
    {
        return Cow::Borrowed(name);
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Cow::Owned(format!("{rust:#}"));
    }
    let options = cpp_demangle::ParseOptions::default().recursion_limit(DEPTH_MAX);
    let cpp =
        cpp_demangle::Symbol::new_with_options(name, &options).ok().and_then(|symbol| symbol.demangle().ok());
    cpp.map_or(Cow::Borrowed(name), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_languages() {
        for (mangled, name) in [
            ("_ZN3std2io5stdio6_print17h0123456789abcdefE", "std::io::stdio::_print"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN4shop8checkoutEi", "shop::checkout(int)"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("main", "main"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("", ""),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }
}
