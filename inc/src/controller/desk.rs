//! What a controller decides: who sits where, when a job begins, when it has failed, who is told.
//!
//! Hosts are known by the number of their connection, switches by their place in the topology. Times are milliseconds of any
//! clock that does not go back.

use super::topology::{Engine, Map};
use crate::params::{JobParams, Straggler};
use crate::plan::{HostEnd, JobPlan, Marks, Tree};
use crate::remote::{Memory, Remote, Writes};
use crate::rendezvous::{Answer, Join, Request, Resume, Seat};
use crate::spec::{JobSpec, Policy, is_ones_qpn};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::rng::Rng;
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::wire::Qpn;

/// A host that is not connected for so long has gone.
const AWAY_MS: u64 = 30_000;
/// A switch that fails to answer so many times in a row is dead; a job it does not show so many times in a row is lost. (What a
/// switch shows may be older than what it was told last.)
const MISSES: u32 = 3;
/// Orders to end a job that failed are given again after so long.
const AGAIN_MS: u64 = 5_000;
/// Most jobs that gather hosts or run.
const MOST_JOBS: usize = 4096;
/// Largest packet sequence number.
const MOST_PSN: u32 = 0xff_ffff;
/// Longest time after which an engine sends again, as is usual for RC (local ACK timeout 14), ns.
const LONGEST_ACK_TIMEOUT: Nanos = 4096 << 14;
/// Longest name of a job, bytes.
const LONGEST_NAME: usize = 128;

/// A host's connection.
pub type Connection = u64;

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A host said this.
    Said(Connection, Box<Request>),
    /// A connection has ended.
    Closed(Connection),
    /// A switch has taken a job, or says why not.
    Posted(usize, u32, Result<(), NotTaken>),
    /// A switch has forgotten a job, which had failed there for this reason, or says why not.
    Ended(usize, u32, Result<Option<String>, String>),
    /// The jobs of a switch, or why there is no answer.
    Jobs(usize, Result<Vec<JobState>, String>),
}

/// Why a switch has not taken a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It says so. A job of that number that it has is another's.
    Refused(String),
    /// There is no answer: it may have taken it all the same.
    Silent(String),
}

/// A job as its switch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// Its number.
    pub id: u32,
    /// Why it has failed; `None`: it has not, or not everybody has been told.
    pub failed: Option<String>,
    /// Queue pairs of the engine that it has.
    pub qpns: Vec<u32>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell a host.
    Say(Connection, Answer),
    /// End a connection, after what was to be said.
    HangUp(Connection),
    /// Have a switch take a job.
    Post(usize, Box<JobSpec>),
    /// Have a switch forget a job, at this port if it is named.
    End(usize, u32, Option<String>),
    /// Something to be written down: [`Desk::save`].
    Save,
    /// Something for people to know.
    Note(String),
}

/// A host of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    index: u16,
    /// Name in the topology.
    host: String,
    /// It needs no more.
    left: bool,
    #[serde(skip)]
    connection: Option<Connection>,
    /// Since when it is not connected.
    #[serde(skip)]
    away_since: u64,
}

/// A job that waits for switches, or runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    id: u32,
    name: String,
    members: Vec<Member>,
    /// By name of the switch.
    engines: Vec<(String, JobSpec)>,
    /// Switches that have not taken it yet.
    #[serde(skip)]
    waits_for: BTreeSet<usize>,
    /// What hosts will be told, by member.
    #[serde(skip)]
    seats: Vec<Seat>,
}

/// Hosts that wait for others.
#[derive(Clone, Debug)]
struct Gathering {
    joins: BTreeMap<u16, (Connection, Join, usize)>,
    said: Join,
}

/// A job that a switch is to forget.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ending {
    switch: String,
    spec: JobSpec,
    /// Name of the job, where nobody has been told of a failure: all its hosts had left.
    #[serde(default)]
    left: Option<String>,
    #[serde(skip)]
    asked_at: u64,
}

/// What survives.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    next_id: u32,
    jobs: Vec<Job>,
    endings: Vec<Ending>,
}

/// The desk.
#[derive(Debug)]
pub struct Desk {
    map: Map,
    token: String,
    rng: Rng,
    next_id: u32,
    gatherings: BTreeMap<String, Gathering>,
    jobs: BTreeMap<u32, Job>,
    endings: Vec<Ending>,
    /// Times in a row each switch has not answered.
    misses: BTreeMap<usize, u32>,
    /// Numbers of the jobs that each switch has shown last, with those of their queue pairs: also jobs of another controller, or of an
    /// earlier run of which nothing was kept.
    shown: BTreeMap<usize, BTreeMap<u32, Vec<u32>>>,
    /// Times in a row a switch has not shown a job it has taken.
    absent: BTreeMap<(usize, u32), u32>,
}

impl Desk {
    /// A desk that lets hosts with this token in. `saved`: what it knew before; `seed`: of first PSNs.
    pub fn new(map: Map, token: String, saved: Saved, seed: u64, now: u64) -> Self {
        let mut desk = Self {
            map,
            token,
            rng: Rng::new(seed),
            next_id: saved.next_id.max(1),
            gatherings: BTreeMap::new(),
            jobs: BTreeMap::new(),
            endings: saved.endings,
            misses: BTreeMap::new(),
            shown: BTreeMap::new(),
            absent: BTreeMap::new(),
        };
        for mut job in saved.jobs {
            job.members.iter_mut().for_each(|member| member.away_since = now);
            desk.occupy(&job.engines, true);
            desk.jobs.insert(job.id, job);
        }
        let endings: Vec<(String, JobSpec)> =
            desk.endings.iter().map(|e| (e.switch.clone(), e.spec.clone())).collect();
        desk.occupy(&endings, true);
        desk
    }

    /// What is to be written down.
    pub fn save(&self) -> Saved {
        // A job that no host was told of is not one yet: its switches are to forget it.
        let (begun, not): (Vec<&Job>, Vec<&Job>) =
            self.jobs.values().partition(|job| job.waits_for.is_empty());
        let forgotten = not.into_iter().flat_map(|job| &job.engines);
        let forgotten = forgotten.map(|(switch, spec)| Ending {
            switch: switch.clone(),
            spec: spec.clone(),
            left: None,
            asked_at: 0,
        });
        Saved {
            next_id: self.next_id,
            jobs: begun.into_iter().cloned().collect(),
            endings: self.endings.iter().cloned().chain(forgotten).collect(),
        }
    }

    /// Numbers of jobs, with their names and how many of their hosts are connected: for people.
    pub fn jobs(&self) -> impl Iterator<Item = (u32, &str, usize)> {
        let there = |job: &Job| job.members.iter().filter(|m| m.connection.is_some()).count();
        self.jobs.values().map(move |job| (job.id, job.name.as_str(), there(job)))
    }

    /// Marks the queue pair numbers of jobs as taken, or free.
    fn occupy(&mut self, engines: &[(String, JobSpec)], taken: bool) {
        for (switch, spec) in engines {
            let engines = self.node(switch).and_then(|node| self.map.engines.get_mut(&node));
            let engine = engines.into_iter().flatten().find(|engine| engine.port == spec.port);
            let Some(Engine { end, .. }) = engine else { continue };
            for qpn in spec.children.iter().map(|c| c.peer.qpn).chain(spec.parent.as_ref().map(|p| p.qpn)) {
                if taken {
                    end.used.insert(qpn);
                } else {
                    end.used.remove(&qpn);
                }
            }
        }
    }

    /// Queue pairs at a switch of jobs that are none of these.
    fn others_qpns(&self, node: usize) -> Vec<u32> {
        let ours = |id: &u32| self.jobs.contains_key(id) || self.endings.iter().any(|e| e.spec.id == *id);
        let others = self.shown.get(&node).into_iter().flatten().filter(|(id, _)| !ours(id));
        others.flat_map(|(_, qpns)| qpns).copied().collect()
    }

    /// A number that no job has, as far as is known.
    fn free_id(&self) -> u32 {
        let taken = |id: &u32| {
            self.jobs.contains_key(id)
                || self.endings.iter().any(|ending| ending.spec.id == *id)
                || self.shown.values().any(|shown| shown.contains_key(id))
        };
        let mut id = self.next_id;
        while taken(&id) {
            id = id.wrapping_add(1).max(1);
        }
        id
    }

    fn node(&self, name: &str) -> Option<usize> {
        self.map.names.iter().position(|n| n == name)
    }

    /// Something has happened; what is to be done.
    pub fn handle(&mut self, event: Event, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Said(connection, request) => self.said(connection, *request, now, &mut actions),
            Event::Closed(connection) => self.closed(connection, now),
            Event::Posted(switch, id, result) => self.posted(switch, id, result, now, &mut actions),
            Event::Ended(switch, id, result) => self.ended(switch, id, &result, &mut actions),
            Event::Jobs(switch, result) => self.seen(switch, result, now, &mut actions),
        }
        actions
    }

    /// Time has passed: who has been away too long, and orders to be given again.
    pub fn tick(&mut self, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        let away = |member: &&Member| {
            member.connection.is_none() && !member.left && now.saturating_sub(member.away_since) >= AWAY_MS
        };
        let gone = |job: &Job| job.members.iter().find(away).map(|m| (job.id, m.index, m.host.clone()));
        let gone: Vec<(u32, u16, String)> = self.jobs.values().filter_map(gone).collect();
        for (id, index, host) in gone {
            self.fail(id, &format!("host {index} (`{host}`) has gone"), now, &mut actions);
        }
        for at in 0..self.endings.len() {
            if now.saturating_sub(self.endings[at].asked_at) >= AGAIN_MS {
                self.endings[at].asked_at = now;
                let Ending { switch, spec, .. } = &self.endings[at];
                actions.extend(self.node(switch).map(|node| Action::End(node, spec.id, spec.port.clone())));
            }
        }
        actions
    }

    fn said(&mut self, connection: Connection, request: Request, now: u64, actions: &mut Vec<Action>) {
        let refused = match request {
            Request::Join(join) => self.join(connection, *join, now, actions).err(),
            Request::Resume(resume) => self.resume(connection, &resume, actions).err(),
            Request::Leave {} => {
                self.leave(connection, now, actions);
                None
            }
        };
        if let Some(why) = refused {
            actions.push(Action::Say(connection, Answer::Refused { why }));
            actions.push(Action::HangUp(connection));
        }
    }

    /// Takes a time that does not tell how much of the token is right.
    fn lets_in(&self, token: &str) -> Result<(), String> {
        let (own, given) = (self.token.as_bytes(), token.as_bytes());
        let mut difference = own.len() ^ given.len();
        for (i, byte) in given.iter().enumerate() {
            difference |= usize::from(byte ^ own.get(i % own.len().max(1)).unwrap_or(&0));
        }
        if difference == 0 && !own.is_empty() { Ok(()) } else { Err("the token is wrong".into()) }
    }

    fn join(
        &mut self,
        connection: Connection,
        join: Join,
        now: u64,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        self.lets_in(&join.token)?;
        let Join { job: name, hosts, index, ip, .. } = &join;
        let unknown = || format!("no host of the topology has the address {ip}");
        let node = *self.map.hosts.get(ip).ok_or_else(unknown)?;
        let mac: Mac = join.mac.parse()?;
        if let Some(own) = self.map.macs.get(&node).filter(|own| **own != mac) {
            return Err(format!(
                "host `{}` has the MAC address {own} in the topology, not {mac}",
                self.map.names[node]
            ));
        }
        if *hosts == 0 {
            return Err("hosts is 0: a job has at least one".into());
        }
        if index >= hosts {
            return Err(format!("index is {index} of {hosts} hosts; it counts from 0"));
        }
        if mac.is_group() {
            return Err(format!("mac is {mac}, which is not the address of one host"));
        }
        if !is_ones_qpn(join.qpn) {
            return Err(format!("qpn is {:#x}; that of a host is 2 to 0xfffffe", join.qpn));
        }
        let peers = |job: &Job| {
            let children =
                job.engines.iter().flat_map(|(_, spec)| &spec.children).filter(|child| !child.engine);
            children.map(|child| (child.peer.ip, child.peer.dest_qpn)).collect::<Vec<_>>()
        };
        if let Some(job) = self.jobs.values().find(|job| peers(job).contains(&(*ip, join.qpn))) {
            return Err(format!(
                "queue pair {} of {ip} is one of job `{}`; a queue pair has one connection: make another one, or leave that job",
                join.qpn, job.name
            ));
        }
        if join.patience_ns == Some(0) {
            return Err("patience_ns is 0; it is a time".into());
        }
        if let Some(psn) = join.psn.filter(|psn| *psn > MOST_PSN) {
            return Err(format!("psn is {psn:#x}; it has 24 bits"));
        }
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
            return Err(format!(
                "job is {name:?}; it is a name of 1 to {LONGEST_NAME} bytes without control characters"
            ));
        }
        let known = self.map.hosts.len();
        if usize::from(*hosts) > known {
            return Err(format!("job `{name}` is of {hosts} hosts, the topology has {known}"));
        }
        let template = template(&join, self.next_id)?;
        template.check_sizes().map_err(|error| error.to_string())?;
        if !template.operation.names_ranks_below(*hosts) {
            return Err(format!("the root of the operation is no rank; there are {hosts}, from 0 on"));
        }
        let results = join.results_to.map(Into::into);
        Remote { writes: Writes::Refused, results }
            .check(join.mtu)
            .map_err(|what| format!("the host has {what}"))?;
        if self.jobs.values().any(|job| job.name == *name) {
            return Err(format!(
                "job `{name}` runs already; wait until its hosts have left, or take another name"
            ));
        }
        if !self.gatherings.contains_key(name) && self.gatherings.len() + self.jobs.len() >= MOST_JOBS {
            return Err(format!("there are {MOST_JOBS} jobs, that is all there can be"));
        }
        let said = Join {
            index: 0,
            ip: [0, 0, 0, 0].into(),
            mac: String::new(),
            qpn: 0,
            patience_ns: None,
            write: false,
            results_to: None,
            mirror: false,
            ..join.clone()
        };
        let gathering = self
            .gatherings
            .entry(name.clone())
            .or_insert_with(|| Gathering { joins: BTreeMap::new(), said: said.clone() });
        if gathering.said != said {
            let (ours, theirs) = (&gathering.said, &said);
            let what = [
                ("hosts", ours.hosts == theirs.hosts),
                ("operation", ours.operation == theirs.operation),
                ("mtu", ours.mtu == theirs.mtu),
                ("window", ours.window == theirs.window),
                ("psn", ours.psn == theirs.psn),
            ];
            let what = what.iter().find(|(_, same)| !same).map_or("straggler", |(what, _)| what);
            return Err(format!("the hosts of job `{name}` do not agree on `{what}`"));
        }
        if gathering.joins.contains_key(index) {
            return Err(format!(
                "job `{name}` has a host with index {index} already; give this one another, or wait until that one has left"
            ));
        }
        if gathering.joins.values().any(|(.., other)| *other == node) {
            return Err(format!("host `{}` takes part in job `{name}` already", self.map.names[node]));
        }
        let (name, complete) = (name.clone(), gathering.joins.len() + 1 == usize::from(*hosts));
        gathering.joins.insert(*index, (connection, join, node));
        if complete && let Some(gathering) = self.gatherings.remove(&name) {
            self.begin(name, &gathering, now, actions);
        }
        Ok(())
    }

    /// All hosts have come.
    fn begin(&mut self, name: String, gathering: &Gathering, now: u64, actions: &mut Vec<Action>) {
        let connections: Vec<Connection> =
            gathering.joins.values().map(|(connection, ..)| *connection).collect();
        match self.plan(name, gathering, now) {
            Ok(job) => {
                actions.push(Action::Note(format!(
                    "job {} (`{}`): {} hosts, {} engines",
                    job.id,
                    job.name,
                    job.members.len(),
                    job.engines.len()
                )));
                let posts = job.engines.iter().filter_map(|(switch, spec)| Some((self.node(switch)?, spec)));
                let posts = posts.map(|(switch, spec)| Action::Post(switch, Box::new(spec.clone())));
                // Written down first: what a switch was asked to take it can be asked to forget.
                let posts: Vec<Action> = posts.collect();
                self.jobs.insert(job.id, job);
                actions.push(Action::Save);
                actions.extend(posts);
            }
            Err(why) => {
                for connection in connections {
                    actions.push(Action::Say(connection, Answer::Refused { why: why.clone() }));
                    actions.push(Action::HangUp(connection));
                }
            }
        }
    }

    fn plan(&mut self, name: String, gathering: &Gathering, now: u64) -> Result<Job, String> {
        let named = |node: usize| format!("`{}`", self.map.names[node]);
        let hosts: Vec<usize> = gathering.joins.values().map(|(.., node)| *node).collect();
        let id = self.free_id();
        let tree = Tree::over(&self.map.fabric, &hosts, id as usize).map_err(|e| e.map(named).to_string())?;
        let end = |(_, join, _): &(Connection, Join, usize)| -> Result<HostEnd, String> {
            Ok(HostEnd { address: (join.mac.parse()?, join.ip), qpn: Qpn(join.qpn) })
        };
        let hosts_ends = gathering.joins.values().map(end).collect::<Result<Vec<_>, _>>()?;
        let patience_ns = gathering.joins.values().filter_map(|(_, join, _)| join.patience_ns).max();
        let template = template(&Join { patience_ns, ..gathering.said.clone() }, id)?;
        let chosen = self.map.least_used();
        let others: BTreeMap<usize, Vec<u32>> =
            chosen.keys().map(|node| (*node, self.others_qpns(*node))).collect();
        let (names, rng) = (&self.map.names, &mut self.rng);
        let named = |node: usize| format!("`{}`", names[node]);
        let given = gathering.said.psn;
        let first_psn = || Psn::new(given.unwrap_or_else(|| rng.next_u32() & MOST_PSN));
        let free = |(node, at): (&usize, &usize)| {
            let mut end = self.map.engines[node][*at].end.clone();
            end.used.extend(&others[node]);
            (*node, end)
        };
        let mut ends = chosen.iter().map(free).collect();
        let planned = tree.jobs(&template, Marks::default(), &hosts_ends, &mut ends, first_psn);
        let mut planned = planned.map_err(|e| e.map(named).to_string())?;
        let joins = gathering.joins.values().map(|(_, join, _)| join);
        let shown: Vec<Option<Memory>> = joins
            .enumerate()
            .map(|(nth, join)| share_memory(&mut planned, nth, join, &mut self.rng))
            .collect();
        let mut ports = BTreeMap::new();
        for (node, engines) in &mut self.map.engines {
            let (Some(at), Some(mut end)) = (chosen.get(node), ends.remove(node)) else { continue };
            end.used.retain(|qpn| !others[node].contains(qpn));
            engines[*at].end = end;
            ports.insert(*node, engines[*at].port.clone());
        }
        let spec = |(node, params): &(usize, JobParams)| {
            let port = ports.get(node).cloned().flatten();
            (self.map.names[*node].clone(), JobSpec::of(params, port))
        };
        let engines: Vec<(String, JobSpec)> = planned.engines.iter().map(spec).collect();
        if let Some(error) = planned.engines.iter().find_map(|(_, params)| params.check().err()) {
            self.occupy(&engines, false);
            return Err(error.to_string());
        }
        self.next_id = id.wrapping_add(1).max(1);
        let member = |(index, (connection, _, node)): (&u16, &(Connection, Join, usize))| Member {
            index: *index,
            host: self.map.names[*node].clone(),
            left: false,
            connection: Some(*connection),
            away_since: now,
        };
        let root = &planned.engines[0].1;
        Ok(Job {
            id,
            name,
            members: gathering.joins.iter().map(member).collect(),
            waits_for: planned.engines.iter().map(|(node, _)| *node).collect(),
            seats: planned
                .seats
                .iter()
                .zip(shown)
                .map(|(place, memory)| Seat {
                    memory: memory.map(Into::into),
                    ..Seat::of(root, &tree, place)
                })
                .collect(),
            engines,
        })
    }

    fn posted(
        &mut self,
        switch: usize,
        id: u32,
        result: Result<(), NotTaken>,
        now: u64,
        actions: &mut Vec<Action>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match result {
            Ok(()) => {
                job.waits_for.remove(&switch);
                if job.waits_for.is_empty() {
                    let seats = std::mem::take(&mut job.seats);
                    let seated =
                        job.members.iter().zip(seats).filter_map(|(m, seat)| Some((m.connection?, seat)));
                    let seated: Vec<_> = seated.collect();
                    actions.push(Action::Save);
                    actions.extend(
                        seated.into_iter().map(|(to, seat)| Action::Say(to, Answer::Seat(Box::new(seat)))),
                    );
                }
            }
            Err(NotTaken::Silent(why)) => {
                let why = format!("switch `{}`: {why}", self.map.names[switch]);
                self.fail(id, &why, now, actions);
            }
            Err(NotTaken::Refused(why)) => {
                // It has nothing to forget.
                let name = &self.map.names[switch];
                let why = format!("switch `{name}`: {why}");
                let (refused, others): (Vec<_>, _) =
                    std::mem::take(&mut job.engines).into_iter().partition(|(engine, _)| engine == name);
                job.engines = others;
                self.occupy(&refused, false);
                self.fail(id, &why, now, actions);
            }
        }
    }

    fn ended(
        &mut self,
        switch: usize,
        id: u32,
        result: &Result<Option<String>, String>,
        actions: &mut Vec<Action>,
    ) {
        let Ok(why) = result else { return }; // It is asked again.
        let name = self.map.names[switch].clone();
        let done = |ending: &Ending| ending.switch == name && ending.spec.id == id;
        let (done, rest) = std::mem::take(&mut self.endings).into_iter().partition(done);
        self.endings = rest;
        let done: Vec<Ending> = done;
        // Hosts that a switch told leave before it is looked at again.
        if let (Some(why), Some(job)) = (why, done.iter().find_map(|ending| ending.left.as_ref())) {
            actions.push(Action::Note(format!("job {id} (`{job}`) had failed: switch `{name}`: {why}")));
        }
        self.occupy(&done.into_iter().map(|e| (e.switch, e.spec)).collect::<Vec<_>>(), false);
        actions.push(Action::Save);
    }

    /// What a switch shows of its jobs.
    fn seen(
        &mut self,
        switch: usize,
        result: Result<Vec<JobState>, String>,
        now: u64,
        actions: &mut Vec<Action>,
    ) {
        let name = self.map.names[switch].clone();
        let running = |job: &&Job| job.waits_for.is_empty() && job.engines.iter().any(|(s, _)| *s == name);
        let here: Vec<u32> = self.jobs.values().filter(running).map(|job| job.id).collect();
        let misses = self.misses.entry(switch).or_default();
        match result {
            Ok(shown) => {
                *misses = 0;
                let known = shown.iter().map(|state| (state.id, state.qpns.clone()));
                self.shown.insert(switch, known.collect());
                self.absent.retain(|(other, id), _| *other != switch || here.contains(id));
                for id in here {
                    let state = shown.iter().find(|state| state.id == id);
                    let times = self.absent.entry((switch, id)).or_default();
                    *times = if state.is_some() { 0 } else { *times + 1 };
                    let why = match state {
                        None if *times >= MISSES => Some(format!(
                            "switch `{name}` has lost the job: it was started anew, or somebody ended it"
                        )),
                        None => None,
                        Some(JobState { failed, .. }) => {
                            failed.as_ref().map(|why| format!("switch `{name}`: {why}"))
                        }
                    };
                    if let Some(why) = why {
                        self.fail(id, &why, now, actions);
                    }
                }
                // What it does not have it need not forget.
                let gone: Vec<u32> = self
                    .endings
                    .iter()
                    .filter(|e| e.switch == name && shown.iter().all(|state| state.id != e.spec.id))
                    .map(|e| e.spec.id)
                    .collect();
                gone.into_iter().for_each(|id| self.ended(switch, id, &Ok(None), actions));
            }
            Err(why) => {
                *misses += 1;
                if *misses == MISSES {
                    actions.push(Action::Note(format!("switch `{name}` does not answer: {why}")));
                }
                if *misses >= MISSES {
                    for id in here {
                        self.fail(id, &format!("switch `{name}` does not answer: {why}"), now, actions);
                    }
                }
            }
        }
    }

    fn resume(
        &mut self,
        connection: Connection,
        resume: &Resume,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        self.lets_in(&resume.token)?;
        let member = self.jobs.get_mut(&resume.id).and_then(|job| {
            Some((job.name.clone(), job.members.iter_mut().find(|m| m.index == resume.index)?))
        });
        let Some((name, member)) = member else {
            let why = match self.jobs.contains_key(&resume.id) {
                true => format!("job {} has no host with index {}", resume.id, resume.index),
                false => format!("job {} has ended", resume.id),
            };
            actions.push(Action::Say(connection, Answer::Failed { why }));
            actions.push(Action::HangUp(connection));
            return Ok(());
        };
        actions.extend(member.connection.replace(connection).map(Action::HangUp));
        actions.push(Action::Say(connection, Answer::Resumed {}));
        let Member { index, host, .. } = member;
        let note = format!("job {} (`{name}`): host {index} (`{host}`) is back", resume.id);
        actions.push(Action::Note(note));
        Ok(())
    }

    fn leave(&mut self, connection: Connection, now: u64, actions: &mut Vec<Action>) {
        let at = |job: &Job| job.members.iter().position(|m| m.connection == Some(connection));
        let Some((id, at)) = self.jobs.values().find_map(|job| Some((job.id, at(job)?))) else {
            let waits =
                |gathering: &Gathering| gathering.joins.values().any(|(other, ..)| *other == connection);
            if !self.gatherings.values().any(waits) {
                let why = "this connection has neither joined nor resumed, or its job has ended".into();
                actions.push(Action::Say(connection, Answer::Refused { why }));
            }
            actions.push(Action::HangUp(connection));
            return;
        };
        actions.push(Action::HangUp(connection));
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.members[at].left, job.members[at].connection) = (true, None);
        let all = job.members.iter().all(|member| member.left);
        actions.push(Action::Save);
        if all {
            let name = job.name.clone();
            actions.push(Action::Note(format!("job {id} (`{name}`): all hosts have left")));
            self.end(id, Some(&name), now, actions);
        }
    }

    fn closed(&mut self, connection: Connection, now: u64) {
        self.gatherings.retain(|_, gathering| {
            gathering.joins.retain(|_, (other, ..)| *other != connection);
            !gathering.joins.is_empty()
        });
        let members = self.jobs.values_mut().flat_map(|job| &mut job.members);
        for member in members.filter(|member| member.connection == Some(connection)) {
            (member.connection, member.away_since) = (None, now);
        }
    }

    /// A job has failed: its hosts are told, its switches forget it.
    fn fail(&mut self, id: u32, why: &str, now: u64, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.get(&id) else { return };
        actions.push(Action::Note(format!("job {id} (`{}`) failed: {why}", job.name)));
        for connection in job.members.iter().filter_map(|member| member.connection) {
            let why = why.to_owned();
            let answer =
                if job.waits_for.is_empty() { Answer::Failed { why } } else { Answer::Refused { why } };
            actions.push(Action::Say(connection, answer));
            actions.push(Action::HangUp(connection));
        }
        self.end(id, None, now, actions);
    }

    /// A job is over: its switches forget it. Its numbers are free when they have. `left`: its name, if its hosts have left it.
    fn end(&mut self, id: u32, left: Option<&str>, now: u64, actions: &mut Vec<Action>) {
        let Some(job) = self.jobs.remove(&id) else { return };
        let ending = |(switch, spec)| Ending { switch, spec, left: left.map(str::to_owned), asked_at: now };
        let endings: Vec<Ending> = job.engines.into_iter().map(ending).collect();
        let order = |e: &Ending| Some(Action::End(self.node(&e.switch)?, e.spec.id, e.spec.port.clone()));
        let orders = endings.iter().filter_map(order);
        let orders: Vec<Action> = orders.collect();
        self.endings.extend(endings);
        actions.push(Action::Save);
        actions.extend(orders);
    }
}

/// What host `nth` has to do with WRITEs, told to its engine. Returns the memory that is shown to it: a window of packets at an
/// address and with a key that nobody guesses.
fn share_memory(planned: &mut JobPlan, nth: usize, join: &Join, rng: &mut Rng) -> Option<Memory> {
    let rank = planned.seats[nth].rank;
    let is_its = |child: &&mut crate::params::Child| !child.engine && child.first_rank == rank;
    let (bytes, child) = planned.engines.iter_mut().find_map(|(_, job)| {
        let bytes = u64::from(job.window) * u64::from(job.mtu);
        Some((bytes, job.children.iter_mut().find(is_its)?))
    })?;
    let shown = join.write.then(|| Memory {
        addr: u64::from(rng.next_u32()) << 12,
        rkey: rng.next_u32(),
        len: bytes,
    });
    let writes = match shown {
        _ if join.mirror => Writes::Mirrored,
        Some(memory) => Writes::Into(memory),
        None => Writes::Refused,
    };
    child.remote = Remote { writes, results: join.results_to.map(Into::into) };
    shown
}

/// Timers with which a rank that says nothing is given up after `patience`, and not before.
fn be_patient(params: &mut JobParams, patience: Nanos) {
    let most = Nanos::from(u8::MAX);
    params.patience = patience;
    params.ack_timeout =
        (patience / 32).clamp(params.ack_timeout, LONGEST_ACK_TIMEOUT).max(patience.div_ceil(most));
    params.retries = (patience / params.ack_timeout).clamp(1, most) as u8;
    params.probe_after = params.probe_after.max(patience / (Nanos::from(params.retries) + 1));
}

/// What all engines of a job have in common.
fn template(join: &Join, id: u32) -> Result<JobParams, String> {
    let operation = join.operation.primitive().map_err(|error| error.to_string())?;
    let straggler = match (join.straggler, join.deadline_ns) {
        (Policy::Wait, None) => Straggler::Wait,
        (Policy::Partial, Some(time)) => Straggler::Partial(time),
        (Policy::Abort, Some(time)) => Straggler::Abort(time),
        _ => return Err("deadline_ns goes with straggler \"partial\" or \"abort\", and they with it".into()),
    };
    let (mtu, window) = (join.mtu, join.window);
    let mut params = JobParams::new(id, join.hosts, operation);
    if let Some(patience) = join.patience_ns {
        be_patient(&mut params, patience);
    }
    Ok(JobParams { mtu, window, results: window.max(4), straggler, ..params })
}

#[cfg(test)]
mod tests;
