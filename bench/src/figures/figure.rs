//! A figure: the median of repetitions with its spread, printed as a line of JSON or of a table.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Measured values by case, one for each repetition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(BTreeMap<String, Vec<f64>>);

impl Samples {
    /// Adds one repetition of a case.
    pub(crate) fn add(&mut self, case: &str, value: f64) {
        self.0.entry(case.to_owned()).or_default().push(value);
    }

    /// Adds what a workload has written: lines of `CASE VALUE`. `rename` maps its case to ours, `None` drops it.
    ///
    /// # Errors
    /// A line that is something else.
    pub(crate) fn read(&mut self, text: &str, rename: impl Fn(&str) -> Option<String>) -> anyhow::Result<()> {
        for line in text.lines() {
            let parsed = line.split_once(' ').and_then(|(case, value)| Some((case, value.parse().ok()?)));
            let Some((case, value)) = parsed else {
                anyhow::bail!("a workload has written '{line}' instead of a case and a value");
            };
            if let Some(case) = rename(case) {
                self.add(&case, value);
            }
        }
        Ok(())
    }

    /// The values of a case.
    pub(crate) fn of(&self, case: &str) -> &[f64] {
        self.0.get(case).map_or(&[], Vec::as_slice)
    }

    /// The median of a case, if it was measured.
    pub(crate) fn median(&self, case: &str) -> Option<f64> {
        quantile(self.of(case), 0.5)
    }
}

/// The value below which `part` of the values lie.
fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = part * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
    Some(below + (above - below) * place.fract())
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    case: String,
    unit: &'static str,
    peer: Option<&'static str>,
    result: Result<(f64, f64), String>,
}

/// What a line of JSON has, in this order.
#[derive(Serialize)]
struct Line<'a> {
    bench: &'a str,
    case: &'a str,
    value: Option<f64>,
    unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<&'a str>,
}

impl Figure {
    /// Median and spread (half the distance of the quartiles) of `values`; absent when there are none.
    pub(crate) fn new(case: &str, unit: &'static str, values: &[f64]) -> Figure {
        let quartiles = (quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75));
        let result = match quartiles {
            (Some(low), Some(median), Some(high)) => Ok((median, (high - low) / 2.0)),
            _ => Err("not measured".to_owned()),
        };
        Figure { case: case.to_owned(), unit, peer: None, result }
    }

    /// A figure that could not be measured here, and why.
    pub(crate) fn absent(case: &str, unit: &'static str, why: &str) -> Figure {
        Figure { case: case.to_owned(), unit, peer: None, result: Err(why.to_owned()) }
    }

    /// The same figure, as measured of a peer.
    pub(crate) fn of_peer(self, peer: &'static str) -> Figure {
        Figure { peer: Some(peer), ..self }
    }

    /// A line of JSON. An absent figure has the value null and says why.
    pub(crate) fn json(&self, bench: &str) -> anyhow::Result<String> {
        let measured = self.result.as_ref().ok();
        let line = Line {
            bench,
            case: &self.case,
            value: measured.map(|(value, _)| rounded(*value)),
            unit: self.unit,
            spread: measured.map(|(_, spread)| rounded(*spread)),
            peer: self.peer,
            absent: self.result.as_ref().err().map(String::as_str),
        };
        Ok(serde_json::to_string(&line)?)
    }

    /// The figure as a line: benchmark, case, what was measured, median, spread, unit.
    pub(crate) fn row(&self, bench: &str) -> String {
        let mut row = format!("{bench:<11} {:<24} {:<11} ", self.case, self.peer.unwrap_or("mote"));
        let done = match &self.result {
            Ok((value, spread)) => {
                write!(row, "{:>14} ± {:<9} {}", rounded(*value), rounded(*spread), self.unit)
            }
            Err(why) => write!(row, "{:>14}   {why}", "absent"),
        };
        debug_assert!(done.is_ok(), "writing to a string");
        row
    }
}

/// Four significant digits, at most three behind the point.
fn rounded(value: f64) -> f64 {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let scale = 10f64.powi((3 - magnitude).clamp(0, 3));
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(figure: &Figure, expect: &str) {
        assert_eq!(figure.json("b").expect("plain data"), expect);
    }

    #[test]
    fn a_figure_is_median_and_half_the_distance_of_the_quartiles() {
        let figure = Figure::new("x", "ns", &[9.0, 1.0, 2.0, 3.0, 4.0]);
        check(&figure, r#"{"bench":"b","case":"x","value":3.0,"unit":"ns","spread":1.0}"#);
        let even = Figure::new("x", "ns", &[1.0, 2.0]).of_peer("p");
        check(&even, r#"{"bench":"b","case":"x","value":1.5,"unit":"ns","spread":0.25,"peer":"p"}"#);
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let figure = Figure::new("x", "ns", &[]);
        check(&figure, r#"{"bench":"b","case":"x","value":null,"unit":"ns","absent":"not measured"}"#);
    }

    #[test]
    fn numbers_keep_four_digits() {
        for (value, expect) in
            [(0.0, 0.0), (0.123_45, 0.123), (12.345_6, 12.35), (1234.5, 1235.0), (7_654_321.2, 7_654_321.0)]
        {
            assert_eq!(rounded(value), expect);
        }
    }

    #[test]
    fn lines_of_workloads_are_read_and_nonsense_is_refused() {
        let mut samples = Samples::default();
        let all = |case: &str| Some(case.to_owned());
        samples.read("a 1.5\nb 2\na 2.5\n", all).expect("well formed");
        assert_eq!((samples.of("a"), samples.median("b")), (&[1.5, 2.5][..], Some(2.0)));
        assert!(samples.read("nonsense", all).is_err());
    }
}
