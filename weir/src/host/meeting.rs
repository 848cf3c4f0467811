//! Ranks that meet the others of their job at a controller (docs/inc.md, "Rendezvous"), and are told there what the file of the
//! host would have to say.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_config::host::{HostConfig, HostPort, HostQp, HostRank, HostTraffic};
use weir_dataplane::types::Nanos;
use weir_inc::rendezvous::{Answer, Join, LONGEST, Request, Seat};
use weir_inc::spec::{Kind, Operation, Policy};

use super::build::results_to;
use crate::output::say;

/// Time for all ranks to come.
const JOIN: Duration = Duration::from_secs(60);
/// Between two looks whether it is still waited for.
const LOOK: Duration = Duration::from_millis(200);
/// Time to connect, and to take or give a line once all have.
const LINE: Duration = Duration::from_secs(2);
/// What an engine waits for a rank by itself.
const PATIENCE: Nanos = 1_000_000_000;

/// Where ranks meet.
#[derive(Debug, Args)]
pub struct MeetingArgs {
    /// Controller (`weir inc controller`) at which the ranks of this file join those of other hosts. Its engine, queue pair numbers and tree replace those of the file.
    #[arg(long, value_name = "HOST:PORT", requires_all = ["token_file", "job"])]
    pub controller: Option<String>,
    /// File with the token that lets ranks in; nobody else may be able to read it.
    #[arg(long, value_name = "FILE", requires = "controller")]
    pub token_file: Option<PathBuf>,
    /// Name of the job, the same for all its ranks.
    #[arg(long, value_name = "NAME", requires = "controller")]
    pub job: Option<String>,
}

/// Ranks that have their seats.
#[derive(Debug, Default)]
pub struct Meeting(Vec<Connection>);

#[derive(Debug)]
struct Connection {
    lines: BufReader<TcpStream>,
    /// What has come of a line that is not whole.
    begun: Vec<u8>,
}

impl Meeting {
    /// Has all ranks of the file take their seats, if they are to. Waits until all ranks of the job have come, for as long as
    /// `duration`; `None`: that is over, or nobody wants to wait any more.
    ///
    /// # Errors
    /// No rank in the file, no controller there, or what it says against it.
    pub fn join(
        args: &MeetingArgs,
        config: &mut HostConfig,
        stop: impl Fn() -> bool,
        duration: Option<Duration>,
    ) -> Result<Option<Self>> {
        let (Some(address), Some(file), Some(job)) = (&args.controller, &args.token_file, &args.job) else {
            return Ok(Some(Self::default()));
        };
        let token = weir_mgmt::token::private_word(file).map_err(anyhow::Error::msg)?;
        let HostConfig { ports, traffic: HostTraffic::Roce { qps, .. }, .. } = config else {
            bail!("--controller: RC Link hosts cannot be ranks");
        };
        let mut connections = Vec::new();
        for qp in qps.iter().filter(|qp| qp.rank.is_some()) {
            let mut connection = Connection::to(address)?;
            connection.say(&Request::Join(Box::new(join(qp, &ports[qp.port], &token, job))))?;
            connections.push(connection);
        }
        ensure!(!connections.is_empty(), "--controller: no connection of the file has send = \"allreduce\"");
        say!("waiting for the other ranks of job `{job}` at {address}");
        let began = Instant::now();
        let over = || stop() || duration.is_some_and(|duration| began.elapsed() >= duration);
        let ranks = qps.iter_mut().filter(|qp| qp.rank.is_some());
        for (qp, connection) in ranks.zip(&mut connections) {
            match connection.seat(address, &over)? {
                Some(seat) => sit(qp, &seat)?,
                None => return Ok(None),
            }
        }
        Ok(Some(Self(connections)))
    }

    /// Why there will be no more sums, once the controller says so. Waits for nothing.
    pub fn failed(&mut self) -> Option<String> {
        self.0.iter_mut().find_map(|connection| match connection.heard() {
            Some(Answer::Failed { why }) => Some(why),
            _ => None,
        })
    }

    /// They need no more sums.
    pub fn leave(mut self) {
        for connection in &mut self.0 {
            // Who has gone is told nothing.
            let _ = connection.say(&Request::Leave {});
        }
    }
}

fn join(qp: &HostQp, port: &HostPort, token: &str, job: &str) -> Join {
    let rank = qp.rank.as_ref();
    let fold = rank.map(|rank| rank.fold);
    Join {
        token: token.to_owned(),
        job: job.to_owned(),
        hosts: rank.map_or(0, |rank| rank.tree.ranks().len() as u16),
        index: rank.map_or(0, |rank| rank.rank),
        ip: port.ip,
        mac: port.mac.to_string(),
        qpn: qp.qpn,
        operation: Operation {
            kind: Kind::AllReduce,
            operator: fold.map(|fold| fold.operator()),
            data_type: fold.map(|fold| fold.data_type()),
            byte_order: fold.map(|fold| fold.order()),
            root: None,
        },
        mtu: qp.mtu,
        window: 256,
        straggler: Policy::Wait,
        deadline_ns: None,
        // As patient with the rank as it is itself.
        patience_ns: Some(PATIENCE.max(qp.ack_timeout.saturating_mul(u64::from(qp.retries) + 1))),
        psn: None,
        write: rank.is_some_and(|rank| rank.write),
        results_to: results_to(qp, port.first_qpn).map(Into::into),
        mirror: false,
    }
}

/// What the file said, as the seat says it.
fn sit(qp: &mut HostQp, seat: &Seat) -> Result<()> {
    let of_seat = || format!("the seat of rank {}", seat.rank);
    qp.peer_ip = seat.ip;
    qp.peer_mac = Some(seat.mac.parse().map_err(anyhow::Error::msg).with_context(of_seat)?);
    (qp.peer_qpn, qp.send_psn, qp.recv_psn) = (seat.qpn, seat.send_psn, seat.recv_psn);
    (qp.mtu, qp.dscp, qp.priority) = (seat.mtu, seat.dscp, seat.priority);
    let write = qp.rank.as_ref().is_some_and(|rank| rank.write);
    if let Some(stream) = qp.stream.as_mut().filter(|_| write) {
        let memory =
            seat.memory.with_context(of_seat).context("the engine has given no memory to write to")?;
        ensure!(
            u64::from(stream.bytes) <= memory.bytes,
            "messages of {} bytes, and the memory of the engine has {}: use shorter ones, or inc.write = false",
            stream.bytes,
            memory.bytes
        );
        (stream.remote_address, stream.remote_key) = (Some(memory.addr), Some(memory.rkey));
    }
    if let Some(HostRank { rank, tree, .. }) = &mut qp.rank {
        (*rank, *tree) = (seat.rank, seat.tree.clone());
    }
    Ok(())
}

/// Nothing has come yet.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Connection {
    fn to(address: &str) -> Result<Self> {
        let of = || format!("controller {address}");
        let found = address.to_socket_addrs().with_context(of)?.next().with_context(of)?;
        let stream = TcpStream::connect_timeout(&found, LINE).with_context(of)?;
        stream.set_write_timeout(Some(LINE))?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Self { lines: BufReader::new(stream), begun: Vec::new() })
    }

    fn say(&mut self, request: &Request) -> Result<()> {
        let line = serde_json::to_string(request)? + "\n";
        self.lines.get_mut().write_all(line.as_bytes()).context("the controller does not listen")
    }

    /// The first answer; `None`: nobody waits for it any more.
    fn seat(&mut self, address: &str, over: &impl Fn() -> bool) -> Result<Option<Seat>> {
        let mut line = Vec::new();
        let began = Instant::now();
        let read = loop {
            let room = LONGEST.saturating_sub(line.len()) as u64;
            match (&mut self.lines).take(room).read_until(b'\n', &mut line) {
                Err(error) if is_silence(&error) && began.elapsed() < JOIN => {
                    if over() {
                        return Ok(None);
                    }
                }
                read => break read,
            }
        };
        let seat = match read {
            Ok(0) => bail!("controller {address}: the connection has ended"),
            Ok(_) => match serde_json::from_slice(&line).with_context(|| format!("controller {address}"))? {
                Answer::Seat(seat) => *seat,
                Answer::Refused { why } | Answer::Failed { why } => bail!("controller {address}: {why}"),
                Answer::Resumed {} => {
                    bail!("controller {address}: unexpected answer: resumed without having joined")
                }
            },
            Err(error) if is_silence(&error) => {
                bail!("controller {address}: not all ranks of the job came within {} s", JOIN.as_secs())
            }
            Err(error) => return Err(error).with_context(|| format!("controller {address}")),
        };
        self.lines.get_mut().set_nonblocking(true)?;
        Ok(Some(seat))
    }

    /// What the controller has said by now, if that is a line.
    fn heard(&mut self) -> Option<Answer> {
        let room = LONGEST.saturating_sub(self.begun.len()) as u64;
        // An end, or an error: nothing more will be heard. The engine, too, tells of the end of a job.
        let _ = (&mut self.lines).take(room).read_until(b'\n', &mut self.begun);
        if self.begun.last() != Some(&b'\n') {
            return None;
        }
        serde_json::from_slice(&std::mem::take(&mut self.begun)).ok()
    }
}
