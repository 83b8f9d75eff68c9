//! Loops that use up no packet: no processor would stay in them without writing one.

/// The longest way without a packet, in visits: more than any program has that runs. A visit is of 1 to 128 blocks.
const VISITS_MAX: u32 = 1 << 12;

/// What was visited since the last packet. A loop is found by Brent's method (BIT 20, 1980): one visit is remembered,
/// for twice as long each time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stuck {
    remembered: Option<u64>,
    /// Visits until the next one is remembered.
    left: u32,
    visits: u32,
}

impl Stuck {
    /// Notes that the flow is at an address, which decides where it goes next; true when it was there before.
    pub(super) fn visit(&mut self, address: u64) -> bool {
        if self.remembered == Some(address) || self.visits == VISITS_MAX {
            return true;
        }
        if self.left == 0 {
            self.remembered = Some(address);
            self.left = self.visits + 1;
        }
        self.visits += 1;
        self.left -= 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way of `before` places that ends in a loop of `period`.
    fn visits_until_found(before: u32, period: u32) -> u32 {
        let mut stuck = Stuck::default();
        let place = |step| if step < before { step } else { before + (step - before) % period };
        (0..).find(|&step| stuck.visit(u64::from(place(step)))).unwrap_or(u32::MAX)
    }

    #[test]
    fn loops_are_found() {
        for before in [0, 1, 2, 5, 100] {
            for period in [1, 2, 3, 64, 500] {
                let visits = visits_until_found(before, period);
                assert!(visits >= before + period, "{before} {period} {visits}");
                assert!(visits <= 4 * (before + period), "{before} {period} {visits}");
            }
        }
        assert_eq!(visits_until_found(u32::MAX, 1), VISITS_MAX);
    }
}
