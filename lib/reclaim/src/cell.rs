//! A value that readers see whole while it is replaced.

use crate::worker;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use mote_rcu::{Flavor, Guard, Head, Library, Pointer, Qsbr, Thread};

/// A published value, and what queues it when it is retired.
#[repr(C)]
struct Node<T> {
    head: Head,
    value: T,
}

/// A value of type `T` that readers of flavour `F` dereference while updaters replace it.
///
/// ```
/// use mote_reclaim::{Library, Rcu, library};
/// static LIMITS: std::sync::LazyLock<Rcu<(u32, u32)>> = std::sync::LazyLock::new(|| Rcu::new((1, 2)));
/// let guard = library::read();
/// let limits = LIMITS.dereference(&guard);
/// LIMITS.assign((3, 4)); // the old pair is freed after a grace period
/// assert_eq!(*limits, (1, 2));
/// assert_eq!(*LIMITS.dereference(&guard), (3, 4));
/// ```
pub struct Rcu<T, F: Flavor = Library> {
    /// Never null; each node came from a box.
    pointer: Pointer<Node<T>>,
    owns: PhantomData<*mut T>,
    flavor: PhantomData<fn() -> F>,
}

// SAFETY: it owns a `T` and hands out `&T` and, from `swap`, `T` itself.
unsafe impl<T: Send + Sync, F: Flavor> Send for Rcu<T, F> {}
// SAFETY: as above; updates are atomic.
unsafe impl<T: Send + Sync, F: Flavor> Sync for Rcu<T, F> {}

/// A value that was replaced, and that readers may still look at. When it is dropped, it is freed after a grace period.
pub struct Retired<T: Send + Sync + 'static, F: Flavor> {
    node: NonNull<Node<T>>,
    flavor: PhantomData<fn() -> F>,
}

// SAFETY: it owns a `T` that others may have `&T` of.
unsafe impl<T: Send + Sync, F: Flavor> Send for Retired<T, F> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, F: Flavor> Sync for Retired<T, F> {}

impl<T, F: Flavor> Rcu<T, F> {
    /// A cell with `value` in it, which the first reader sees.
    pub fn new(value: T) -> Rcu<T, F> {
        Rcu { pointer: Pointer::new(boxed(value).as_ptr()), owns: PhantomData, flavor: PhantomData }
    }

    /// The value now, for as long as the section lasts. Wait-free.
    #[inline(always)]
    pub fn dereference<'g>(&'g self, _guard: &'g Guard<'_, F>) -> &'g T {
        let node = self.pointer.load();
        // SAFETY:
        // 1. never null, and initialised before it was published (Pointer's ordering);
        // 2. a node that is replaced is kept until a grace period of `F` is over, or until `self` has no borrowers.
        unsafe { &(*node).value }
    }

    /// The value, for a caller that has the only access.
    pub fn get_mut(&mut self) -> &mut T {
        let node = self.pointer.load();
        // SAFETY: `cell-never-null`; `&mut self` means no readers and no updaters.
        unsafe { &mut (*node).value }
    }
}

impl<T: Send + Sync + 'static, F: Flavor> Rcu<T, F> {
    /// Publishes `value`; the one before is freed after a grace period. See [`defer`](crate::defer) for what that may
    /// cost.
    pub fn assign(&self, value: T) {
        drop(self.swap(value));
    }

    /// Publishes `value` and gives the one before.
    ///
    /// # Cost
    /// An allocation and an exchange.
    pub fn swap(&self, value: T) -> Retired<T, F> {
        // SAFETY: only non-null pointers are stored; the swap makes the old one ours to retire, once.
        let node = unsafe { NonNull::new_unchecked(self.pointer.swap(boxed(value).as_ptr())) };
        Retired { node, flavor: PhantomData }
    }

    /// Publishes `value` if the value now is the very object `expected`, which the guard keeps from being another at
    /// the same address.
    ///
    /// # Errors
    /// Gives `value` back when it is not.
    pub fn compare_exchange(
        &self,
        expected: &T,
        value: T,
        _guard: &Guard<'_, F>,
    ) -> Result<Retired<T, F>, T> {
        let now = self.pointer.load();
        // SAFETY: `cell-never-null`, kept by the guard; only the field's address is taken.
        let value_now = unsafe { &raw const (*now).value };
        if !core::ptr::eq(value_now, expected) {
            return Err(value);
        }
        let new = boxed(value);
        match self.pointer.compare_exchange(now, new.as_ptr()) {
            // SAFETY: `cell-never-null`, and ours to retire.
            Ok(old) => Ok(Retired { node: unsafe { NonNull::new_unchecked(old) }, flavor: PhantomData }),
            // SAFETY: never published.
            Err(_) => Err(unsafe { Box::from_raw(new.as_ptr()) }.value),
        }
    }

    /// Replaces the value by what `change` makes of it, again if another thread was faster. Lock-free.
    pub fn update(&self, guard: &Guard<'_, F>, mut change: impl FnMut(&T) -> T) -> Retired<T, F> {
        loop {
            let now = self.dereference(guard);
            if let Ok(old) = self.compare_exchange(now, change(now), guard) {
                return old;
            }
        }
    }
}

impl<T, F: Flavor> Drop for Rcu<T, F> {
    fn drop(&mut self) {
        // SAFETY: `cell-never-null`, from a box; `&mut self` means that no reader has a borrow.
        drop(unsafe { Box::from_raw(self.pointer.load()) });
    }
}

impl<T: Send + Sync + 'static, F: Flavor> Retired<T, F> {
    /// Waits for a grace period and gives the value. As [`synchronize`](mote_rcu::synchronize), not inside a read
    /// section.
    pub fn synchronize(self) -> T {
        mote_rcu::synchronize::<F>();
        self.take()
    }

    /// Waits for one grace period for all of them, and gives the values; those that are not taken are freed as by
    /// dropping `Retired`. As [`synchronize`](mote_rcu::synchronize), not inside a read section.
    ///
    /// ```
    /// use mote_reclaim::{Rcu, Retired};
    /// let cell: Rcu<u32> = Rcu::new(0);
    /// let mut old: Vec<_> = (1..=3).map(|number| cell.swap(number)).collect();
    /// assert_eq!(Retired::synchronize_all(&mut old).collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn synchronize_all(all: &mut Vec<Retired<T, F>>) -> impl Iterator<Item = T> {
        mote_rcu::synchronize::<F>();
        all.drain(..).map(Retired::take)
    }

    /// The value, whose grace period is over.
    fn take(self) -> T {
        let node = self.node;
        core::mem::forget(self);
        // SAFETY: from a box, owned by us; no reader has it any more.
        unsafe { Box::from_raw(node.as_ptr()) }.value
    }
}

impl<T: Send + Sync + 'static> Retired<T, Qsbr> {
    /// Waits for a grace period, with the calling thread offline, and gives the value.
    pub fn synchronize_offline(self, thread: &mut Thread<Qsbr>) -> T {
        thread.synchronize();
        self.take()
    }
}

impl<T: Send + Sync + 'static, F: Flavor> Deref for Retired<T, F> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: valid until we free it.
        unsafe { &(*self.node.as_ptr()).value }
    }
}

impl<T: Send + Sync + 'static, F: Flavor> Drop for Retired<T, F> {
    fn drop(&mut self) {
        // SAFETY: the node is unpublished and ours; `free` may run on any thread, as `T` is `Send`.
        unsafe { worker::call::<F>(self.node.cast(), free::<T>) };
    }
}

fn boxed<T>(value: T) -> NonNull<Node<T>> {
    NonNull::from(Box::leak(Box::new(Node { head: Head::new(), value })))
}

/// Frees a node.
///
/// # Safety
/// `head` is the first field of a boxed `Node<T>` that no thread uses any more.
unsafe fn free<T>(head: NonNull<Head>) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(head.cast::<Node<T>>().as_ptr()) });
}

impl<T: fmt::Debug + Send + Sync + 'static, F: Flavor> fmt::Debug for Retired<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retired").field(&**self).finish()
    }
}

impl<T, F: Flavor> fmt::Debug for Rcu<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rcu").finish_non_exhaustive()
    }
}
