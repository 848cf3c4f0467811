//! Expected and measured values side by side.

/// How far a value may be off.
#[derive(Clone, Copy, Debug)]
pub enum Within {
    /// This share of what is expected.
    Share(f64),
    /// This much.
    Off(f64),
    /// Between these, whatever is expected.
    Range(f64, f64),
}

struct Row {
    what: String,
    expected: f64,
    got: f64,
    within: Within,
}

/// One table of the reference.
pub struct Table {
    /// What it is about.
    pub title: &'static str,
    /// Unit of its values.
    unit: &'static str,
    rows: Vec<Row>,
    /// SVG.
    pub drawings: Vec<String>,
}

impl Row {
    fn good(&self) -> bool {
        match self.within {
            Within::Share(share) => (self.got - self.expected).abs() <= self.expected.abs() * share,
            Within::Off(off) => (self.got - self.expected).abs() <= off,
            Within::Range(low, high) => (low..=high).contains(&self.got),
        }
    }

    fn tolerance(&self) -> String {
        match self.within {
            Within::Share(share) => format!("{} %", (share * 1e4).round() / 1e2),
            Within::Off(off) if off < 1e-6 => "exact".into(),
            Within::Off(off) => format!("± {off}"),
            Within::Range(low, high) if high == f64::INFINITY => format!("above {}", short(low)),
            Within::Range(low, high) => format!("{} to {}", short(low), short(high)),
        }
    }
}

/// Five digits that mean something.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = (4 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

impl Table {
    /// An empty one.
    pub fn new(title: &'static str, unit: &'static str) -> Self {
        Self { title, unit, rows: Vec::new(), drawings: Vec::new() }
    }

    /// One value.
    pub fn row(&mut self, what: impl Into<String>, expected: f64, got: f64, within: Within) {
        self.rows.push(Row { what: what.into(), expected, got, within });
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Values outside their tolerance.
    pub fn wrong(&self) -> usize {
        self.outside().count()
    }

    /// Those values, in words.
    pub fn outside(&self) -> impl Iterator<Item = String> + '_ {
        let bad = self.rows.iter().filter(|row| !row.good());
        bad.map(|r| {
            format!("{}: {}, expected {} ({})", r.what, short(r.got), short(r.expected), r.tolerance())
        })
    }

    /// As CSV.
    pub fn csv(&self) -> String {
        let head = format!(
            "# weir {}, {}; unit: {}\nwhat,expected,got,tolerance,within\n",
            env!("CARGO_PKG_VERSION"),
            self.title,
            self.unit
        );
        let line = |r: &Row| {
            format!(
                "\"{}\",{},{},\"{}\",{}\n",
                r.what,
                short(r.expected),
                short(r.got),
                r.tolerance(),
                r.good()
            )
        };
        std::iter::once(head).chain(self.rows.iter().map(line)).collect()
    }

    /// As a section of a page.
    pub fn html(&self) -> String {
        let mut text = format!("<section><h2>{}</h2>", self.title);
        self.drawings.iter().for_each(|drawing| text += drawing);
        text += &format!(
            "<details open><summary>{} values; unit: {}</summary><table><tr><th class=\"text\">what<th>expected<th>got<th>tolerance</tr>",
            self.len(),
            self.unit
        );
        for r in &self.rows {
            let class = if r.good() { "" } else { " class=\"bad\"" };
            let (expected, got) = (short(r.expected), short(r.got));
            text += &format!(
                "<tr{class}><td class=\"text\">{}<td>{expected}<td>{got}<td>{}</tr>",
                r.what,
                r.tolerance()
            );
        }
        text + "</table></details></section>\n"
    }
}

/// A page of sections.
pub fn page(sections: &str) -> String {
    format!(
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>weir: published tables</title><style>\
         body{{margin:0;background:#f4f6f8;color:#1c2430;font:13px/1.4 system-ui,sans-serif}}\
         header{{background:#1c2430;color:#fff;padding:10px 20px}}h1{{margin:0;font-size:18px}}\
         main{{max-width:1500px;margin:auto;padding:12px;display:grid;grid-template-columns:repeat(auto-fit,minmax(560px,1fr));gap:12px;align-items:start}}\
         section{{background:#fff;border:1px solid #d8dee6;border-radius:6px;padding:12px 16px}}h2{{margin:0 0 8px;font-size:15px}}\
         svg{{width:100%;height:auto;display:block;margin-bottom:8px}}summary{{color:#5b6675;cursor:pointer}}\
         details{{max-height:420px;overflow:auto}}table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:12px}}\
         th{{text-align:right;color:#5b6675}}td{{text-align:right;border-top:1px solid #f4f6f8;padding:1px 6px}}.text{{text-align:left}}\
         tr.bad td{{background:#d55e00;color:#fff}}</style>\
         <header><h1>weir {}: the published tables, replayed</h1></header><main>\n{sections}</main></html>\n",
        env!("CARGO_PKG_VERSION")
    )
}
