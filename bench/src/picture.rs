//! Curves as people see them.

use std::{ops::Range, path::Path};

use anyhow::{Result, anyhow};
use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    prelude::*,
};

use crate::curve::{Curve, Point};

const SIZE: (u32, u32) = (760, 440);

/// A line of a picture: what it is called, its colour and what it shows of a point.
type Line = (&'static str, RGBColor, fn(&Point) -> f64);

/// How many messages are accepted, over how many are offered.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn throughput(curve: &Curve, file: &Path) -> Result<()> {
    let lines: [Line; 2] = [
        ("offered", RGBColor(170, 170, 170), |point| point.offered),
        ("accepted", BLUE, |point| point.accepted),
    ];
    let top = 1.1 * most(curve, &lines);
    draw(curve, "accepted, messages/s", 0.0..top, &lines, file)
}

/// How long clients wait, over how many messages are offered.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn latency(curve: &Curve, file: &Path) -> Result<()> {
    let lines: [Line; 4] = [
        ("p99.9", RED, |point| point.waited.p999),
        ("p99", RGBColor(230, 140, 0), |point| point.waited.p99),
        ("p90", RGBColor(0, 140, 60), |point| point.waited.p90),
        ("p50", BLUE, |point| point.waited.p50),
    ];
    let range = (0.5..2.0 * most(curve, &lines)).log_scale();
    draw(curve, "until accepted, ms", range, &lines, file)
}

fn most(curve: &Curve, lines: &[Line]) -> f64 {
    let values = curve.points.iter();
    let values = values.flat_map(|point| lines.iter().map(move |(_, _, of)| of(point)));
    values.fold(1.0, f64::max)
}

fn draw<Y>(curve: &Curve, y_says: &str, y: Y, lines: &[Line], file: &Path) -> Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64> + 'static,
{
    let failed = |error: String| anyhow!("cannot draw {}: {error}", file.display());
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    let drawn = draw_on(&root, curve, y_says, y, lines);
    drawn.map_err(|error| failed(error.to_string()))?;
    root.present().map_err(|error| failed(error.to_string()))
}

fn draw_on<Y, B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    curve: &Curve,
    y_says: &str,
    y: Y,
    lines: &[Line],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64> + 'static,
{
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .caption(&curve.what, ("sans-serif", 17))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(offered(curve), y)?;
    chart
        .configure_mesh()
        .x_desc("offered, messages/s")
        .y_desc(y_says)
        .light_line_style(WHITE)
        .draw()?;
    for (name, colour, of) in lines {
        let style = colour.stroke_width(2);
        let points = || {
            let all = curve.points.iter().map(|point| (point.offered, of(point)));
            all.filter(|(_, value)| !value.is_nan())
        };
        chart
            .draw_series(LineSeries::new(points(), style))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        let dots = points().map(|at| Circle::new(at, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.mix(0.8))
        .draw()
}

fn offered(curve: &Curve) -> Range<f64> {
    let most = curve.points.iter().map(|point| point.offered);
    0.0..1.05 * most.fold(1.0, f64::max)
}
