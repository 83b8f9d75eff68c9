//! Names and types of arguments, as people give them: `id: i32, path: str`.

use mote_layout::types::Scalar;

/// The type of an argument, or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentType {
    /// A number.
    Scalar(Scalar),
    /// The address of a text that ends with a NUL.
    Text,
}

/// The names and types in a list with commas between them.
///
/// # Errors
/// What is no argument, and what one looks like.
pub fn arguments(list: &str) -> Result<Vec<(String, ArgumentType)>, String> {
    list.split(',').map(argument).collect()
}

/// `path: str`
fn argument(text: &str) -> Result<(String, ArgumentType), String> {
    let wrong = || format!("`{}` is not an argument; give `NAME: TYPE`", text.trim());
    let (name, ty) = text.split_once(':').ok_or_else(wrong)?;
    let name = name.trim();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(wrong());
    }
    Ok((name.to_owned(), argument_type(ty)?))
}

/// The type with this name.
///
/// # Errors
/// That it is none, and which there are.
pub fn argument_type(text: &str) -> Result<ArgumentType, String> {
    match text.trim() {
        "str" => Ok(ArgumentType::Text),
        "ptr" => Ok(ArgumentType::Scalar(Scalar::hex(64))),
        name => {
            let scalar = Scalar::ALL.into_iter().find(|scalar| scalar.name() == name);
            scalar.map(ArgumentType::Scalar).ok_or_else(|| {
                format!(
                    "`{name}` is not a type of an argument; give i8 to i64, u8 to u64, x8 to x64, f32, f64, bool, \
                     ptr, str"
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types() {
        let list = arguments("path: str, flags:x32 ,at: ptr").expect("right");
        let expected = [
            ("path", ArgumentType::Text),
            ("flags", ArgumentType::Scalar(Scalar::hex(32))),
            ("at", ArgumentType::Scalar(Scalar::hex(64))),
        ];
        assert_eq!(list, expected.map(|(name, ty)| (name.to_owned(), ty)));
        for (wrong, says) in [("a", "NAME: TYPE"), ("a b: i8", "NAME: TYPE"), ("a: text", "not a type")] {
            let told = arguments(wrong).expect_err(wrong);
            assert!(told.contains(says), "{wrong}: {told}");
        }
    }
}
