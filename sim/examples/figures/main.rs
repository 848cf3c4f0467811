//! The published tables, replayed: `cargo run --release -p weir-sim --example figures -- DIR [TABLE ..]`
//!
//! R1 saturation throughput, R2 delay against load, R3 M/D/1, R4 serialization, R5 shares of dynamic
//! thresholds, R6 DCQCN and the trace of one of its queue pairs, R7 cut-through, R8 PFC, and headroom. Writes per table a CSV file with what was
//! expected and what came, a drawing, and one page with all of it. Ends with 1 if a value is outside its
//! tolerance.

mod crossbar;
mod dcqcn;
mod dfx;
mod latency;
mod plot;
mod queueing;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use table::Table;

/// Makes a table.
type Make = fn() -> Table;

/// Tables and what makes them.
const TABLES: [(&str, Make); 10] = [
    ("r1", crossbar::r1),
    ("r2", crossbar::r2),
    ("r3", queueing::r3),
    ("r4", queueing::r4),
    ("r5", queueing::r5),
    ("r6", dcqcn::r6),
    ("dfx", dfx::dfx),
    ("r7", latency::r7),
    ("r8", queueing::r8),
    ("headroom", latency::headroom),
];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| "figures".into()));
    let wanted: Vec<String> = args.collect();
    std::fs::create_dir_all(&dir).expect("a folder for the figures");
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("room for a figure");
    let (mut page, mut wrong) = (String::new(), 0);
    for (name, make) in TABLES {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        let table = make();
        write(&format!("{name}.csv"), &table.csv());
        for (i, drawing) in table.drawings.iter().enumerate() {
            write(&format!("{name}-{}.svg", i + 1), drawing);
        }
        page += &table.html();
        wrong += table.wrong();
        println!(
            "{name:9} {:3} values, {} outside their tolerance: {}",
            table.len(),
            table.wrong(),
            table.title
        );
        table.outside().for_each(|row| println!("          {row}"));
    }
    write("index.html", &table::page(&page));
    println!("written   {}", dir.join("index.html").display());
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
