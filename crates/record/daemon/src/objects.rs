//! Objects with filters that clang has compiled, as files.

use crate::error::Error;
use std::path::PathBuf;

/// Longest object that is read.
const BYTES_MAX: u64 = 16 << 20;

/// Reads the objects.
///
/// # Errors
/// [`Error::Object`]: what is wrong with one.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Vec<u8>)>, Error> {
    let read = |path: &PathBuf| {
        let failed = |why: String| Error::Object(path.clone(), why);
        let file = std::fs::metadata(path).map_err(|why| failed(why.to_string()))?;
        if !file.is_file() {
            return Err(failed("it is not a regular file".to_owned()));
        }
        if file.len() > BYTES_MAX {
            return Err(failed(format!(
                "it has {} bytes, which is too large for an object with filters",
                file.len()
            )));
        }
        Ok((path.clone(), std::fs::read(path).map_err(|why| failed(why.to_string()))?))
    };
    paths.iter().map(read).collect()
}
