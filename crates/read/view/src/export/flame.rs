//! A flame graph as one SVG file, to be searched and zoomed in a browser.
//!
//! Counted stacks become a tree whose nodes are rectangles: as wide as the share of events that went through them,
//! callers below what they called. Where no event has a stack, calls of functions become the tree, as wide as their
//! time. A click zooms to a function, a search (Ctrl-F) marks all that match a regular expression and says which share
//! they are. What the file needs for that is in it (`flame.js`); without scripts it is a picture with titles.
//!
//! # Cost
//! Rectangles that would be narrower than [`NARROWEST`] of the width are left out.

use crate::folded::Folded;
use crate::table::duration;
use crate::{Format, Stacks};
use mote_timeline::{LossRecord, Record, Trace};
use mote_words::counted;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of the picture, and height of a row, in pixels.
const WIDTH: f64 = 1200.0;
const ROW: usize = 17;
/// Rows above and below the graph.
const MARGIN: usize = 40;
/// Share of all events that a rectangle has at least: below a quarter of a pixel nothing is seen.
const NARROWEST: f64 = 0.25 / WIDTH;
/// Width of a letter, for texts that have to fit.
const LETTER: f64 = 6.6;

/// A function in the tree, with those that it called.
#[derive(Debug, Default)]
struct Node {
    count: u64,
    inner: BTreeMap<String, Node>,
}

impl Node {
    /// The tree of lines `a;b;c` and how often each came.
    fn of<'l>(lines: impl IntoIterator<Item = (&'l str, u64)>) -> Node {
        let mut root = Node::default();
        for (line, count) in lines {
            root.count += count;
            let mut node = &mut root;
            for function in line.split(';') {
                node = node.inner.entry(function.to_owned()).or_default();
                node.count += count;
            }
        }
        root
    }
}

/// A rectangle: in which row, from where to where as shares of the whole.
#[derive(Clone, Debug, PartialEq)]
struct Frame {
    row: usize,
    from: f64,
    to: f64,
    name: String,
    count: u64,
}

/// Lays the tree out, not by recursion: how deep stacks are is the program's affair.
fn frames(root: &Node) -> Vec<Frame> {
    let all = root.count.max(1) as f64;
    let mut frames = Vec::new();
    let mut waiting: Vec<(usize, f64, &str, &Node)> = vec![(0, 0.0, "all", root)];
    while let Some((row, from, name, node)) = waiting.pop() {
        let to = from + node.count as f64 / all;
        if to - from < NARROWEST {
            continue;
        }
        frames.push(Frame { row, from, to, name: name.to_owned(), count: node.count });
        let mut at = from;
        for (name, inner) in &node.inner {
            waiting.push((row + 1, at, name, inner));
            at += inner.count as f64 / all;
        }
    }
    frames
}

/// Counts stacks, and ends as a flame graph.
pub struct FlameGraph<'s> {
    folded: Folded<'s>,
    title: String,
}

impl<'s> FlameGraph<'s> {
    /// Counts the stacks that `stacks` reads, or sums up the calls of `trace` where there are none; the picture is
    /// called `title`.
    #[must_use]
    pub fn new(trace: &Trace, stacks: &'s mut Stacks, title: &str) -> FlameGraph<'s> {
        FlameGraph { folded: Folded::new(stacks).or_calls(trace), title: title.to_owned() }
    }

    /// The same of times without a CPU only.
    #[must_use]
    pub fn of_off_cpu(self) -> FlameGraph<'s> {
        FlameGraph { folded: self.folded.of_off_cpu(), ..self }
    }
}

impl Format for FlameGraph<'_> {
    fn event(&mut self, _out: &mut Vec<u8>, record: &Record<'_>) {
        self.folded.add(record);
    }

    fn loss(&mut self, _out: &mut Vec<u8>, _loss: &LossRecord<'_>) {}

    fn end(&mut self, out: &mut Vec<u8>) {
        let unit = if self.folded.finish() { duration } else { events };
        let root = Node::of(self.folded.counts());
        out.extend_from_slice(svg(&self.title, &root, unit).as_bytes());
    }
}

/// A flame graph of lines `a;b;c`, each with what it is to count, as one SVG file; `unit` says what that is.
#[must_use]
pub fn flames<'l>(
    title: &str,
    lines: impl IntoIterator<Item = (&'l str, u64)>,
    unit: impl Fn(u64) -> String,
) -> String {
    svg(title, &Node::of(lines), unit)
}

/// A number with what it counts.
fn events(count: u64) -> String {
    counted(count, "event", "events")
}

/// The picture; `unit` says what its numbers are.
fn svg(title: &str, root: &Node, unit: impl Fn(u64) -> String) -> String {
    let frames = frames(root);
    let rows = frames.iter().map(|frame| frame.row + 1).max().unwrap_or(1);
    let height = rows * ROW + 2 * MARGIN;
    let mut out = String::new();
    let _ = write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <style>rect {{ stroke: #fff; stroke-width: .5 }} .found rect {{ fill: #c3f }} \
         .around rect {{ opacity: .5 }} g.frame {{ cursor: pointer }} text {{ pointer-events: none }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fdfdf8\"/>\n\
         <text x=\"{}\" y=\"24\" text-anchor=\"middle\" font-size=\"16\">{}</text>\n\
         <text id=\"details\" x=\"10\" y=\"{}\"> </text>\n\
         <text id=\"found\" x=\"{}\" y=\"{}\" text-anchor=\"end\"> </text>\n\
         <g id=\"frames\" data-events=\"{}\">\n",
        WIDTH / 2.0,
        escaped(title),
        height - 12,
        WIDTH - 10.0,
        height - 12,
        root.count,
    );
    for frame in &frames {
        let y = height - MARGIN - (frame.row + 1) * ROW;
        let (x, width) = (frame.from * WIDTH, (frame.to - frame.from) * WIDTH);
        let share = 100.0 * (frame.to - frame.from);
        let name = escaped(&frame.name);
        let _ = writeln!(
            out,
            "<g class=\"frame\" data-from=\"{:.7}\" data-to=\"{:.7}\" data-row=\"{}\" data-name=\"{name}\">\
             <title>{name} ({}, {share:.2} %)</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{ROW}\" fill=\"{}\"/>\
             <text x=\"{:.2}\" y=\"{}\">{}</text></g>",
            frame.from,
            frame.to,
            frame.row,
            unit(frame.count),
            colour(&frame.name),
            x + 3.0,
            y + 12,
            escaped(&fitting(&frame.name, width)),
        );
    }
    let _ = write!(
        out,
        "</g>\n<script type=\"text/ecmascript\"><![CDATA[\n{}]]></script>\n</svg>\n",
        include_str!("flame.js")
    );
    out
}

/// As much of a name as fits.
fn fitting(name: &str, width: f64) -> String {
    let letters = ((width - 6.0) / LETTER).max(0.0) as usize;
    match name.chars().count() {
        count if count <= letters => name.to_owned(),
        _ if letters < 4 => String::new(),
        _ => name.chars().take(letters - 2).chain("..".chars()).collect(),
    }
}

/// A colour that stays the same for a name: warm for functions of programs, cold for those of the kernel.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte));
    let (hue, light) = (hash % 40, 62 + hash / 40 % 14);
    let hue = if name.ends_with("_[k]") { 190 + hue } else { 10 + hue };
    format!("hsl({hue},85%,{light}%)")
}

/// A text in XML. Control characters are no characters of XML 1.0.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [(&str, u64); 3] = [("t;main;a", 6), ("t;main;b<&>;c", 3), ("t;main", 1)];

    #[test]
    fn a_rectangle_is_as_wide_as_its_share() {
        let frames = frames(&Node::of(LINES));
        let frame = |name: &str| frames.iter().find(|frame| frame.name == name).expect(name);
        let of = |name: &str| (frame(name).row, frame(name).count, (frame(name).to * 10.0).round());
        assert_eq!(of("all"), (0, 10, 10.0));
        assert_eq!(of("main"), (2, 10, 10.0));
        assert_eq!(of("a"), (3, 6, 6.0));
        assert_eq!(of("b<&>"), (3, 3, 9.0));
        assert_eq!(of("c"), (4, 3, 9.0));
    }

    #[test]
    fn rectangles_that_cannot_be_seen_are_left_out() {
        let narrow = frames(&Node::of([("wide", 1_000_000), ("narrow", 1)]));
        assert_eq!(narrow.len(), 2, "{narrow:?}");
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let text = svg("<title>", &Node::of([("a\"<script>\u{1}]]>;b", 1)]), events);
        assert!(text.contains("a&quot;&lt;script&gt;\u{fffd}]]&gt;"), "{text}");
        assert_eq!(text.matches("<script").count(), 1);
    }

    #[test]
    fn names_are_cut_where_they_do_not_fit() {
        assert_eq!(fitting("function", 100.0), "function");
        assert_eq!(fitting("function", 50.0), "func..");
        assert_eq!(fitting("function", 20.0), "");
    }
}
