//! What came of some rounds.

/// Sums over rounds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub rounds: u64,
    /// Records that were read and checked.
    pub events: u64,
    /// Records that were emitted.
    pub emitted: u64,
    /// Records that were counted as lost, torn ones too.
    pub lost_counted: u64,
    /// Of these, the ones next to a record whose writer was killed in it.
    pub torn: u64,
    /// Bytes that were overwritten unread.
    pub overwritten: u64,
    /// Handlers that wrote while their thread was writing.
    pub nested: u64,
    pub kills: u64,
    /// Records in which their writer was killed.
    pub killed_inside: u64,
    pub violations: u64,
    /// Of the first violations, what they were.
    pub messages: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.rounds += other.rounds;
        self.events += other.events;
        self.emitted += other.emitted;
        self.lost_counted += other.lost_counted;
        self.torn += other.torn;
        self.overwritten += other.overwritten;
        self.nested += other.nested;
        self.kills += other.kills;
        self.killed_inside += other.killed_inside;
        self.violations += other.violations;
        let room = 16usize.saturating_sub(self.messages.len());
        self.messages.extend(other.messages.iter().take(room).cloned());
    }
}
