//! Line drawings in SVG.

use crate::table::short;

const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7a5195", "#1c2430"];
const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 62.0;

/// A line, or dots.
pub struct Line {
    /// Its name in the legend; empty: not in it.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
    /// Dots instead of a line: values of the reference.
    pub dots: bool,
    /// Which colour.
    pub colour: usize,
}

/// An axis.
pub struct Axis {
    /// What it shows.
    pub label: &'static str,
    /// Powers of ten at equal distances.
    pub log: bool,
    /// From here; to here.
    pub range: (f64, f64),
}

impl Axis {
    fn share(&self, value: f64) -> f64 {
        let of = |v: f64| if self.log { v.max(1e-12).log10() } else { v };
        let (low, high) = (of(self.range.0), of(self.range.1));
        ((of(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.range;
        if self.log {
            let powers = low.log10().ceil() as i32..=high.log10().floor() as i32;
            return powers.map(|p| 10f64.powi(p)).collect();
        }
        let raw = (high - low) / 6.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= raw).unwrap_or(raw);
        let first = (low / step).ceil() as i64;
        (first..).map(|i| i as f64 * step).take_while(|v| *v <= high * 1.000_001).collect()
    }
}

/// Draws `lines`.
pub fn plot(title: &str, x: &Axis, y: &Axis, lines: &[Line]) -> String {
    let px = |v: f64| LEFT + x.share(v) * (WIDTH - LEFT - RIGHT);
    let py = |v: f64| HEIGHT - BOTTOM - y.share(v) * (HEIGHT - TOP - BOTTOM);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"system-ui,sans-serif\" \
         font-size=\"11\"><title>{title}</title><rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>"
    );
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for v in x.ticks() {
        let at = px(v);
        text += &format!(
            "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#d8dee6\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#5b6675\">{}</text>",
            bottom + 15.0,
            short(v)
        );
    }
    for v in y.ticks() {
        let at = py(v);
        text += &format!(
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#d8dee6\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#5b6675\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(v)
        );
    }
    text += &format!("<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#9aa6b4\"/>");
    text += &format!(
        "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\" fill=\"#1c2430\">{}</text>",
        bottom + 30.0,
        x.label
    );
    text += &format!(
        "<text x=\"14\" y=\"{}\" transform=\"rotate(-90 14 {0})\" text-anchor=\"middle\" fill=\"#1c2430\">{}</text>",
        (TOP + bottom) / 2.0,
        y.label
    );
    for line in lines {
        let colour = COLOURS[line.colour % COLOURS.len()];
        if line.dots {
            for (a, b) in &line.points {
                text += &format!(
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"#fff\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                    px(*a),
                    py(*b)
                );
            }
        } else {
            let path: Vec<String> =
                line.points.iter().map(|(a, b)| format!("{:.1} {:.1}", px(*a), py(*b))).collect();
            text += &format!(
                "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.7\" stroke-linejoin=\"round\"/>",
                path.join("L")
            );
        }
    }
    let mut at = LEFT;
    for line in lines.iter().filter(|line| !line.name.is_empty()) {
        let colour = COLOURS[line.colour % COLOURS.len()];
        let y = HEIGHT - 10.0;
        text += &if line.dots {
            format!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"3.5\" fill=\"#fff\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                at + 8.0,
                y - 4.0
            )
        } else {
            format!("<path d=\"M{at} {}h16\" stroke=\"{colour}\" stroke-width=\"3\"/>", y - 4.0)
        };
        text += &format!("<text x=\"{}\" y=\"{y}\" fill=\"#1c2430\">{}</text>", at + 21.0, line.name);
        at += 34.0 + 6.3 * line.name.chars().count() as f64;
    }
    text + "</svg>\n"
}
