//! A plot of several series, both axes logarithmic, as SVG.

use std::fmt::Write;

/// A line of the picture: its name and its points.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A picture of lines over two axes.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) series: Vec<Series>,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
/// Left, top, right (the legend), bottom.
const MARGIN: (f64, f64, f64, f64) = (80.0, 40.0, 210.0, 60.0);

/// The powers of ten between which an axis lies.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// From the least value to the greatest.
    fn between(values: impl Iterator<Item = f64> + Clone) -> Axis {
        let low = values.clone().fold(f64::INFINITY, f64::min).log10();
        let high = values.fold(0.0, f64::max).log10();
        if low < high { Axis { low, high } } else { Axis { low: 0.0, high: 1.0 } }
    }

    /// Whole decades around the values.
    fn around(values: impl Iterator<Item = f64> + Clone) -> Axis {
        let low = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let high = values.fold(0.0, f64::max).log10().ceil();
        if low.is_finite() && high.is_finite() {
            Axis { low, high: high.max(low + 1.0) }
        } else {
            Axis { low: 0.0, high: 1.0 }
        }
    }

    /// Where `value` lies: 0 to 1.
    fn place(self, value: f64) -> f64 {
        (value.log10() - self.low) / (self.high - self.low)
    }

    fn decades(self) -> impl Iterator<Item = i32> {
        self.low as i32..=self.high as i32
    }
}

impl Plot {
    /// The picture as a file of SVG 1.1.
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let points = points().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect::<Vec<_>>();
        let (across, up) =
            (Axis::between(points.iter().map(|p| p.0)), Axis::around(points.iter().map(|p| p.1)));
        let mut svg = String::new();
        let done = self.write(&mut svg, across, up);
        debug_assert!(done.is_ok(), "writing to a string");
        svg
    }

    fn write(&self, svg: &mut String, across: Axis, up: Axis) -> std::fmt::Result {
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
        )?;
        writeln!(svg, r##"<rect width="100%" height="100%" fill="#fff"/>"##)?;
        writeln!(svg, r#"<text x="{}" y="24" font-size="16">{}</text>"#, MARGIN.0, self.title)?;
        for value in self.places() {
            let x = left(across.place(value));
            writeln!(svg, r##"<path d="M{x:.1} {} V{}" stroke="#ddd"/>"##, top(0.0), top(1.0))?;
            writeln!(svg, r#"<text x="{x:.1}" y="{}" text-anchor="middle">{value}</text>"#, top(0.0) + 18.0)?;
        }
        for decade in up.decades() {
            let y = top(up.place(10f64.powi(decade)));
            writeln!(svg, r##"<path d="M{} {y} H{}" stroke="#ddd"/>"##, left(0.0), left(1.0))?;
            writeln!(
                svg,
                r#"<text x="{}" y="{}" text-anchor="end">1e{decade}</text>"#,
                left(0.0) - 6.0,
                y + 4.0
            )?;
        }
        writeln!(svg, r#"<text x="{}" y="{}">{}</text>"#, left(0.4), HEIGHT - 14.0, self.x)?;
        let (x, y) = (22.0, top(0.4));
        writeln!(svg, r#"<text x="{x}" y="{y}" transform="rotate(-90 {x} {y})">{}</text>"#, self.y)?;
        for (number, series) in self.series.iter().enumerate() {
            line(svg, number, &self.look(series), series, (across, up))?;
        }
        svg.push_str("</svg>\n");
        Ok(())
    }

    /// Where the axis has ticks: at the values that were measured.
    fn places(&self) -> Vec<f64> {
        let values = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
        let mut places: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// The same of mote and of liburcu has one colour; mote's lines are whole, liburcu's dashed, what is neither beside
    /// them dotted.
    fn look(&self, series: &Series) -> Look {
        let mut subjects: Vec<&str> = Vec::new();
        for series in &self.series {
            let subject = subject(&series.name);
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        let place = subjects.iter().position(|known| *known == subject(&series.name)).unwrap_or(0);
        let has_sides = subjects.len() < self.series.len();
        let dashes = match series.name.as_str() {
            name if name.starts_with(THEIRS) => "8 4",
            name if has_sides && !name.starts_with(OURS) => "2 3",
            _ => "none",
        };
        Look { hue: 360 * place / subjects.len().max(1), dashes }
    }
}

/// How a line is drawn.
struct Look {
    hue: usize,
    dashes: &'static str,
}

const OURS: &str = "mote ";
const THEIRS: &str = "liburcu ";

/// What is measured, whoever has made it.
fn subject(name: &str) -> &str {
    name.strip_prefix(OURS).or_else(|| name.strip_prefix(THEIRS)).unwrap_or(name)
}

fn line(
    svg: &mut String,
    number: usize,
    look: &Look,
    series: &Series,
    (across, up): (Axis, Axis),
) -> std::fmt::Result {
    let color = format!("hsl({} 75% 38%)", look.hue);
    let stroke =
        format!(r#"fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{}""#, look.dashes);
    let points = series.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let points: Vec<_> = points.map(|(x, y)| (left(across.place(*x)), top(up.place(*y)))).collect();
    write!(svg, r#"<polyline {stroke} points=""#)?;
    for (x, y) in &points {
        write!(svg, "{x:.1},{y:.1} ")?;
    }
    writeln!(svg, r#""/>"#)?;
    for (x, y) in &points {
        writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{color}"/>"#)?;
    }
    let (x, y) = (left(1.0) + 16.0, MARGIN.1 + 18.0 * (number as f64 + 1.0));
    writeln!(svg, r#"<path d="M{x} {} h32" {stroke}/>"#, y - 4.0)?;
    writeln!(svg, r#"<text x="{}" y="{y}" fill="{color}">{}</text>"#, x + 38.0, series.name)
}

fn left(place: f64) -> f64 {
    MARGIN.0 + place * (WIDTH - MARGIN.0 - MARGIN.2)
}

fn top(place: f64) -> f64 {
    HEIGHT - MARGIN.3 - place * (HEIGHT - MARGIN.1 - MARGIN.3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_colour_for_the_same_of_two_sides() {
        let names = ["mote qsbr", "liburcu qsbr", "mote signal", "std Mutex"];
        let series = names.map(|name| Series { name: name.to_owned(), points: vec![] }).into();
        let plot = Plot { title: "t", x: "x", y: "y", series };
        let looks: Vec<_> = plot.series.iter().map(|series| plot.look(series)).collect();
        let looks: Vec<_> = looks.iter().map(|look| (look.hue, look.dashes)).collect();
        assert_eq!(looks, [(0, "none"), (0, "8 4"), (120, "none"), (240, "2 3")]);
    }

    #[test]
    fn points_lie_where_their_decades_are() {
        let series =
            vec![Series { name: "a".to_owned(), points: vec![(1.0, 10.0), (100.0, 1000.0), (0.0, 5.0)] }];
        let svg = Plot { title: "t", x: "x", y: "y", series }.svg();
        let corner = format!("points=\"{:.1},{:.1} {:.1},{:.1} \"", left(0.0), top(0.0), left(1.0), top(1.0));
        assert!(svg.contains(&corner), "{corner} in {svg}");
        assert!(svg.contains(">100</text>"), "a tick where something was measured: {svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
