//! Arrays that no index can miss: what runs in a traced process has no panic to reach.
//!
//! A check of an index that cannot fail is left out by the compiler. That it is left out is shown for the linked
//! library by `tests/claims/nothing_aborts.rs`.

use crate::insn::Reg;
use core::ops::{Index, IndexMut};

/// An array whose indexes are taken modulo its length, a power of two.
///
/// Built with `--cfg mote_checked`, as a step of `cargo xtask test` builds the tests, it panics where an index is
/// larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Table<T, const N: usize>(pub [T; N]);

impl<T, const N: usize> Table<T, N> {
    const MASK: usize = {
        assert!(N.is_power_of_two());
        N - 1
    };

    /// The first ones: all of them, when there are not so many.
    pub fn first(&self, count: usize) -> &[T] {
        self.0.get(..count).unwrap_or(&self.0)
    }

    /// As [`Table::first`], to be changed.
    pub fn first_mut(&mut self, count: usize) -> &mut [T] {
        let count = count.min(N);
        self.0.get_mut(..count).unwrap_or_default()
    }

    /// What follows the first `at` ones.
    pub fn rest(&self, at: usize) -> &[T] {
        self.0.get(at..).unwrap_or_default()
    }

    /// As [`Table::rest`], to be changed.
    pub fn rest_mut(&mut self, at: usize) -> &mut [T] {
        self.0.get_mut(at..).unwrap_or_default()
    }

    /// So many from `at` on; none, when there are not so many.
    pub fn part(&self, at: usize, count: usize) -> &[T] {
        self.rest(at).get(..count).unwrap_or_default()
    }
}

const fn check(index: usize, len: usize) {
    #[cfg(mote_checked)]
    assert!(index < len);
    let _ = (index, len);
}

impl<T, const N: usize> Index<usize> for Table<T, N> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        check(index, N);
        #[expect(clippy::indexing_slicing, reason = "masked: below `N`")]
        &self.0[index & Table::<T, N>::MASK]
    }
}

impl<T, const N: usize> IndexMut<usize> for Table<T, N> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        check(index, N);
        #[expect(clippy::indexing_slicing, reason = "masked: below `N`")]
        &mut self.0[index & Table::<T, N>::MASK]
    }
}

/// Something for each register of eBPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ByReg<T>(pub [T; Reg::COUNT]);

impl<T> Index<Reg> for ByReg<T> {
    type Output = T;

    fn index(&self, reg: Reg) -> &T {
        #[expect(clippy::indexing_slicing, reason = "as many as there are registers")]
        &self.0[reg.index()]
    }
}

impl<T> IndexMut<Reg> for ByReg<T> {
    fn index_mut(&mut self, reg: Reg) -> &mut T {
        #[expect(clippy::indexing_slicing, reason = "as many as there are registers")]
        &mut self.0[reg.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_where_the_table_ends() {
        let mut table = Table([1, 2, 3, 4]);
        assert_eq!((table.first(2), table.first(9)), (&[1, 2][..], &[1, 2, 3, 4][..]));
        assert_eq!((table.first_mut(9).len(), table.rest_mut(3).len(), table.rest_mut(9).len()), (4, 1, 0));
        assert_eq!((table.part(1, 2), table.part(3, 2), table.part(9, 0)), (&[2, 3][..], &[][..], &[][..]));
    }

    #[test]
    #[cfg(not(mote_checked))]
    fn an_index_that_is_too_large_comes_round() {
        let mut table = Table([1, 2, 3, 4]);
        table[6] = 30;
        assert_eq!((table[2], table[usize::MAX]), (30, 4));
    }

    #[test]
    fn each_register_has_its_own() {
        let mut table = ByReg([0; Reg::COUNT]);
        for reg in Reg::ALL {
            table[reg] = reg.number();
        }
        assert_eq!(table.0, core::array::from_fn(|at| at as u8));
    }
}
