//! A list that only grows, which any thread reads and adds to without waiting.

use std::sync::atomic::{AtomicPtr, Ordering};

/// Values that live as long as the process, the last one first.
///
/// # Invariants
/// `list-nodes-leaked`: `head` and every `next` are null or come from a leaked `Box`, and what they point to is never
/// changed but for the `next` of a node that is not in the list yet.
pub(crate) struct List<T: 'static> {
    head: AtomicPtr<Node<T>>,
}

struct Node<T: 'static> {
    value: T,
    next: AtomicPtr<Node<T>>,
}

impl<T: Send + Sync + 'static> List<T> {
    /// An empty list.
    pub(crate) const fn new() -> List<T> {
        List { head: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Adds `value` after `prepare` has seen it in its place for ever. Two threads that add equal values both succeed.
    pub(crate) fn push(&self, value: T, prepare: impl FnOnce(&'static T)) -> &'static T {
        let node: &'static Node<T> = Box::leak(Box::new(Node { value, next: AtomicPtr::default() }));
        prepare(&node.value);
        let new = (&raw const *node).cast_mut();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            node.next.store(head, Ordering::Relaxed);
            // Release pairs with the acquire in `at`: a thread that finds the node finds it whole.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return &node.value,
                Err(now) => head = now,
            }
        }
    }

    /// The values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> {
        let mut next = at(&self.head);
        std::iter::from_fn(move || {
            let node = next?;
            next = at(&node.next);
            Some(&node.value)
        })
    }
}

fn at<T>(pointer: &AtomicPtr<Node<T>>) -> Option<&'static Node<T>> {
    // SAFETY: `list-nodes-leaked`.
    unsafe { pointer.load(Ordering::Acquire).cast_const().as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_add_at_once_lose_nothing() {
        static LIST: List<u32> = List::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for i in 0..1000 {
                        LIST.push(thread * 1000 + i, |_| ());
                    }
                });
            }
        });
        let mut all: Vec<u32> = LIST.iter().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..4000).collect::<Vec<_>>());
    }
}
