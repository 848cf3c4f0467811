//! What management sees of a run: published blocks of the workers, and the drivers' own counters.

use super::attached::Devices;
use super::control::{Control, Phase};
use super::inc::PageReader;
use super::off_core::Thread;
use crate::refusal::refuse;
use anyhow::{Error, Result, anyhow};
use nix::unistd::{AccessFlags, access};
use serde_json::Value;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use weir_config::{Config, MgmtConfig, MgmtSocket};
use weir_dataplane::stats::Published;
use weir_dpdk::telemetry::Answer;
use weir_dpdk::{Eal, Port, Started};
use weir_inc::job::Job;
use weir_mgmt::access::{Role, TokenFiles, Tokens, same_token};
use weir_mgmt::admin::{Desk, Orders, Shown, desk};
use weir_mgmt::board::Board;
use weir_mgmt::flows::FlowsReading;
use weir_mgmt::inc::EngineReading;
use weir_mgmt::lacp::LacpReading;
use weir_mgmt::lldp::LldpReading;
use weir_mgmt::mcast::McastReading;
use weir_mgmt::mirror_files::MirrorFileReading;
use weir_mgmt::server::{Options, Server, TlsFiles, default_socket};
use weir_mgmt::snapshot::{self, Link, News, NicStats, PortReading, PortState, Reading, Source, SwitchInfo};
use weir_mgmt::telemetry;

/// Drivers are asked this often: some answer by way of their firmware.
const ASK_DRIVERS: Duration = Duration::from_secs(1);

/// What the driver of a port said of its counters and its link, where it knows.
type Said = (NicStats, Option<Link>);

/// Everything a run publishes.
#[derive(Debug)]
pub struct Window {
    pub info: SwitchInfo,
    pub counters: Vec<Published>,
    pub gauges: Vec<Published>,
    pub loops: Vec<Published>,
    /// Threads of the workers.
    pub threads: Vec<Thread>,
    /// Bytes queued for each port, by input.
    pub carried: Vec<Published>,
    /// How each port marks.
    pub curves: Vec<Published>,
    /// Which flows are behind what happens at each port, if they are recorded.
    pub flows: Vec<Option<Published>>,
    pub devices: Devices,
    /// What the main thread knows of each port, once it has looked.
    pub states: Board<Vec<PortState>>,
    pub control: Control,
    /// Engines of in-network aggregation.
    pub engines: Vec<EngineWindow>,
    /// What happens beyond readings.
    pub news: Bulletin,
    /// What is known of neighbours.
    pub lldp: Board<LldpReading>,
    /// What is known of members of LAGs.
    pub lacp: Board<LacpReading>,
    /// Who has joined which groups.
    pub mcast: Board<McastReading>,
    /// What became of the files of mirrors.
    pub mirror_files: Board<Vec<MirrorFileReading>>,
    /// What the drivers said last, and when.
    pub asked: Option<(Instant, Vec<Said>)>,
}

/// What is seen of an engine.
#[derive(Debug)]
pub struct EngineWindow {
    /// Reports of its jobs.
    pub pages: PageReader,
    /// Jobs it is done with.
    pub gone: rtrb::Consumer<Box<Job>>,
    /// What was read last.
    pub reading: EngineReading,
}

impl EngineWindow {
    fn look(&mut self) -> EngineReading {
        // Their memory is given back here, where nobody polls.
        while self.gone.pop().is_ok() {}
        if let Some(reading) = self.pages.next(EngineReading::of) {
            self.reading = reading;
        }
        self.reading.clone()
    }
}

/// What the main thread tells whoever looks.
#[derive(Clone, Debug, Default)]
pub struct Bulletin(Arc<Mutex<Vec<News>>>);

impl Bulletin {
    /// Adds to it.
    pub fn push(&self, news: News) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(news);
    }
}

impl Source for Window {
    fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut *self.news.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn info(&self) -> SwitchInfo {
        self.info.clone()
    }

    fn read(&mut self) -> Reading {
        if self.asked.as_ref().is_none_or(|(at, _)| at.elapsed() >= ASK_DRIVERS) {
            let link = |port: &Port<Started>| port.link().ok();
            let link = |port| self.devices.ask(port, link).map(|link| Link { up: link.up, mbps: link.mbps });
            let said = |port| (self.devices.nic_stats(port), link(port));
            self.asked = Some((Instant::now(), (0..self.devices.len()).map(said).collect()));
        }
        let drivers = self.asked.iter().flat_map(|(_, drivers)| drivers);
        let cells = self.counters.iter().zip(&self.gauges).zip(&self.carried).zip(&self.curves);
        let cells = cells.zip(&self.flows).zip(drivers).enumerate();
        let states = self.states.get();
        Reading {
            phase: match self.control.phase() {
                Phase::Forward => snapshot::Phase::Forward,
                Phase::Drain => snapshot::Phase::Drain,
                Phase::Stop => snapshot::Phase::Stop,
            },
            ports: cells
                .map(|(port, (((((counters, gauges), carried), curve), flows), (nic, link)))| {
                    let (stats, latency) = PortReading::counted(counters);
                    let state = states.get(port);
                    PortReading {
                        stats,
                        latency,
                        gauges: gauges.read(),
                        nic: *nic,
                        link: link.map(|link| Link { up: state.map_or(link.up, |state| state.up), ..link }),
                        device: state.map(|state| state.device.clone()).unwrap_or_default(),
                        carried: carried.read_words(),
                        curve: curve.read(),
                        flows: flows.as_ref().map(|cell| Arc::new(FlowsReading::read(cell))),
                    }
                })
                .collect(),
            loops: self.loops.iter().map(Published::read).collect(),
            off_core: self.threads.iter().map(Thread::off_core).collect(),
            engines: self.engines.iter_mut().map(EngineWindow::look).collect(),
            lldp: self.lldp.get(),
            lacp: self.lacp.get(),
            mcast: self.mcast.get(),
            mirror_files: self.mirror_files.get(),
        }
    }
}

/// Starts management as configured; `None`: it is switched off altogether.
///
/// # Errors
/// An address, a socket or a token that cannot be had.
pub fn start(config: &Config, window: Window, shown: Shown) -> Result<(Option<Server>, Orders)> {
    let (desk, orders) = desk(shown);
    Ok((serve(config, window, desk)?, orders))
}

fn serve(config: &Config, window: Window, desk: Desk) -> Result<Option<Server>> {
    let mgmt = &config.mgmt;
    let socket = match &mgmt.socket {
        MgmtSocket::Off => None,
        MgmtSocket::Default => Some(default_socket(&config.name)),
        MgmtSocket::Path(path) => Some(PathBuf::from(path)),
    };
    if mgmt.listen.is_none() && socket.is_none() {
        return Ok(None);
    }
    let (tokens, refused) = secrets(mgmt);
    if let Some(error) = refused.into_iter().next() {
        return Err(error);
    }
    let options = Options {
        listen: mgmt.listen,
        any_port: !mgmt.chosen,
        socket,
        tokens,
        token_files: token_files(mgmt),
        tls: tls(mgmt),
        hosts: mgmt.hosts.clone(),
        desk: Some(desk),
        patience: None,
    };
    Ok(Some(Server::start(options, window)?))
}

fn tls(mgmt: &MgmtConfig) -> Option<TlsFiles> {
    mgmt.tls.as_ref().map(|tls| TlsFiles { cert: (&tls.cert).into(), key: (&tls.key).into() })
}

/// What is wrong with the files of tokens and of TLS, and with the socket, all of it: no switch starts with them.
pub fn refused_files(mgmt: &MgmtConfig) -> Vec<Error> {
    if (mgmt.listen, &mgmt.socket) == (None, &MgmtSocket::Off) {
        return Vec::new();
    }
    let mut refused = secrets(mgmt).1;
    if let MgmtSocket::Path(path) = &mgmt.socket {
        refused.extend(in_the_way(Path::new(path)).map(|what| {
            refuse("mgmt.socket", format!("{path}: {what}"), "choose another `[mgmt] socket`, or \"off\"")
        }));
    }
    refused
}

/// Why no socket can be made there.
fn in_the_way(path: &Path) -> Option<&'static str> {
    if let Ok(there) = path.symlink_metadata() {
        return (!there.file_type().is_socket()).then_some("what is there is not a socket, and stays");
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute.ancestors().skip(1).find(|folder| folder.exists())?;
    if !folder.is_dir() {
        return Some("one of its folders is a file");
    }
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
        .is_err()
        .then_some("its folder may not be written to")
}

fn token_files(mgmt: &MgmtConfig) -> TokenFiles {
    let path = |file: &Option<String>| file.as_ref().map(PathBuf::from);
    TokenFiles {
        read: path(&mgmt.token_file),
        operate: path(&mgmt.operate_token_file),
        admin: path(&mgmt.admin_token_file),
    }
}

/// The tokens, and what is wrong with them and with the files of TLS.
fn secrets(mgmt: &MgmtConfig) -> (Tokens, Vec<Error>) {
    let files = token_files(mgmt);
    let (tokens, unusable) = files.read();
    let mut refused: Vec<Error> =
        unusable.into_iter().map(|(role, why)| anyhow!("{}: {why}", role.key())).collect();
    let file = |role: Role| {
        let (_, path) = files.by_role().into_iter().find(|(of, _)| *of == role)?;
        std::fs::canonicalize(path?).ok()
    };
    refused.extend(tokens.alike().into_iter().map(|(low, high)| {
        let remedy = match file(low) == file(high) {
            true => "name another file, with another token in it",
            false => "write another one into it",
        };
        refuse(high.key(), same_token(low, high), remedy)
    }));
    if let Some(Err(why)) = tls(mgmt).map(|files| files.check()) {
        refused.push(anyhow!("mgmt.tls_cert, mgmt.tls_key: {why}"));
    }
    (tokens, refused)
}

/// What is wrong with the dates of the certificate, and what to do: a switch starts with it, and clients turn it down.
pub fn misdated(mgmt: &MgmtConfig) -> Option<(String, &'static str)> {
    mgmt.listen?;
    let validity = tls(mgmt)?.check().ok()??;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Some((format!("the certificate {}", validity.fault(now)?), validity.at(now).remedy()))
}

/// Serves the snapshot on DPDK's telemetry socket, too.
///
/// # Errors
/// DPDK does not take a command.
pub fn answer_telemetry(eal: &Eal, server: &Server) -> Result<()> {
    for command in telemetry::COMMANDS {
        let latest = server.latest();
        eal.telemetry(command.name, command.help, move |parameters| {
            Some(answer(telemetry::answer(command, &latest.get(), parameters)?))
        })?;
    }
    Ok(())
}

/// JSON in the forms telemetry knows: a number is a whole one, what is more than text or number is a dictionary.
fn answer(value: Value) -> Answer {
    match value {
        Value::Array(all) => Answer::Texts(all.iter().map(|v| v.as_str().unwrap_or("").to_owned()).collect()),
        Value::Object(parts) => Answer::Dict(parts.into_iter().map(|(k, v)| (k, answer(v))).collect()),
        Value::String(text) => Answer::Text(text),
        value => value.as_u64().map_or_else(|| Answer::Text(value.to_string()), Answer::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_that_cannot_be_made_is_told_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "precious").unwrap();
        let _listener = UnixListener::bind(path("alive.sock")).unwrap();
        for (name, why) in [
            ("new.sock", None),
            ("new/folder/s.sock", None),
            ("alive.sock", None),
            ("file", Some("not a socket")),
            ("file/s.sock", Some("a file")),
        ] {
            let told = in_the_way(&path(name));
            assert_eq!(told.is_some(), why.is_some(), "{name}: {told:?}");
            assert!(why.is_none_or(|why| told.is_some_and(|told| told.contains(why))), "{name}: {told:?}");
        }
        let mgmt = |socket: MgmtSocket| {
            let config =
                weir_config::load("t", "[[port]]\nname = \"p0\"\ndevice = \"ring\"\n").unwrap().config;
            refused_files(&MgmtConfig { socket, ..config.mgmt })
        };
        let refused = mgmt(MgmtSocket::Path(path("file").display().to_string()));
        assert!(refused.len() == 1 && format!("{:#}", refused[0]).contains("mgmt.socket"), "{refused:?}");
        assert!(mgmt(MgmtSocket::Default).is_empty() && mgmt(MgmtSocket::Off).is_empty());
    }
}
