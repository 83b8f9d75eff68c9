//! What is said when a recording has ended.

use mote_capture::IN_RECORDING;
use mote_daemon::{KernelRecorded, Recorded};
use mote_journal::Summary;
use mote_words::{counted, counted_grouped, grouped, size};

/// Most providers that the summary lists.
const PROVIDERS_MAX: usize = 12;

/// One screen that says what the recording came to.
pub(super) fn summary(recorded: &Recorded, only_counts: bool) -> String {
    let sum = &recorded.summary;
    // A rule may have been added while it ran.
    let is_empty = |kernel: &KernelRecorded| kernel.summary.total() == kernel.summary.state();
    let is_empty = sum.total() == 0
        && recorded.kernel.as_ref().is_none_or(is_empty)
        && recorded.profile.as_ref().is_none_or(|profile| profile.total() == 0)
        && recorded.hardware.is_none();
    let only_counts = only_counts && is_empty;
    let mut page = Page(format!(
        "\n{} {} in {:.3} s\n",
        if only_counts { "counted into" } else { "recorded" },
        recorded.directory.display(),
        sum.duration_ns as f64 / 1e9
    ));
    // Without a command there are no processes of ours.
    let has_others = recorded.kernel.is_some() || recorded.profile.is_some() || recorded.hardware.is_some();
    let kernel_only = has_others && sum.processes == 0 && sum.total() == 0;
    if only_counts {
        if sum.processes > 0 {
            page.row("processes", format!("{} with mote events", sum.processes));
        }
    } else if !kernel_only {
        page.events("events", sum);
        page.row(
            "processes",
            format!("{}, with {} that had events", sum.processes, counted(sum.threads, "thread", "threads")),
        );
    }
    if let Some(kernel) = recorded.kernel.as_ref().filter(|_| !only_counts) {
        page.kernel(kernel);
    }
    if let Some(profile) = &recorded.profile {
        page.events("samples", profile);
        let threads = counted(profile.threads, "thread", "threads");
        page.row("", format!("of {threads} of {}", counted(profile.processes, "process", "processes")));
    }
    page.hardware(recorded);
    if !super::is_lossy(recorded) {
        let lost = if recorded.problems.is_empty() {
            "none"
        } else {
            "no counted event; some may be missing all the same, see the problems above"
        };
        page.row("lost", lost.to_owned());
    }
    page.lost(sum, "");
    if let Some(kernel) = &recorded.kernel {
        page.lost(&kernel.summary, "kernel events, ");
    }
    if let Some(profile) = &recorded.profile {
        page.lost(profile, "samples, ");
    }
    if sum.processes == 0 && !has_others {
        page.row(
            "note",
            "no process carried mote events; `mote list CMD` shows what a program carries".to_owned(),
        );
    }
    match sum.status {
        Some(0) | None => {}
        Some(status) => page.row("status", format!("the command ended with {status}")),
    }
    page.look(recorded, only_counts);
    page.0
}

/// The text so far.
struct Page(String);

impl Page {
    fn row(&mut self, name: &str, text: String) {
        self.0.push_str(&format!("  {name:<10} {text}\n"));
    }

    /// What the hardware trace came to.
    fn hardware(&mut self, recorded: &Recorded) {
        let Some(hardware) = &recorded.hardware else { return };
        let bytes = counted_grouped(hardware.summary.bytes, "byte of packets", "bytes of packets");
        self.row("hardware", format!("{bytes} in {}", recorded.directory.join(IN_RECORDING).display()));
        hardware.missing.iter().for_each(|missing| self.row("", missing.clone()));
    }

    /// What to do next.
    fn look(&mut self, recorded: &Recorded, only_counts: bool) {
        // It may have been removed meanwhile.
        if recorded.directory.exists() {
            let directory = recorded.directory.display();
            self.row(
                "look",
                match only_counts {
                    true => format!("mote report {directory}"),
                    false => {
                        format!("mote view {directory}   mote report {directory}   babeltrace2 {directory}")
                    }
                },
            );
            if recorded.hardware.is_some() {
                self.row("", format!("mote view --pt {directory}   mote pt calls {directory}"));
            }
        }
    }

    /// Events, by provider, and their size.
    fn events(&mut self, title: &str, sum: &Summary) {
        let events = sum.total() - sum.state();
        let rate = grouped((events as f64 / (sum.duration_ns as f64 / 1e9).max(1e-9)) as u64);
        self.row(title, format!("{}  ({rate}/s)", grouped(events)));
        let providers = providers(sum).into_iter().filter(|(provider, ..)| *provider != mote_journal::STATE);
        for (provider, count, names) in providers.take(PROVIDERS_MAX) {
            let kinds = counted(names, "kind", "kinds");
            self.row("", format!("{:>14}  {provider} ({kinds})", grouped(count)));
        }
        let packets = counted_grouped(sum.packets, "packet", "packets");
        self.row("size", format!("{} in {packets}", size(sum.bytes)));
        if sum.overwritten_bytes > 0 {
            let bytes = size(sum.overwritten_bytes);
            self.row("flight", format!("{bytes} of older events were overwritten (--mode overwrite)"));
        }
    }

    fn kernel(&mut self, kernel: &KernelRecorded) {
        self.events("kernel", &kernel.summary);
        if kernel.summary.state() > 0 {
            let records = counted_grouped(kernel.summary.state(), "record", "records");
            self.row("state", format!("{records} of the system's state at the start (mote view --state)"));
        }
        self.row(
            "threads",
            format!(
                "{} of {}",
                kernel.summary.threads,
                counted(kernel.summary.processes, "process", "processes")
            ),
        );
        if !kernel.silent.is_empty() {
            self.row("", format!("no events of {}", kernel.silent.join(", ")));
        }
        if kernel.summary.empty_texts > 0 {
            let texts = counted_grouped(kernel.summary.empty_texts, "text", "texts");
            self.row("EMPTY", format!("{texts} {}", mote_journal::EMPTY_TEXTS));
        }
    }

    fn lost(&mut self, sum: &Summary, whose: &str) {
        for (cause, count) in &sum.lost {
            let events = counted_grouped(*count, "event", "events");
            self.row("LOST", format!("{whose}{events}, {cause}: {}", advice(cause)));
        }
        if sum.lost_unknown > 0 {
            let advice = mote_journal::UNKNOWN_LOSS_ADVICE;
            self.row("LOST", format!("{whose}an unknown number of events: {advice}"));
        }
    }
}

/// Providers with their events and kinds of events, most events first.
fn providers(summary: &Summary) -> Vec<(&str, u64, usize)> {
    let mut sums: std::collections::BTreeMap<&str, (u64, usize)> = Default::default();
    for (name, count) in &summary.events {
        let provider = name.split_once(':').map_or(name.as_str(), |(provider, _)| provider);
        let sum = sums.entry(provider).or_default();
        *sum = (sum.0 + count, sum.1 + 1);
    }
    let mut list: Vec<_> =
        sums.into_iter().map(|(provider, (count, names))| (provider, count, names)).collect();
    list.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    list
}

fn advice(cause: &str) -> &'static str {
    let known = mote_loss::Cause::ALL.into_iter().find(|known| known.name() == cause);
    let of_kernel = || mote_journal::kernel_loss_advice(cause);
    known
        .map(mote_loss::Cause::advice)
        .or_else(of_kernel)
        .unwrap_or("the recording could not be written, or was removed")
}
