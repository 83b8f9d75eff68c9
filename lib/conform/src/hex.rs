//! Bytes as text: pairs of hexadecimal digits, with white space anywhere between.

/// Why a text is no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HexError {
    /// This character, at this place from 1, is no hexadecimal digit.
    Digit(char, usize),
    /// The number of digits is odd.
    Odd,
}

impl std::fmt::Display for HexError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HexError::Digit(found, at) => {
                write!(f, "character {at} is `{}`, not a hexadecimal digit", found.escape_default())
            }
            HexError::Odd => write!(f, "the number of hexadecimal digits is odd"),
        }
    }
}

impl std::error::Error for HexError {}

/// The bytes of a text.
///
/// # Errors
/// [`HexError`].
pub fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::new();
    let mut high = None;
    for (at, found) in (1..).zip(text.chars()).filter(|(_, found)| !found.is_whitespace()) {
        let digit = found.to_digit(16).ok_or(HexError::Digit(found, at))? as u8;
        match high.take() {
            None => high = Some(digit << 4),
            Some(high) => bytes.push(high | digit),
        }
    }
    if high.is_some() { Err(HexError::Odd) } else { Ok(bytes) }
}

/// The text of bytes, without spaces.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_through() {
        assert_eq!(decode(" 0a\tB1\n c 2"), Ok(vec![0x0a, 0xb1, 0xc2]));
        assert_eq!(decode(""), Ok(vec![]));
        assert_eq!(decode("abc"), Err(HexError::Odd));
        assert_eq!(decode("ab 0x"), Err(HexError::Digit('x', 5)));
        assert_eq!(encode(&[0, 255]), "00ff");
    }
}
