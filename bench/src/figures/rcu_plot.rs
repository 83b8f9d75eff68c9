//! A plot of several series, both axes logarithmic, as SVG.

use std::fmt::Write;

/// Points of one line.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// What is drawn.
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

/// The decades that an axis shows.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Axis {
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
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let points = points().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect::<Vec<_>>();
        let (across, up) = (Axis::of(points.iter().map(|p| p.0)), Axis::of(points.iter().map(|p| p.1)));
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
        for decade in across.decades() {
            let x = left(across.place(10f64.powi(decade)));
            writeln!(svg, r##"<path d="M{x} {} V{}" stroke="#ddd"/>"##, top(0.0), top(1.0))?;
            writeln!(svg, r#"<text x="{x}" y="{}" text-anchor="middle">1e{decade}</text>"#, top(0.0) + 18.0)?;
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
            line(svg, number, self.series.len(), series, across, up)?;
        }
        svg.push_str("</svg>\n");
        Ok(())
    }
}

fn line(
    svg: &mut String,
    number: usize,
    count: usize,
    series: &Series,
    across: Axis,
    up: Axis,
) -> std::fmt::Result {
    let hue = 360 * number / count.max(1);
    let dashes = if number.is_multiple_of(2) { "none" } else { "6 3" };
    write!(
        svg,
        r#"<polyline fill="none" stroke="hsl({hue} 70% 40%)" stroke-width="2" stroke-dasharray="{dashes}" points=""#
    )?;
    for (x, y) in series.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0) {
        write!(svg, "{:.1},{:.1} ", left(across.place(*x)), top(up.place(*y)))?;
    }
    writeln!(svg, r#""/>"#)?;
    let (x, y) = (left(1.0) + 12.0, MARGIN.1 + 18.0 * (number as f64 + 1.0));
    writeln!(svg, r#"<text x="{x}" y="{y}" fill="hsl({hue} 70% 40%)">{}</text>"#, series.name)
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
    fn points_lie_where_their_decades_are() {
        let series =
            vec![Series { name: "a".to_owned(), points: vec![(1.0, 10.0), (100.0, 1000.0), (0.0, 5.0)] }];
        let svg = Plot { title: "t", x: "x", y: "y", series }.svg();
        let corner = format!("points=\"{:.1},{:.1} {:.1},{:.1} \"", left(0.0), top(0.0), left(1.0), top(1.0));
        assert!(svg.contains(&corner), "{corner} in {svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
