//! Pictures of the page, and of the report of `weir sim`, in headless Chromium beside pictures that somebody has looked at, both made small: what is compared is where
//! there is ink, of which colour, and not how a font was smoothed.
//!
//! `page/saved.json.gz` is what `weir report` saved of a lab. After a change that is meant to be seen, `WEIR_BLESS=1` writes the small
//! pictures anew, and `WEIR_PAGE=FOLDER` keeps the large ones to be looked at.

use crate::browser::{chromium, in_window};
use crate::support::run;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_mgmt::page::{Saved, report};

/// A pixel of a small picture is the mean of a square of so many.
const SQUARE: usize = 10;

/// Parts of 255: of the mean over all pixels and colours, and of one pixel that is another. Fonts of another version move the ink of a
/// line by a part of a square.
const MEAN_MOST: f64 = 2.5;
const OTHER: f64 = 40.0;
/// Share of the pixels that may be others.
const OTHERS_MOST: f64 = 0.01;

/// A small picture: three colours a pixel, in rows.
#[derive(Debug, PartialEq)]
struct Small {
    width: usize,
    height: usize,
    colours: Vec<u8>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/management/page")
}

fn decode(path: &Path) -> Small {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let samples = info.color_type.samples();
    let colours = bytes[..info.buffer_size()].chunks_exact(samples).flat_map(|pixel| pixel[..3].to_vec());
    Small { width: info.width as usize, height: info.height as usize, colours: colours.collect() }
}

impl Small {
    /// A large picture made small.
    fn of(large: &Small) -> Self {
        let (width, height) = (large.width / SQUARE, large.height / SQUARE);
        let mean = |x: usize, y: usize, colour: usize| {
            let rows = (y * SQUARE..(y + 1) * SQUARE).flat_map(|y| {
                (x * SQUARE..(x + 1) * SQUARE).map(move |x| (y * large.width + x) * 3 + colour)
            });
            (rows.map(|at| usize::from(large.colours[at])).sum::<usize>() / (SQUARE * SQUARE)) as u8
        };
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let colours = pixels.flat_map(|(x, y)| [0, 1, 2].map(|colour| mean(x, y, colour))).collect();
        Self { width, height, colours }
    }

    fn write(&self, path: &Path) {
        let file = std::fs::File::create(path).unwrap();
        let mut encoder = png::Encoder::new(file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().unwrap().write_image_data(&self.colours).unwrap();
    }

    /// What differs, if it is more than fonts.
    fn differs(&self, other: &Self) -> Option<String> {
        if (self.width, self.height) != (other.width, other.height) {
            return Some(format!("{}x{} and {}x{}", self.width, self.height, other.width, other.height));
        }
        let by = |(a, b): (&u8, &u8)| f64::from(a.abs_diff(*b));
        let all: Vec<f64> = self.colours.iter().zip(&other.colours).map(by).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let pixels = all.chunks_exact(3);
        let count = pixels.len() as f64;
        let others = pixels.filter(|pixel| pixel.iter().any(|by| *by > OTHER)).count() as f64 / count;
        let text = format!("mean {mean:.2} of 255, {:.2} % of the pixels are others", others * 100.0);
        (mean > MEAN_MOST || others > OTHERS_MOST).then_some(text)
    }
}

/// The page in a window of this size.
fn picture(chromium: &Path, html: &str, size: (u32, u32), place: &Path) -> Small {
    let (page, png) = (place.join("page.html"), place.join("page.png"));
    let (html, (width, height)) = in_window(html, size);
    std::fs::write(&page, html).unwrap();
    run(Command::new(chromium)
        .env("TZ", "UTC")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--force-device-scale-factor=1", "--force-color-profile=srgb", "--font-render-hinting=none"])
        .arg(format!("--user-data-dir={}", place.join("profile").display()))
        .arg(format!("--window-size={width},{height}"))
        .args(["--virtual-time-budget=4000"])
        .arg(format!("--screenshot={}", png.display()))
        .arg(format!("file://{}", page.display())));
    decode(&png)
}

#[test]
fn the_page_looks_as_it_was_looked_at() {
    let Some(chromium) = chromium() else { return };
    let mut text = String::new();
    let file = std::fs::File::open(folder().join("saved.json.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut saved: serde_json::Value = serde_json::from_str(&text).unwrap();
    let page = Saved {
        snapshot: saved["snapshot"].take(),
        history: saved["history"].take(),
        events: saved["events"].as_array().unwrap().clone(),
        flows: saved["flows"].take(),
        lldp: saved["lldp"].take(),
    };
    // A telephone's is as long as it takes to see every panel.
    let windows = [("wide", (1280, 900)), ("narrow", (500, 900)), ("phone", (390, 3300))];
    looks_as_before(&chromium, &report(&page), "#matrix, #pfc", &windows);
}

/// Queues, pauses, rates and parts of latency, and collectives with their steps.
#[test]
fn the_report_of_a_simulation_looks_as_it_was_looked_at() {
    let Some(chromium) = chromium() else { return };
    let place = tempfile::tempdir().unwrap();
    let fabric = "name = \"looks\"\nstop_time = \"2ms\"\nlatency = true\n[topology]\nkind = \"star\"\nhosts = 6\n[link]\nrate = \"40G\"\n\
                  [switch.config.buffer]\nsize = \"1MiB\"\n[[workload]]\nkind = \"incast\"\nto = \"h5\"\nbytes = \"500KB\"\n\
                  [[workload]]\nkind = \"all_reduce\"\nranks = 4\nbytes = \"200KB\"\ncc = \"dcqcn\"\n";
    let file = place.path().join("looks.toml");
    std::fs::write(&file, fabric).unwrap();
    run(Command::new(env!("CARGO_BIN_EXE_weir")).arg("sim").arg(&file).arg("--out").arg(place.path()));
    let html = std::fs::read_to_string(place.path().join("report.html")).unwrap();
    let windows = [("sim-wide", (1280, 3000)), ("sim-phone", (390, 3850))];
    looks_as_before(&chromium, &html, ".chart", &windows);
}

/// A page in windows of these names and sizes, each beside its picture. `part`: a selector of what would be missed.
fn looks_as_before(chromium: &Path, html: &str, part: &str, windows: &[(&str, (u32, u32))]) {
    // The one font there is wherever Chromium is, of Debian.
    let style = "<style>* { font-family: \"DejaVu Sans\", sans-serif !important; }</style></head>";
    let html = html.replace("</head>", style);
    let place = tempfile::tempdir().unwrap();
    for &(name, size) in windows {
        let blessed = folder().join(format!("{name}.png"));
        let seen = Small::of(&picture(chromium, &html, size, place.path()));
        if let Some(kept) = std::env::var_os("WEIR_PAGE") {
            std::fs::copy(place.path().join("page.png"), Path::new(&kept).join(format!("{name}.png")))
                .unwrap();
        }
        if std::env::var_os("WEIR_BLESS").is_some() {
            seen.write(&blessed);
        }
        assert_eq!(seen.differs(&decode(&blessed)), None, "{name}: WEIR_BLESS=1 if that is meant");
        // A panel less is seen.
        let hide = format!("<style>{part} {{ visibility: hidden; }}</style></head>");
        let less = html.replace("</head>", &hide);
        let less = Small::of(&picture(chromium, &less, size, place.path()));
        assert!(less.differs(&seen).is_some(), "{name}: nobody would see that panels are missing");
    }
}
