//! `weir inc controller`: plans trees over the switches of a fabric, seats hosts, posts jobs, notices failures.
//!
//! One thread decides ([`weir_inc::controller::desk`]); each host's connection has one that reads, each switch one that
//! speaks with it, so that a dead switch holds up nobody.

mod hosts;
mod inccl;
mod sessions;
mod store;
mod switches;

use crate::Outcome;
use crate::check;
use crate::kinds::{self, Kind};
use crate::output::{self, say};
use anyhow::{Context, Error, Result, bail};
use clap::Args;
use hosts::Hosts;
use inccl::Groups;
use serde::Deserialize;
pub use sessions::notice_the_dead;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};
use store::Store;
use switches::Orders;
use weir_config::Tables;
use weir_inc::controller::desk::{Action, Desk, Event};
use weir_inc::controller::topology::Topology;
use weir_layout::agree;
use weir_mgmt::token::{Token, private_word};

/// Time between two looks at what time has brought.
const TICK: Duration = Duration::from_millis(250);
/// Time for switches to say which jobs they have, at the start: what one has for any answer, and some.
const FIRST_LOOK: Duration = Duration::from_secs(3);

/// `weir inc controller`
#[derive(Debug, Args)]
pub struct ControllerArgs {
    /// The fabric: switches with their engines, hosts, links (TOML).
    pub topology: PathBuf,
    /// Address that hosts connect to.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:52300")]
    pub listen: SocketAddr,
    /// File with the token that lets hosts in; nobody else may be able to read it.
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Address that hosts with INCCL connect to (its port is 52200). They present no token: whoever reaches this address can begin a job
    /// among the hosts of the fabric.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub inccl: Option<SocketAddr>,
    /// File that keeps the state of jobs, so that they survive a restart of the controller; not kept unless given.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
}

/// A topology as it is written down.
fn topology_of(text: &str) -> Result<Topology, toml::de::Error> {
    Topology::deserialize(Tables(toml::Deserializer::parse(text)?))
}

pub fn controller(args: &ControllerArgs) -> Result<Outcome> {
    let file = args.topology.display();
    let text = check::read(&args.topology)?;
    kinds::expect(Kind::Topology, &args.topology, &text)?;
    let topology = topology_of(&text).with_context(|| file.to_string())?;
    let map = topology.map().with_context(|| file.to_string())?;
    let secret = private_word(&args.token_file).map_err(Error::msg)?;
    let mut store = Store::open(args.state.clone())?;
    // Nobody who reads what is said keeps hosts waiting.
    output::detach()?;
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&asked)).context("cannot catch signals")?;
    }
    let began = Instant::now();
    let now = || began.elapsed().as_millis() as u64;
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
    let nodes: BTreeMap<usize, String> =
        map.engines.keys().map(|node| (*node, map.names[*node].clone())).collect();
    let (events, happened) = channel::<Event>();
    let groups = match args.inccl {
        Some(address) => Some(Groups::listen(address, inccl::LINGER, &map, secret.clone(), events.clone())?),
        None => None,
    };
    let mut desk = Desk::new(map, secret, store.take(), seed, now());
    for (id, name, _) in desk.jobs() {
        say!("job {id} (`{name}`): its hosts may come back");
    }
    let mut orders: BTreeMap<usize, Orders> = BTreeMap::new();
    for (node, name) in &nodes {
        let spec = topology.switches.iter().find(|s| s.name == *name);
        let Some((spec, api)) = spec.and_then(|spec| Some((spec, spec.api.as_deref()?))) else { continue };
        let token =
            spec.token_file.as_deref().map(private_word).transpose().map_err(Error::msg)?.map(Token::new);
        orders.insert(*node, Orders::start(*node, api, token, events.clone())?);
    }
    // Numbers of jobs that switches have are not given again: they are asked before the first host may come.
    let mut early = first_look(&happened, orders.keys().copied().collect());
    let mut hosts = Hosts::listen(args.listen, events)?;
    let engines = agree(orders.len(), "switch with engines", "switches with engines");
    say!("controller {}: {} {engines}", hosts.address(), orders.len());
    if let Some(groups) = &groups {
        say!("INCCL {}: its hosts are let in without a token", groups.address());
    }
    let mut looked = Instant::now();
    while !asked.load(Ordering::Relaxed) {
        let next = early.pop_front().map_or_else(|| happened.recv_timeout(TICK), Ok);
        let mut actions = match next {
            Ok(event) => {
                if let Event::Closed(connection) = event {
                    hosts.forget(connection);
                }
                desk.handle(event, now())
            }
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => bail!("all its threads have ended: please report it"),
        };
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            actions.extend(desk.tick(now()));
            if store.is_behind() {
                actions.push(Action::Save);
            }
        }
        for action in actions {
            match action {
                Action::Say(to, answer) => match &groups {
                    Some(groups) if Groups::has(to) => groups.say(to, answer),
                    _ => hosts.say(to, &answer),
                },
                Action::HangUp(to) => hosts.hang_up(to),
                Action::Post(switch, spec) => order(&orders, switch, |o| o.post(*spec)),
                Action::End(switch, id, port) => order(&orders, switch, |o| o.end(id, port)),
                Action::Save => store.keep(&desk.save()),
                Action::Note(text) => say!("{text}"),
            }
        }
    }
    Ok(Outcome::Good)
}

/// What switches say first, before all else that has happened meanwhile. Who does not answer in time is not waited for.
fn first_look(happened: &Receiver<Event>, mut silent: BTreeSet<usize>) -> VecDeque<Event> {
    let (mut looks, mut others) = (VecDeque::new(), VecDeque::new());
    let deadline = Instant::now() + FIRST_LOOK;
    while !silent.is_empty()
        && let Ok(event) = happened.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        match event {
            Event::Jobs(switch, _) => {
                silent.remove(&switch);
                looks.push_back(event);
            }
            _ => others.push_back(event),
        }
    }
    looks.append(&mut others);
    looks
}

fn order(orders: &BTreeMap<usize, Orders>, switch: usize, give: impl FnOnce(&Orders)) {
    if let Some(orders) = orders.get(&switch) {
        give(orders);
    }
}

#[cfg(test)]
mod tests {
    use super::topology_of;

    /// Items of a list are not taken for the keys, in an order that nobody said.
    #[test]
    fn a_section_that_is_written_as_a_list_is_refused() {
        let good = "[[switch]]\nname = \"a\"\napi = \"127.0.0.1:1\"\nengine = { mac = \"02:00:00:00:01:00\", ip = \"10.0.1.0\" }\n\
                    [[switch]]\nname = \"b\"\n[[host]]\nname = \"h\"\nip = \"10.0.0.1\"\nswitch = \"a\"\n";
        let link = "[[link]]\na = \"a\"\nb = \"b\"\n";
        assert_eq!(topology_of(&format!("{good}{link}")).unwrap().links.len(), 1);
        let engine = "{ mac = \"02:00:00:00:01:00\", ip = \"10.0.1.0\" }";
        let list = "[\"p0\", \"02:00:00:00:01:00\", \"10.0.1.0\"]";
        let engines = good.replace(engine, &format!("[{engine}]"));
        assert_eq!(topology_of(&engines).unwrap().switches[0].engines.len(), 1);
        for (text, line) in [
            (format!("link = [[\"a\", \"b\"]]\n{good}"), 1),
            (good.replace(engine, &format!("[{list}]")), 4),
            (
                format!(
                    "host = [[\"h\", \"10.0.0.1\", \"02:00:00:00:00:01\", \"a\"]]\n{}",
                    good.split("[[host]]").next().unwrap()
                ),
                1,
            ),
        ] {
            let said = topology_of(&text).map(|_| ()).unwrap_err().to_string();
            assert!(
                said.contains(&format!("line {line},")) && said.contains("expected a table with keys"),
                "{said}"
            );
        }
    }
}
