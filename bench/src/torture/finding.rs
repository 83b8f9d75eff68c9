//! What a torture has found.

/// What one part of a torture has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finding {
    /// Scenario and its variants, as `scenario/writer/mode`.
    pub(crate) case: String,
    /// How often something happened that must not.
    pub(crate) violations: u64,
    /// What was checked: records read, sections, passes through sites.
    pub(crate) events: u64,
    /// Records that were counted as lost; `None` where nothing can be lost.
    pub(crate) lost_counted: Option<u64>,
    /// More of it, for people.
    pub(crate) details: String,
    /// What the first violations were.
    pub(crate) messages: Vec<String>,
}

/// Adds up the parts.
pub(super) fn add(sum: &mut Finding, part: &Finding) {
    sum.violations += part.violations;
    sum.events += part.events;
    if let Some(lost) = part.lost_counted {
        *sum.lost_counted.get_or_insert(0) += lost;
    }
}
