//! Differences of paths, as people read them.

use mote_hardware::paths::Difference;
use mote_words::{fitted, grouped};

/// Columns of a path.
const PATH: usize = 100;

/// `+1,234`
pub(super) fn signed(number: i128) -> String {
    let size = u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX);
    match number {
        0 => "0".to_owned(),
        1.. => format!("+{}", grouped(size)),
        _ => format!("-{}", grouped(size)),
    }
}

/// As much of the end of a path as fits in a line.
pub(super) fn path(one: &Difference) -> String {
    let mut shown = String::new();
    for named in one.path.iter().rev() {
        let name = fitted(&named.name, 60);
        if !shown.is_empty() && shown.chars().count() + name.chars().count() > PATH {
            return format!("...;{shown}");
        }
        shown = if shown.is_empty() { name } else { format!("{name};{shown}") };
    }
    shown
}
