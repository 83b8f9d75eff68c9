//! The bytes of placeholders.

use crate::arch;
use crate::error::Error;
use mote_probelist::Placeholder;

/// Makes NOPs of the placeholders' calls and jumps, in the bytes of their file. Nothing else is changed; of those that
/// do nothing already, nothing at all.
///
/// # Errors
/// A placeholder is not in the file; then what was changed before stays so.
pub fn patch(bytes: &mut [u8], placeholders: &[Placeholder]) -> Result<(), Error> {
    for Placeholder { offset, size, was, .. } in placeholders {
        let outside = || Error::Outside { offset: *offset };
        let begin = usize::try_from(*offset).map_err(|_| outside())?;
        let size = usize::try_from(*size).map_err(|_| outside())?;
        let end = begin.checked_add(size).ok_or_else(outside)?;
        let place = bytes.get_mut(begin..end).ok_or_else(outside)?;
        if let Some(replacement) = arch::replacement(*was, size) {
            place.copy_from_slice(&replacement);
        }
    }
    Ok(())
}
