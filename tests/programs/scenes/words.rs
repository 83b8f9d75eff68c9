//! What every scene has: the words of its command line, and how long it waits.

use std::time::Duration;

/// How long a scene waits for what a recorder does to it, at most: longer than the most busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The words after the scene's name.
pub(crate) struct Words(pub(crate) Vec<String>);

impl Words {
    pub(crate) fn text(&self, index: usize) -> &str {
        self.0.get(index).map_or("", String::as_str)
    }

    pub(crate) fn number(&self, index: usize) -> u64 {
        self.text(index).parse().unwrap_or_else(|_| panic!("word {index} of {:?} is no number", self.0))
    }
}
