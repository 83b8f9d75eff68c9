//! Events that are times without a CPU (`mote profile --off-cpu`).

use mote_timeline::Record;

/// Name of the event, and of the field that says how long it was.
const NAME: &str = "profile_off_cpu";
const DURATION: &str = "duration";

/// Tells them from others, by their classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffCpu {
    classes: Vec<Option<bool>>,
}

impl OffCpu {
    /// How long a time without a CPU was, in nanoseconds; `None` of another event.
    #[inline]
    pub(crate) fn duration(&mut self, record: &Record<'_>) -> Option<u64> {
        let class = record.class().0 as usize;
        if class >= self.classes.len() {
            self.classes.resize(class + 1, None);
        }
        let known = self.classes.get_mut(class)?;
        if !*known.get_or_insert_with(|| record.name() == NAME) {
            return None;
        }
        let duration = record.event().and_then(|event| event.payload().integer(DURATION));
        Some(duration.and_then(|duration| u64::try_from(duration).ok()).unwrap_or(0))
    }
}
