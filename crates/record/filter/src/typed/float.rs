//! Comparisons of floats without a float unit: bits of floats in an order of integers.
//!
//! The key of a float is its bits, with all but the sign turned round when the sign is set: then keys are ordered as
//! signed integers are, -0 just below 0, and what is no number (NaN) beyond the infinities on either side.

use super::Order;

/// Keys from `low` to `high`, or all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatSet {
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// All others are meant.
    pub(crate) others: bool,
}

/// Key of the bits of a double.
pub(crate) const fn key(bits: u64) -> i64 {
    let bits = bits as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// Key of the bits of a single.
pub(crate) const fn key_of_single(bits: u32) -> i64 {
    let bits = bits as i32;
    (bits ^ (((bits >> 31) as u32) >> 1) as i32) as i64
}

/// Key of the infinity.
const INFINITY: i64 = key(f64::INFINITY.to_bits());
/// Key of the single infinity.
const INFINITY_OF_SINGLE: i64 = key_of_single(f32::INFINITY.to_bits());

impl FloatSet {
    /// The floats that compare so with `value`, which is a number.
    pub(crate) fn compared(order: Order, value: f64, single: bool) -> FloatSet {
        // Greatest key that is less, smallest that is greater.
        let (below, above) = if single { around_single(value) } else { around(value) };
        let infinity = if single { INFINITY_OF_SINGLE } else { INFINITY };
        let lowest = -infinity - 1;
        let set = |low, high| FloatSet { low, high, others: false };
        match order {
            Order::Eq => set(below + 1, above - 1),
            Order::Ne => FloatSet { others: true, ..set(below + 1, above - 1) },
            Order::Lt => set(lowest, below),
            Order::Le => set(lowest, above - 1),
            Order::Gt => set(above, infinity),
            Order::Ge => set(below + 1, infinity),
        }
    }

    /// All numbers that are not in the set.
    pub(crate) fn opposite(self) -> FloatSet {
        FloatSet { others: !self.others, ..self }
    }

    /// Whether a key is in it.
    pub(crate) fn contains(&self, key: i64) -> bool {
        (self.low..=self.high).contains(&key) != self.others
    }
}

fn around(value: f64) -> (i64, i64) {
    if value == 0.0 {
        return (-2, 1);
    }
    let key = key(value.to_bits());
    (key - 1, key + 1)
}

fn around_single(value: f64) -> (i64, i64) {
    let single = value as f32;
    let key = key_of_single(single.to_bits());
    if single == 0.0 && value == 0.0 {
        return (-2, 1);
    }
    match f64::from(single).total_cmp(&value) {
        std::cmp::Ordering::Equal => (key - 1, key + 1),
        // Rounded up, or down: nothing is equal. Zeros count as one.
        std::cmp::Ordering::Greater if single == 0.0 => (-2, -1),
        std::cmp::Ordering::Greater => (key - 1, key),
        std::cmp::Ordering::Less if single == 0.0 => (0, 1),
        std::cmp::Ordering::Less => (key, key + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [Order; 6] = [Order::Eq, Order::Ne, Order::Lt, Order::Le, Order::Gt, Order::Ge];

    fn holds(order: Order, a: f64, b: f64) -> bool {
        match order {
            Order::Eq => a == b,
            Order::Ne => a != b,
            Order::Lt => a < b,
            Order::Le => a <= b,
            Order::Gt => a > b,
            Order::Ge => a >= b,
        }
    }

    #[test]
    fn keys_compare_as_floats_do() {
        let mut values =
            vec![0.0, 1e-46, 1.0, 1.5, 0.1, 1e300, 3.4e38, 3.5e38, 16_777_217.0, f64::MIN_POSITIVE, 5e-324];
        values.extend([f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE), f64::MAX, 1e-45]);
        values.extend(values.clone().iter().map(|value| -value));
        let constants = values.clone();
        values.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN]);
        for &value in &values {
            for &constant in &constants {
                for order in ORDERS {
                    let set = FloatSet::compared(order, constant, false);
                    assert_eq!(
                        set.contains(key(value.to_bits())),
                        holds(order, value, constant),
                        "{value} {order:?} {constant}"
                    );
                    let single = value as f32;
                    let set = FloatSet::compared(order, constant, true);
                    let expected = holds(order, f64::from(single), constant);
                    assert_eq!(
                        set.contains(key_of_single(single.to_bits())),
                        expected,
                        "{single} {order:?} {constant}"
                    );
                }
            }
        }
    }
}
