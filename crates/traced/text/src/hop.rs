//! Whether the gate `Hop` may be used: two bytes of code that others execute are stored at once.
//!
//! AMD promises that a processor fetches the old or the new ones (APM vol. 2, 7.6.1), and Hygon's cores are AMD's. Intel promises nothing (SDM
//! vol. 3, "Handling Self- and Cross-Modifying Code"): there, and wherever else, somebody has to ask for it.

use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicU8, Ordering};

/// Where a short jump may take the place of a breakpoint that would kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hops {
    /// Where the processor's vendor promises that it works. The default.
    Promised = 0,
    /// Everywhere.
    Always = 1,
    /// Nowhere.
    Never = 2,
}

static HOPS: AtomicU8 = AtomicU8::new(Hops::Promised as u8);

/// Sets where sites may be changed by a two-byte store while a breakpoint would kill. Those that may not are refused
/// ([`crate::Refusal::Blocked`]).
pub fn set_hops(hops: Hops) {
    HOPS.store(hops as u8, Ordering::Relaxed);
}

/// Whether the gate may be used.
pub(crate) fn may_hop() -> bool {
    match HOPS.load(Ordering::Relaxed) {
        0 => is_promised(vendor()),
        1 => true,
        _ => false,
    }
}

/// The vendor's name, as CPUID spells it.
fn vendor() -> [u32; 3] {
    let leaf = __cpuid(0);
    [leaf.ebx, leaf.edx, leaf.ecx]
}

fn is_promised(vendor: [u32; 3]) -> bool {
    let name = |text: &[u8; 12]| text.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).eq(vendor);
    name(b"AuthenticAMD") || name(b"HygonGenuine")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_are_known_by_their_registers() {
        let words = |text: &[u8; 12]| {
            let mut words = [0; 3];
            words.iter_mut().zip(text.as_chunks().0).for_each(|(to, word)| *to = u32::from_le_bytes(*word));
            words
        };
        assert!(
            is_promised([0x6874_7541, 0x6974_6e65, 0x444d_4163]),
            "ebx, edx, ecx of AMD's CPUID specification"
        );
        assert!(is_promised(words(b"HygonGenuine")));
        assert!(!is_promised(words(b"GenuineIntel")) && !is_promised([0; 3]));
    }
}
