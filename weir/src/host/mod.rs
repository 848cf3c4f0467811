//! `weir host`: RoCEv2 or RC Link endpoints on DPDK ports, as a traffic host.

mod build;
mod meeting;
pub mod operate;
mod rclink;
mod remedy;
mod report;
mod seats;

use crate::Outcome;
use crate::check;
use crate::file::{can_write, not_over, write_file};
use crate::kinds::{self, Kind};
use crate::output::{self, OUT, say, say_err};
use crate::run::devices::{self, OpenPort};
use crate::run::io::DpdkWire;
use crate::run::memory::PoolSize;
use crate::run::mtu::{Carries, MtuChange, MtuWatch};
use crate::run::privileges::give_up_rest;
use crate::run::sockets::MemifSockets;
use crate::run::{Stop, af_packet};
use anyhow::{Result, anyhow, bail};
use report::{End, Results};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_config::host::{self, HostConfig};
use weir_config::{Diagnostic, PortConfig};
use weir_dpdk::{Clock, Interrupts, LinkWatch, Port, Started};
use weir_layout::{Grid, Unit, counted, percent};

use crate::quantity::time;
pub use build::{SETTLE, rate_control};
use clap::Args;
use meeting::{Meeting, MeetingArgs};
use operate::Operator;
pub use rclink::back_off;
pub use report::trace;
pub use seats::{Look, Seat, Shared, work};
use std::path::PathBuf;

/// `weir host`
#[derive(Debug, Args)]
pub struct HostArgs {
    /// Configuration file.
    pub config: PathBuf,
    /// Stop sending after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Write totals and the verdict to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Write the events that changed the rates to this file as CSV.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Socket for `weir qp`, accessible to its owner only; none unless given.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    #[command(flatten)]
    pub meeting: MeetingArgs,
}

/// Frames in hand per port beside those of the device.
const HELD: u64 = 256;

/// How often the main thread looks.
const LOOK: Duration = Duration::from_millis(20);

/// How often it tells.
const TELL: Duration = Duration::from_secs(1);

/// How long answers may take after the hosts have stopped sending.
const DRAIN: Duration = Duration::from_secs(5);

/// So long without a frame, nobody is waiting for an answer any more, ns.
const QUIET: u64 = 300_000_000;

pub fn host(args: &HostArgs, eal_args: &[String]) -> Result<Outcome> {
    output::detach()?;
    for written in [&args.summary, &args.trace] {
        not_over(written.as_deref(), [args.config.as_path()])?;
    }
    can_write(args.summary.iter().chain(&args.trace))?;
    let (mut config, text) = load(&args.config)?;
    let stop = Stop::on_signal()?;
    // What can fail comes before the loop that moves frames.
    let listen = |path: &PathBuf| Operator::listen(path, &config, &text);
    let operator = args.socket.as_ref().map(listen).transpose()?;
    if let Some(operator) = &operator {
        say!("queue pairs: weir qp show --socket {}", operator.path().display());
    }
    let mut ports: Vec<_> = config.ports.iter().map(|port| port.port.clone()).collect();
    // One lcore serves them all: that of the port that names one.
    let lcore = ports.iter().find_map(|port| port.lcore);
    ports.iter_mut().for_each(|port| port.lcore = lcore);
    let held = HELD * ports.len() as u64;
    let size = PoolSize::of_ports(&ports, 1, held, held);
    let eal = devices::start_eal(&ports, &config.eal_args, eal_args, size, 1)?;
    let core = core(&config, &eal.cores())?;
    let mut memif = MemifSockets::default();
    let (pools, open) = devices::open(&eal, &ports, &vec![0; ports.len()], 1, size, &mut memif)?;
    let rates: Vec<u64> = open.iter().zip(&config.ports).map(|(open, port)| link_rate(open, port)).collect();
    let Some(mut meeting) = Meeting::join(&args.meeting, &mut config, || stop.asked(), args.duration)? else {
        say!("stopped before all ranks had joined");
        return Ok(Outcome::Bad);
    };
    let stations = build::stations(&config, &rates, args.trace.is_some())?;
    describe(&config, &open, &stations)?;

    let clock = Clock::new(&eal);
    let shared = Arc::new(Shared::default());
    let (mut seats, mut handles) = (Vec::new(), Vec::new());
    let carries: Vec<Option<Carries>> = ports.iter().map(af_packet::carries).collect();
    for ((station, open), carries) in stations.into_iter().zip(open).zip(&carries) {
        seats.push(Seat::new(station, open.rx, DpdkWire::new(open.tx, pools[0].clone(), carries.clone())));
        handles.push(open.port);
    }
    // After the ports, so that it ends before they do.
    let interrupts = eal.beside_workers(&[core], || {
        // Away from the worker, as all that runs beside it.
        output::detach()?;
        devices::hold_interrupts(&eal, &handles)
    })?;
    let worker = {
        let (shared, pool, clock) = (Arc::clone(&shared), pools[0].clone(), clock);
        let rest = Duration::from_nanos(config.rest);
        let polling = interrupts.as_ref().map(Interrupts::polling);
        eal.launch(core, move || work(seats, &pool, &clock, rest, &shared, polling.as_ref()))?
    };
    give_up_rest(&ports, args.summary.iter().chain(&args.trace).map(PathBuf::as_path));
    let start = Instant::now();
    let counted = config.counts();
    let mut links: Vec<LinkWatch> = handles.iter().map(|_| LinkWatch::default()).collect();
    let mut mtus: Vec<MtuWatch> = handles.iter().map(|_| MtuWatch::new()).collect();
    let mut teller = Teller::new();
    let failed = loop {
        std::thread::sleep(LOOK);
        for (i, ((port, watch), named)) in handles.iter().zip(&mut links).zip(&config.ports).enumerate() {
            if let Ok(Some(link)) = watch.poll(port) {
                shared.order(Box::new(move |seats, _| seats[i].link_changed()));
                say!("port {}: link {}", named.port.name, if link.up { "up" } else { "down" });
            }
        }
        for ((port, watch), carries) in ports.iter().zip(&mut mtus).zip(&carries) {
            look_at_mtu(port, watch, carries.as_ref());
        }
        teller.tell(start.elapsed(), shared.look());
        operator.iter().for_each(|operator| operator.turn(&shared));
        let over = args.duration.is_some_and(|time| start.elapsed() >= time);
        let failed = meeting.failed();
        if stop.asked() || over || failed.is_some() || (counted && shared.is_done()) {
            break failed;
        }
    };
    shared.stop_sending();
    let deadline = Instant::now() + DRAIN;
    while Instant::now() < deadline {
        std::thread::sleep(LOOK);
        let quiet = clock.now().saturating_sub(shared.last_frame()) > QUIET;
        if quiet && shared.is_done() {
            break;
        }
    }
    shared.end();
    meeting.leave();
    let Ok(seats) = worker.join() else { bail!("the hosts panicked: please report it") };
    let lost = |(port, carries): (&Port<Started>, &Option<Carries>)| {
        let too_long = carries.as_ref().map_or(0, Carries::too_long);
        port.stats().unwrap_or_default().tx_lost + too_long
    };
    let end = End {
        lost: handles.iter().zip(&carries).map(lost).collect(),
        now: clock.now(),
        seconds: start.elapsed().as_secs_f64(),
        met: args.meeting.controller.is_some(),
        failed,
    };
    let results = Results::of(&config, &seats, end);
    // Files first: they wait for nobody.
    let files = write_files(args, &results);
    results.print();
    let findings = results.findings();
    let good = findings.is_empty();
    if good {
        say!("verdict: PASS: every message sent was acknowledged, every message received was right");
    } else {
        let remedies: String = results.remedies().iter().map(|what| format!("\n   = help: {what}")).collect();
        say!("verdict: FAIL: {}{remedies}", findings.join("; "));
    }
    files?;
    Ok(if good { Outcome::Good } else { Outcome::Bad })
}

/// Says that the interface of a port takes less than the port may send, and when it takes all again.
fn look_at_mtu(port: &PortConfig, watch: &mut MtuWatch, carries: Option<&Carries>) {
    let Some(interface) = af_packet::interface(port) else { return };
    match watch.look(port, interface, carries) {
        Some(MtuChange { trouble: Some((detail, remedy)), .. }) => {
            say_err!("weir: port {}: {detail}\n  -> {remedy}", port.name);
        }
        Some(_) => say!("port {}: interface {interface} takes all frames of the port again", port.name),
        None => {}
    }
}

fn write_files(args: &HostArgs, results: &Results<'_>) -> Result<()> {
    if let Some(path) = &args.trace {
        write_file(path, results.trace())?;
    }
    if let Some(path) = &args.summary {
        write_file(path, format!("{:#}\n", results.json()))?;
    }
    Ok(())
}

/// A file, and what it says.
fn load(path: &Path) -> Result<(HostConfig, String)> {
    let text = check::read(path)?;
    kinds::expect(Kind::Host, path, &text)?;
    let (loaded, found) = match host::load(&path.display().to_string(), &text) {
        Ok(loaded) => (Some(loaded.config), loaded.warnings),
        Err(found) => (None, found),
    };
    for diagnostic in &found {
        say_err!("{diagnostic}\n");
    }
    loaded.map(|config| (config, text)).ok_or_else(|| {
        let errors: usize = found.iter().filter(|d: &&Diagnostic| d.is_error()).map(|d| d.count).sum();
        anyhow!("{}: {}", path.display(), counted(errors, "error"))
    })
}

/// The core the hosts run on.
fn core(config: &HostConfig, available: &[usize]) -> Result<usize> {
    let Some(&first) = available.first() else {
        bail!("DPDK has no worker lcore: give it one, e.g. --lcores=0@0,1@1 or -l 0-1");
    };
    let core = config.ports.iter().find_map(|port| port.port.lcore).map_or(first, usize::from);
    if !available.contains(&core) {
        bail!("lcore = {core}, but workers can run on cores {available:?}");
    }
    Ok(core)
}

/// The configured rate, else that of the device.
fn link_rate(open: &OpenPort, port: &host::HostPort) -> u64 {
    // A device that does not tell its speed was refused when it was opened.
    port.port.rate.bps().or(open.rate).unwrap_or(u64::MAX)
}

/// Says what runs, port by port and connection by connection.
fn describe(
    config: &HostConfig,
    open: &[OpenPort],
    stations: &[weir_endpoint::station::Station],
) -> Result<()> {
    for ((port, open), station) in config.ports.iter().zip(open).zip(stations) {
        let driver = open.port.capabilities()?.driver;
        let pfc = devices::granted_pfc(open.pfc, &port.port);
        say!("host {} {} on {} ({driver}), pfc {pfc}", station.address(), port.mac, port.port.name);
        for pair in station.pairs() {
            say!("  connection {} to {}", pair.name(), pair.peer_name());
        }
    }
    Ok(())
}

/// One line a second, in place on a terminal.
struct Teller {
    next: Duration,
    last: Look,
    redraw: bool,
}

impl Teller {
    fn new() -> Self {
        Self { next: TELL, last: Look::default(), redraw: OUT.is_terminal() }
    }

    fn tell(&mut self, elapsed: Duration, look: Look) {
        if elapsed < self.next {
            return;
        }
        self.next += TELL;
        let ns = look.at.saturating_sub(self.last.at).max(1) as f64;
        let mbps = |now: u64, then: u64| Unit::MBPS.text((now - then) as f64 * 8e9 / ns);
        let mut line = Grid::new(&[">at", ">sent", ">received", "<wrong", "<again", "<cnps", "<paused"])
            .at_least(&[7, 19, 23, 7, 7, 6]);
        line.push([
            format!("{} s", elapsed.as_secs()),
            format!("sent {}", mbps(look.acknowledged, self.last.acknowledged)),
            format!("received {}", mbps(look.received, self.last.received)),
            format!("wrong {}", look.wrong),
            format!("again {}", look.retransmitted),
            format!("cnps {}", look.cnps),
            format!("paused {}", percent((look.paused - self.last.paused) as f64 / ns, 1)),
        ]);
        self.last = look;
        let text = line.body();
        OUT.raw(&if self.redraw { format!("\r{}\x1b[K", text.trim_end()) } else { text });
    }
}
