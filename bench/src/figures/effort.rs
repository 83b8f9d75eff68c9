//! How long benchmarks may take.

/// How long a benchmark may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// Ends within 20 seconds, with rough figures.
    Quick,
    /// As long as good figures need.
    Full,
}

impl Effort {
    /// The value for this effort.
    pub(super) fn choose<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}
