//! Ranks that meet the others of their job at a controller (docs/inc.md, "Rendezvous"), and are told there what the file of the
//! host would have to say.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_config::host::{HostConfig, HostPort, HostQp, HostRank, HostTraffic};
use weir_dataplane::types::Nanos;
use weir_inc::rendezvous::{Answer, Join, LONGEST, Request, Resume, Seat};
use weir_inc::spec::{Kind, Operation, Policy};

use super::build::results_to;
use crate::controller::notice_the_dead;
use crate::output::say;

/// Time for all ranks to come.
const JOIN: Duration = Duration::from_secs(60);
/// Between two looks whether it is still waited for.
const LOOK: Duration = Duration::from_millis(200);
/// Time to connect, and to take or give a line once all have.
const LINE: Duration = Duration::from_secs(2);
/// Between two tries to come back to a controller.
const AGAIN: Duration = Duration::from_secs(1);
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
    address: String,
    line: Line,
    /// What brings it back to its seat; as long as it has none, nothing does.
    resume: Option<Resume>,
}

#[derive(Debug)]
enum Line {
    Open {
        lines: BufReader<TcpStream>,
        /// What has come of a line that is not whole.
        begun: Vec<u8>,
    },
    /// It has ended, and is made anew from then on.
    Ended(Instant),
    /// It is being made anew: whoever moves frames does not wait for that.
    Dialled(JoinHandle<Result<TcpStream>>),
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
            let join = Request::Join(Box::new(join(qp, &ports[qp.port], &token, job)));
            connections.push(Connection::to(address, &join)?);
        }
        ensure!(!connections.is_empty(), "--controller: no connection of the file has send = \"allreduce\"");
        say!("waiting for the other ranks of job `{job}` at {address}");
        let began = Instant::now();
        let over = || stop() || duration.is_some_and(|duration| began.elapsed() >= duration);
        let ranks = qps.iter_mut().filter(|qp| qp.rank.is_some());
        for (qp, connection) in ranks.zip(&mut connections) {
            // The index it joins with; the seat has another number for it.
            let index = qp.rank.as_ref().map_or(0, |rank| rank.rank);
            match connection.seat(&over)? {
                Some(seat) => {
                    connection.resume = Some(Resume { token: token.clone(), id: seat.id, index });
                    sit(qp, &seat)?;
                }
                None => return Ok(None),
            }
        }
        Ok(Some(Self(connections)))
    }

    /// Why there will be no more sums, once the controller says so. Comes back to one that was started anew. Waits for nothing.
    pub fn failed(&mut self) -> Option<String> {
        self.0.iter_mut().find_map(Connection::look)
    }

    /// They need no more sums.
    pub fn leave(self) {
        for connection in self.0 {
            // Who has gone is told nothing.
            let _ = connection.leave();
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

/// Connects, and says the first line.
fn dial(address: &str, first: &Request) -> Result<TcpStream> {
    let of = || format!("controller {address}");
    let found = address.to_socket_addrs().with_context(of)?.next().with_context(of)?;
    let stream = TcpStream::connect_timeout(&found, LINE).with_context(of)?;
    notice_the_dead(&stream)?;
    stream.set_write_timeout(Some(LINE))?;
    say(&stream, first)?;
    Ok(stream)
}

fn say(mut stream: &TcpStream, request: &Request) -> Result<()> {
    let line = serde_json::to_string(request)? + "\n";
    stream.write_all(line.as_bytes()).context("the controller does not listen")
}

impl Line {
    fn open(stream: TcpStream) -> Self {
        Self::Open { lines: BufReader::new(stream), begun: Vec::new() }
    }

    /// What has come by now. An error of kind [`is_silence`]: no line yet; an empty line, or another error: the connection has ended.
    fn hear(lines: &mut BufReader<TcpStream>, begun: &mut Vec<u8>) -> io::Result<Vec<u8>> {
        let room = LONGEST.saturating_sub(begun.len()) as u64;
        lines.take(room).read_until(b'\n', begun)?;
        // A line that is not whole is not ended by more.
        Ok(if begun.last() == Some(&b'\n') { std::mem::take(begun) } else { Vec::new() })
    }
}

impl Connection {
    fn to(address: &str, join: &Request) -> Result<Self> {
        let stream = dial(address, join)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Self { address: address.to_owned(), line: Line::open(stream), resume: None })
    }

    /// The first answer; `None`: nobody waits for it any more.
    fn seat(&mut self, over: &impl Fn() -> bool) -> Result<Option<Seat>> {
        let of = || format!("controller {}", self.address);
        let Line::Open { lines, begun } = &mut self.line else { bail!("{}: the connection has ended", of()) };
        let began = Instant::now();
        let read = loop {
            match Line::hear(lines, begun) {
                Err(error) if is_silence(&error) && began.elapsed() < JOIN => {
                    if over() {
                        return Ok(None);
                    }
                }
                read => break read,
            }
        };
        let seat = match read {
            Ok(line) if line.is_empty() => bail!("{}: the connection has ended", of()),
            Ok(line) => match serde_json::from_slice(&line).with_context(of)? {
                Answer::Seat(seat) => *seat,
                Answer::Refused { why } | Answer::Failed { why } => bail!("{}: {why}", of()),
                Answer::Resumed {} => bail!("{}: unexpected answer: resumed without having joined", of()),
            },
            Err(error) if is_silence(&error) => {
                bail!("{}: not all ranks of the job came within {} s", of(), JOIN.as_secs())
            }
            Err(error) => return Err(error).with_context(of),
        };
        lines.get_mut().set_nonblocking(true)?;
        Ok(Some(seat))
    }

    /// Reads what has come, and keeps the connection. Why there will be no more sums, if that was said.
    fn look(&mut self) -> Option<String> {
        match &mut self.line {
            Line::Open { lines, begun } => match Line::hear(lines, begun) {
                Ok(line) if !line.is_empty() => match serde_json::from_slice(&line) {
                    Ok(Answer::Failed { why } | Answer::Refused { why }) => return Some(why),
                    Ok(Answer::Resumed {}) => say!("controller {}: has us again", self.address),
                    // Of a controller of another time, perhaps.
                    Ok(Answer::Seat(_)) | Err(_) => {}
                },
                Err(error) if is_silence(&error) => {}
                Ok(_) | Err(_) => {
                    say!(
                        "controller {}: the connection has ended; sums go on, and it is tried again",
                        self.address
                    );
                    self.line = Line::Ended(Instant::now());
                }
            },
            Line::Ended(again) if *again <= Instant::now() => {
                let (address, resume) = (self.address.clone(), self.resume.clone()?);
                let dial = move || {
                    let stream = dial(&address, &Request::Resume(resume))?;
                    stream.set_nonblocking(true)?;
                    Ok(stream)
                };
                self.line = Line::Dialled(std::thread::spawn(dial));
            }
            Line::Dialled(thread) if thread.is_finished() => self.take_up(),
            Line::Ended(_) | Line::Dialled(_) => {}
        }
        None
    }

    /// Takes the connection that was made anew, or tries again a little later. Waits for it.
    fn take_up(&mut self) {
        let line = std::mem::replace(&mut self.line, Line::Ended(Instant::now() + AGAIN));
        if let Line::Dialled(thread) = line
            && let Ok(Ok(stream)) = thread.join()
        {
            self.line = Line::open(stream);
        }
    }

    /// It needs no more sums. One that has lost its connection comes back for that: who does not say so is waited for.
    fn leave(mut self) -> Result<()> {
        self.look();
        if let Line::Dialled(_) = self.line {
            self.take_up();
        }
        match (&self.line, self.resume) {
            (Line::Open { lines, .. }, _) => say(lines.get_ref(), &Request::Leave {}),
            (_, Some(resume)) => {
                let stream = dial(&self.address, &Request::Resume(resume))?;
                say(&stream, &Request::Leave {})
            }
            (_, None) => Ok(()),
        }
    }
}
