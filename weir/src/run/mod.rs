//! `weir run`: a configuration becomes a switch on worker lcores, until somebody says stop.

pub mod af_packet;
mod attached;
pub mod control;
pub mod devargs;
pub mod devices;
mod inc;
pub mod io;
pub mod kernel;
mod lacp;
mod launched;
mod links;
mod lldp;
pub mod local;
mod mcast;
pub mod memory;
pub mod mgmt;
mod mirror;
pub mod misfits;
pub mod mtu;
mod notify;
pub mod off_core;
mod office;
pub mod privileges;
pub mod sockets;
mod stages;
pub mod summary;
pub mod worker;

use crate::Outcome;
use crate::check;
use crate::file::{can_write, not_over};
use crate::log;
use crate::output::{self, OUT, say, say_err};
use anyhow::{Context, Result, bail};
use attached::Devices;
use control::{Control, Phase};
use devices::OpenPort;
use io::DpdkWire;
use lacp::Lacp;
use launched::Launched;
use links::{Links, Opening};
use lldp::Lldp;
use local::Line;
use mcast::Mcast;
use memory::PoolSize;
use mirror::Mirrors;
use mtu::Carries;
use notify::Notifier;
use off_core::{Absence, Thread};
use office::{Granting, Office, Work, Workers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use sockets::MemifSockets;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use summary::PortTotals;
use weir_config::runtime::{self, Device, NOMINAL_RATE};
use weir_config::{Config, PortConfig};
use weir_dataplane::stats::Published;
use weir_dataplane::switch::{Conservation, LocalProtocol, Tapped};
use weir_dataplane::turn;
use weir_dataplane::types::{Mac, PortId};
use weir_dpdk::{Clock, Eal, Interrupts, Mbuf, Mempool};
use weir_layout::{Grid, counted};
use weir_mgmt::admin::{InForce, Shown};
use weir_mgmt::board::Board;
use weir_mgmt::server::Server;
use weir_mgmt::snapshot::Granted;
use worker::{RING_LIMIT_EIGHTHS, Worker, WorkerEnds, WorkerPort};

use crate::quantity::time;
use clap::Args;
pub use devices::FarEnd;
use std::path::{Path, PathBuf};
pub use summary::Totals;

/// `weir run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file.
    pub config: PathBuf,
    /// Stop after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Write totals, drops, latency and conservation to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Log events on standard error.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
}

/// How long what is queued may take to leave at the end of a run.
const DRAIN: Duration = Duration::from_secs(2);

/// How often the main thread looks at links and time.
const LOOK: Duration = Duration::from_millis(20);

/// A running switch.
#[derive(Debug)]
pub struct Running {
    /// Held back where a driver needs that. First, so that it ends before a port does.
    _interrupts: Option<Interrupts>,
    /// So early that it ends before what it looks at.
    mgmt: Option<Server>,
    names: Vec<String>,
    /// Who does PFC on each port.
    pfc: Vec<&'static str>,
    devices: Devices,
    workers: Launched,
    /// Their threads.
    threads: Vec<Thread>,
    office: Office,
    owner: Vec<usize>,
    links: Links,
    lldp: Lldp,
    lacp: Lacp,
    mcast: Mcast,
    mirrors: Mirrors,
    kernel: kernel::Watch,
    control: Control,
    /// Counters of each port, for readers on other threads.
    pub counters: Vec<Published>,
    /// State of each port, for readers on other threads.
    pub gauges: Vec<Published>,
    /// Loop of each worker, for readers on other threads.
    pub loops: Vec<Published>,
    /// Where frames of the first worker come from.
    pub pool: Mempool,
    /// Ends of in-process rings, one per port that has one.
    pub far: Vec<Option<FarEnd>>,
    started: Instant,
    /// Where peers of memif servers connect: after the ports, which may have a last word for theirs.
    _memif: MemifSockets,
    /// DPDK.
    pub eal: Eal,
}

/// Asked to stop by a signal.
#[derive(Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// The first signal has been seen: from now on a signal kills.
    seen: Arc<AtomicBool>,
}

impl Stop {
    /// Catches SIGINT and SIGTERM. Two flags, so that no signal can fall between two handlers and be lost.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn on_signal() -> Result<Self> {
        Self::on(&[SIGINT, SIGTERM])
    }

    /// The same, of these signals.
    ///
    /// # Errors
    /// The same.
    pub fn on(signals: &[i32]) -> Result<Self> {
        let stop = Self { asked: Arc::default(), seen: Arc::default() };
        for &signal in signals {
            signal_hook::flag::register(signal, Arc::clone(&stop.asked))
                .and_then(|_| signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop.seen)))
                .context("cannot catch signals")?;
        }
        Ok(stop)
    }

    /// Somebody has asked. The next signal kills.
    pub fn asked(&self) -> bool {
        let asked = self.asked.load(Relaxed);
        if asked {
            self.seen.store(true, Relaxed);
        }
        asked
    }
}

pub fn run(args: &RunArgs, eal: &[String]) -> Result<Outcome> {
    let hangup = hangup()?;
    let stop = Stop::on_signal()?;
    output::detach()?;
    not_over(args.summary.as_deref(), [args.config.as_path()])?;
    can_write(&args.summary)?;
    let config = check::load(&args.config)?.config;
    log::start(args.log.as_deref());
    let mut running = Running::start(&config, eal, 0, &Origin::File(args.config.clone()), hangup)?;
    let mirrors = config.mirrors.iter().filter_map(|mirror| Some(Path::new(&mirror.file()?.path)));
    let files = [args.config.as_path()].into_iter().chain(args.summary.as_deref()).chain(mirrors);
    privileges::give_up_rest(&config.ports, files);
    running.describe(&config);
    let mut notifier = Notifier::ready(&config.name, running.loops.clone());
    let deadline = args.duration.map(|time| Instant::now() + time);
    while !stop.asked() && deadline.is_none_or(|at| Instant::now() < at) {
        running.attend(LOOK);
        notifier.look();
    }
    Notifier::stopping();
    let totals = running.stop()?;
    // The file first: it waits for nobody.
    let summary = args.summary.as_ref().map_or(Ok(()), |path| totals.write(path));
    totals.print();
    summary?;
    Ok(if totals.is_good() { Outcome::Good } else { Outcome::Bad })
}

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A file, which SIGHUP reads again.
    File(std::path::PathBuf),
    /// The program itself.
    BuiltIn(&'static str),
}

impl Origin {
    fn file(&self) -> Option<std::path::PathBuf> {
        if let Self::File(path) = self { Some(path.clone()) } else { None }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::BuiltIn(name) => f.write_str(name),
        }
    }
}

/// SIGHUP no longer ends the program: it asks for the configuration to be read again, as soon as there is a switch. To be
/// asked for before the file is read the first time. Nor does a file that has grown to the limit of its size (SIGXFSZ) end
/// the program: that is an error of whoever writes it.
///
/// # Errors
/// The signal handlers cannot be installed.
pub fn hangup() -> Result<Arc<AtomicBool>> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot catch SIGXFSZ")?;
    let flag = Arc::<AtomicBool>::default();
    signal_hook::flag::register(SIGHUP, Arc::clone(&flag)).context("cannot catch SIGHUP")?;
    Ok(flag)
}

impl Running {
    /// Starts DPDK, opens all ports, launches the workers. Nothing runs unless everything does.
    /// `extra`: frames that others in this process may hold. `hangup`: SIGHUP has come.
    ///
    /// # Errors
    /// What stands in the way, and what to change.
    pub fn start(
        config: &Config,
        eal_args: &[String],
        extra: u64,
        origin: &Origin,
        hangup: Arc<AtomicBool>,
    ) -> Result<Self> {
        // Before the EAL is up only the lcores the configuration names are known.
        let named = weir_config::workers(&config.ports);
        let size = PoolSize::of(config, named, extra);
        let eal = devices::start_eal(&config.ports, &config.eal_args, eal_args, size, named)?;
        if config.mgmt.dumpcap && !eal.allow_capture() {
            say_err!("weir: mgmt.dumpcap: dpdk-dumpcap cannot attach, it takes hugepages ([eal] args)");
        }
        let (cores, owner) = place(config, &eal)?;
        let mut memif = MemifSockets::default();
        let (pools, ports) = devices::open(&eal, &config.ports, &owner, cores.len(), size, &mut memif)?;
        let device = |((port, shard), settings): ((&OpenPort, &usize), &PortConfig)| Device {
            mac: port.mac,
            rate: port.rate,
            shard: *shard as u8,
            tx_per_lcore: !port.tx_of_others.is_empty(),
            pfc: port.software_pfc,
            partial_checksums: kernel::interface(&settings.device).is_some(),
        };
        let pfc = ports.iter().map(|port| port.pfc).collect();
        let described: Vec<Device> = ports.iter().zip(&owner).zip(&config.ports).map(device).collect();
        let granted = |(port, shard): (&OpenPort, &usize)| Granted {
            driver: port.capabilities.driver.clone(),
            rate: port.rate,
            lcore: cores[*shard],
            software_pfc: port.software_pfc,
            pfc_frames: port.capabilities.mac_control.text(),
            tx_per_lcore: !port.tx_of_others.is_empty(),
        };
        let granted = ports.iter().zip(&owner).map(granted).collect();
        let tx_queues = ports.iter().map(|port| 1 + port.tx_of_others.len()).collect();
        let clock = Clock::new(&eal);
        let granting = Granting {
            dpdk: eal.version(),
            hz: clock.hz(),
            devices: described.clone(),
            granted,
            cores: cores.clone(),
        };
        let info = granting.info(config);
        let params = runtime::switch_params(config, &described, cores.len())?;
        let shards = Tapped::<Mbuf>::observed_shards(&params, cores.len())?;
        let cells = |of: fn(&Tapped<Mbuf>, PortId) -> Published| {
            (0..ports.len()).map(|i| of(&shards[owner[i]], PortId(i as u16))).collect::<Vec<_>>()
        };
        let (counters, gauges) = (cells(Tapped::published), cells(Tapped::published_gauges));
        let carried = cells(Tapped::published_carried);
        let flows = (0..ports.len()).map(|i| shards[owner[i]].published_flows(PortId(i as u16))).collect();

        let control = Control::new(cores.len());
        let handles = || ports.iter().map(|open| &open.port);
        let interrupts = eal.beside_workers(&cores, || devices::hold_interrupts(&eal, handles()))?;
        let mut hired = Workers::default();
        let mut departures = Vec::new();
        let mut workers: Vec<Worker> = shards
            .into_iter()
            .enumerate()
            .map(|(shard, switch)| {
                let (commands, replies) = hired.hire();
                let (departed, departure) = rtrb::RingBuffer::new(ports.len());
                departures.push(departure);
                let own = owner.iter().filter(|o| **o == shard).count();
                let ends = WorkerEnds { commands, replies, departed };
                let frames = turn::frames(own, config.pfc.poll_gap);
                let mut worker = Worker::new((shard, switch), frames, clock, control.clone(), ends);
                worker.polling = interrupts.as_ref().map(Interrupts::polling);
                worker
            })
            .collect();
        let mut handles = Vec::new();
        let mut far = Vec::new();
        let mut engines = Vec::new();
        let mut curves = Vec::new();
        let mut capabilities = Vec::new();
        let carries: Vec<Option<Carries>> = config.ports.iter().map(af_packet::carries).collect();
        for (i, open) in ports.into_iter().enumerate() {
            let limit = open.ring_size * RING_LIMIT_EIGHTHS / 8;
            let id = PortId(i as u16);
            for (lcore, tx) in open.tx_of_others {
                let wire = DpdkWire::new(tx, pools[lcore].clone(), carries[i].clone());
                workers[lcore].others.push((id, wire));
            }
            let wire = DpdkWire::new(open.tx, pools[owner[i]].clone(), carries[i].clone());
            let mut port = WorkerPort::new(id, open.rx, wire, Some(limit));
            port.curve.follow(workers[owner[i]].switch.marking(id));
            curves.push(port.published_curve.clone());
            workers[owner[i]].ports.push(port);
            handles.push(open.port);
            capabilities.push(open.capabilities);
            far.push(match (config.ports[i].engine, open.far) {
                (Some(engine), Some(end)) => {
                    let rate = config.ports[i].rate.within(open.rate).unwrap_or(NOMINAL_RATE);
                    let pool = pools[owner[i]].clone();
                    let wire = DpdkWire::new(end.tx, pool.clone(), None);
                    let (end, window) = inc::behind(id, (end.rx, wire, pool), engine, rate);
                    workers[owner[i]].engines.push(end);
                    engines.push(window);
                    None
                }
                (_, end) => end,
            });
        }
        // Ports were given to their workers in order, so those of each are in it, too.
        let lines = |protocol: LocalProtocol| -> Vec<Line> {
            let mut next = vec![0; workers.len()];
            let line = |owner: &usize| {
                let Worker { switch, ports, .. } = &mut workers[*owner];
                next[*owner] += 1;
                Line::new(switch, &mut ports[next[*owner] - 1], protocol)
            };
            owner.iter().map(line).collect()
        };
        let [lldp, lacp, mcast] =
            [LocalProtocol::Lldp, LocalProtocol::Lacp, LocalProtocol::Membership].map(lines);
        let devices = Devices::new(handles.into_iter().zip(carries));
        let copies = workers.iter_mut().map(|worker| worker.switch.read_mirrors()).collect();
        let loops: Vec<Published> = workers.iter().map(|worker| worker.published.clone()).collect();
        let threads: Vec<Thread> = workers.iter().map(|_| Thread::new()).collect();
        let window = mgmt::Window {
            info,
            threads: threads.clone(),
            counters: counters.clone(),
            gauges: gauges.clone(),
            loops: loops.clone(),
            carried,
            curves,
            flows,
            devices: devices.clone(),
            states: Board::default(),
            control: control.clone(),
            engines,
            news: mgmt::Bulletin::default(),
            lldp: Board::default(),
            lacp: Board::default(),
            mcast: Board::default(),
            mirror_files: Board::default(),
            asked: None,
        };
        let source = origin.to_string();
        let shown = Shown::new(InForce {
            source,
            config: config.clone(),
            params,
            unconfirmed: None,
            unsettled: None,
        });
        let macs: Vec<Mac> = described.iter().map(|device| device.mac).collect();
        let lacp = Lacp::new(lacp, owner.clone(), macs.clone(), window.lacp.clone());
        let mcast = Mcast::new(mcast, window.mcast.clone());
        let lldp = Lldp::new(lldp, macs, shown.get(), window.lldp.clone());
        let (news, states) = (window.news.clone(), window.states.clone());
        let mirrors = Mirrors::new(copies, shown.clone(), clock, window.mirror_files.clone(), news.clone());
        let started = eal.beside_workers(&cores, || {
            // Away from the workers, as all that runs beside them.
            output::detach()?;
            mgmt::start(config, window, shown.clone())
        })?;
        let (mgmt, orders) = started;
        if let Some(mgmt) = &mgmt {
            mgmt::answer_telemetry(&eal, mgmt)?;
        }
        let office = Office {
            speeds: granting.speeds(),
            orders,
            shown,
            news,
            granting,
            clock,
            eal: eal.clone(),
            workers: hired,
            started: Arc::new(config.clone()),
            file: origin.file(),
            hangup,
            work: Work::default(),
        };
        let pool = pools[0].clone();
        let opening = Opening { pools, tx_queues };
        let mut running = Launched::new(control.clone());
        for ((worker, core), thread) in workers.into_iter().zip(cores).zip(threads.clone()) {
            let work = move || {
                thread.is_this_one();
                worker.run()
            };
            running.launch(&eal, core, work)?;
        }
        Ok(Self {
            _interrupts: interrupts,
            mgmt,
            names: config.ports.iter().map(|port| port.name.clone()).collect(),
            pfc,
            kernel: kernel::Watch::new(&config.ports),
            links: Links::new(&config.ports, capabilities, &owner, opening, (departures, states)),
            lldp,
            lacp,
            mcast,
            devices,
            mirrors,
            workers: running,
            threads,
            office,
            owner,
            control,
            counters,
            gauges,
            loops,
            pool,
            far,
            started: Instant::now(),
            _memif: memif,
            eal,
        })
    }

    /// Says what runs, port by port, with what was granted.
    pub fn describe(&self, config: &Config) {
        tracing::info!(
            switch = config.name,
            ports = self.devices.len(),
            workers = self.workers.len(),
            "forwarding"
        );
        let workers = counted(self.workers.len(), "worker");
        say!("switch {} on {}, {workers}", config.name, self.eal.version());
        if let Some(mgmt) = &self.mgmt {
            let unix = mgmt.socket().map(|path| path.display().to_string());
            let both: Vec<String> = mgmt.url().into_iter().chain(unix).collect();
            say!("management on {}", both.join(" and "));
        }
        let mut grid = Grid::new(&["<", "<port", "<device", "<driver", "<pfc"]);
        for (port, (granted, settings)) in self.pfc.iter().zip(&config.ports).enumerate() {
            let Ok(c) = self.devices.ask(port, |port| port.capabilities()) else { continue };
            let pfc = devices::granted_pfc(granted, settings);
            let driver = format!("driver {}", c.driver);
            grid.push([
                String::new(),
                settings.name.clone(),
                settings.device.clone(),
                driver,
                format!("pfc {pfc}"),
            ]);
            if *granted == "not kept" {
                let why = devices::no_pfc(&c);
                say_err!("weir: port {}: its lossless priorities can be lost: {why}", settings.name);
            }
        }
        OUT.text(&grid.body());
    }

    /// Spends `time` on orders that come, and looks at what else may have happened.
    pub fn attend(&mut self, time: Duration) {
        self.office.attend(time);
        self.links.attend(&self.devices, &mut self.office);
        let links = &self.links;
        let in_force = self.office.shown.get();
        self.lldp.attend(Arc::clone(&in_force), &|port| links.is_up(port));
        self.lacp.attend(Arc::clone(&in_force), &|port| links.is_up(port), &mut self.office.workers);
        self.mcast.attend(in_force, &|port| links.is_up(port), &mut self.office.workers);
        self.mirrors.attend(&self.eal, &self.office.granting.cores);
        for found in self.kernel.look(&self.counters) {
            self.office.report_offloads(&found);
        }
    }

    /// Drains, stops the workers, and adds everything up.
    ///
    /// # Errors
    /// A worker panicked.
    pub fn stop(mut self) -> Result<Totals> {
        self.lldp.end();
        self.lacp.end();
        let seconds = self.started.elapsed().as_secs_f64();
        let in_force = self.office.shown.get();
        let absence = |(thread, lcore): (&Thread, &usize)| Absence {
            lcore: *lcore,
            ns: thread.off_core().map(|off| off.ns),
        };
        let absences = self.threads.iter().zip(&self.office.granting.cores).map(absence).collect();
        tracing::info!(seconds, "draining");
        self.control.enter(Phase::Drain);
        let deadline = Instant::now() + DRAIN;
        // A worker reports once per turn: two empty looks in a row are an empty switch.
        let mut empty = 0;
        while empty < 2 && Instant::now() < deadline {
            std::thread::sleep(LOOK);
            empty = if self.control.held() == 0 { empty + 1 } else { 0 };
        }
        let mut workers = self.workers.stop()?;
        let longest_turn = workers.iter().map(|worker| worker.stats.longest_turn_ns).max().unwrap_or(0);
        let now = workers.iter().map(|worker| worker.clock.now()).max().unwrap_or(0);
        // What was on its way between two workers when they stopped arrives, and is dropped by name.
        settle(&mut workers, now);
        workers.iter_mut().for_each(|worker| worker.switch.abandon());
        settle(&mut workers, now);
        self.mirrors.end();
        let mut conservation = Conservation::default();
        workers.iter().for_each(|worker| conservation.add(&worker.switch.conservation()));
        let ports = (0..self.devices.len())
            .map(|i| {
                let (id, switch) = (PortId(i as u16), &workers[self.owner[i]].switch);
                let (reaction, generator) = (switch.reaction(id), switch.generator(id));
                PortTotals {
                    name: self.names[i].clone(),
                    stats: switch.stats(id).clone(),
                    latency: switch.latency(id).clone(),
                    lossless: in_force.config.ports[i].pgs.iter().any(|pg| pg.lossless),
                    nic: self.devices.nic_stats(i),
                    pfc_rx: reaction.counters().pfc_frames,
                    pfc_tx: generator.counters().pfc_frames,
                    invalid_control: reaction.counters().invalid.iter().sum(),
                    paused_ns: (0..8).map(|priority| reaction.paused_ns(priority, now)).sum(),
                }
            })
            .collect();
        Ok(Totals { ports, conservation, absences, seconds, longest_turn })
    }
}

/// Lets everything that is between workers arrive.
fn settle(workers: &mut [Worker], now: u64) {
    while workers.iter().any(|worker| worker.switch.expects_more()) {
        workers.iter_mut().for_each(|worker| worker.switch.tick(now));
    }
}

/// Which cores run workers, and which worker owns each port.
fn place(config: &Config, eal: &Eal) -> Result<(Vec<usize>, Vec<usize>)> {
    let available = eal.cores();
    let Some(&first) = available.first() else {
        bail!("DPDK has no worker lcore: give it one, e.g. --lcores=0@0,1@1 or -l 0-1");
    };
    let mut cores: Vec<usize> = Vec::new();
    let mut owner = Vec::new();
    for port in &config.ports {
        let core = port.lcore.map_or(first, usize::from);
        if !available.contains(&core) {
            bail!("port {}: lcore = {core}, but workers can run on cores {available:?}", port.name);
        }
        let worker = cores.iter().position(|c| *c == core).unwrap_or_else(|| {
            cores.push(core);
            cores.len() - 1
        });
        owner.push(worker);
    }
    Ok((cores, owner))
}
