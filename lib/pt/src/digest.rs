//! A digest of executed instructions, which two parties agree on whatever pieces they look at.
//!
//! It is a polynomial over the instructions' addresses, modulo 2^64: after the addresses a1 .. an it is
//! a1·P^(n-1) + a2·P^(n-2) + .. + an with [`P`] below. Two of them join without the addresses, so that a block's digest
//! is computed once. It finds mistakes; it withstands no adversary.

/// The multiplier: odd, with well mixed bits (the constant of Knuth's multiplicative hash, 2^64 divided by the golden
/// ratio).
pub const P: u64 = 0x9e37_79b9_7f4a_7c15;

/// The digest of a number of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    /// How many instructions.
    pub count: u64,
    /// The polynomial.
    pub value: u64,
    /// P to the power of their number.
    power: u64,
}

impl Default for Digest {
    /// No instruction.
    fn default() -> Digest {
        Digest { count: 0, value: 0, power: 1 }
    }
}

impl Digest {
    /// One more instruction.
    pub fn push(&mut self, address: u64) {
        self.count += 1;
        self.value = self.value.wrapping_mul(P).wrapping_add(address);
        self.power = self.power.wrapping_mul(P);
    }

    /// The instructions of `next` behind those of this one. Costs two multiplications.
    pub fn append(&mut self, next: &Digest) {
        self.count += next.count;
        self.value = self.value.wrapping_mul(next.power).wrapping_add(next.value);
        self.power = self.power.wrapping_mul(next.power);
    }
}

impl FromIterator<u64> for Digest {
    fn from_iter<I: IntoIterator<Item = u64>>(addresses: I) -> Digest {
        let mut digest = Digest::default();
        addresses.into_iter().for_each(|address| digest.push(address));
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_same_digest() {
        let addresses: Vec<u64> = (0..100).map(|i| 0x40_1000 + 3 * i).collect();
        let whole: Digest = addresses.iter().copied().collect();
        for cut in [0, 1, 50, 99, 100] {
            let mut joined: Digest = addresses[..cut].iter().copied().collect();
            joined.append(&addresses[cut..].iter().copied().collect());
            assert_eq!(joined, whole, "{cut}");
        }
    }

    #[test]
    fn order_and_number_matter() {
        let of = |addresses: &[u64]| addresses.iter().copied().collect::<Digest>();
        assert_ne!(of(&[1, 2]).value, of(&[2, 1]).value);
        assert_ne!(of(&[1, 2]).value, of(&[1, 2, 2]).value);
        assert_eq!(of(&[7]).value, 7);
        assert_eq!(of(&[1, 2]).value, P.wrapping_add(2));
    }
}
