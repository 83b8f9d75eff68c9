//! Events on their way to the processes that have announced them: no id is told before metadata and journal have it.

/// The ids of events that are not published.
#[derive(Default)]
pub(crate) struct Unpublished {
    /// Announced in this round, and not decided about.
    announced: Vec<u32>,
    /// Decided about; metadata and journal do not have them yet.
    decided: Vec<u32>,
}

impl Unpublished {
    /// An event was announced that is new.
    pub(crate) fn announce(&mut self, id: u32) {
        self.announced.push(id);
    }

    /// Those that are to be decided about now.
    pub(crate) fn take_announced(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.announced)
    }

    /// Events were decided about.
    pub(crate) fn decided(&mut self, ids: Vec<u32>) {
        self.decided.extend(ids);
    }

    /// Those that are to be published now.
    pub(crate) fn take_decided(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.decided)
    }
}
