//! Padding against false sharing.

use core::ops::Deref;

/// A value alone on its pair of cache lines.
///
/// 128 bytes, because the spatial prefetcher of x86 fetches lines in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
