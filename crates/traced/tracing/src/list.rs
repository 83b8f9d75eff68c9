//! A list of values that only grows, which any thread reads and adds to without waiting.

use mote_sync::{Listed, Next};

/// Values that live as long as the process, the last one first.
pub(crate) struct List<T: Send + Sync + 'static>(mote_sync::List<Node<T>>);

struct Node<T> {
    value: T,
    next: Next<Node<T>>,
}

impl<T: Send + Sync + 'static> Listed for Node<T> {
    fn next(&self) -> &Next<Node<T>> {
        &self.next
    }
}

impl<T: Send + Sync + 'static> List<T> {
    /// An empty list.
    pub(crate) const fn new() -> List<T> {
        List(mote_sync::List::new())
    }

    /// Adds `value` after `prepare` has seen it in its place for ever. Two threads that add equal values both succeed.
    pub(crate) fn push(&self, value: T, prepare: impl FnOnce(&'static T)) -> &'static T {
        let node: &'static Node<T> = Box::leak(Box::new(Node { value, next: Next::new() }));
        prepare(&node.value);
        self.0.add(node);
        &node.value
    }

    /// The values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.0.iter().map(|node| &node.value)
    }
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
