//! Carries out orders, one at a time and never by waiting: goes over to another configuration, all of it or nothing,
//! and back if nobody confirms.

mod jobs;
mod transaction;
mod workers;

use super::control::{Command, Followers, Reply};
use super::kernel;
use super::mgmt::Bulletin;
use crate::apply::values_differ;
use crate::check;
use crate::output::{say, say_err};
use jobs::JobTask;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use transaction::{Ended, PATIENCE, Step, Transaction};
use weir_config::Config;
use weir_config::runtime::{self, Device};
use weir_dataplane::fdb::FdbPage;
use weir_dataplane::portset::PortSet;
use weir_dataplane::switch::{Change, SwitchParams, Tap, TapOrder};
use weir_dataplane::types::PortId;
use weir_dpdk::{Clock, Eal};
use weir_inc::trace::Follower;
use weir_mgmt::admin::fdb::Page;
use weir_mgmt::admin::watch::{Watch, Watching};
use weir_mgmt::admin::{self, Answer, Call, Done, Fault, InForce, Order, Orders, Refusal, Shown};
use weir_mgmt::api::documents::{Applied, ChangedValue, Confirmed, RolledBack};
use weir_mgmt::snapshot::{Granted, News, SwitchInfo};

pub use workers::Workers;

/// Between two looks for an answer.
const POLL: Duration = Duration::from_micros(200);

/// Who carries out orders, and what that takes.
#[derive(Debug)]
pub struct Office {
    pub orders: Orders,
    pub shown: Shown,
    pub news: Bulletin,
    pub granting: Granting,
    pub clock: Clock,
    pub eal: Eal,
    pub workers: Workers,
    /// What it was started with, which says what can change.
    pub started: Arc<Config>,
    /// File the run was started with.
    pub file: Option<PathBuf>,
    /// SIGHUP has come.
    pub hangup: Arc<AtomicBool>,
    /// What has begun and not ended.
    pub work: Work,
    /// Speed of each port's link as last seen, bit/s, where it is known; the switch follows.
    pub speeds: Vec<Option<u64>>,
}

/// What has begun and not ended.
#[derive(Debug, Default)]
pub struct Work {
    now: Option<Task>,
    /// What was in force before the configuration that waits to be confirmed, and the way from there.
    before: Option<(Arc<InForce>, Step)>,
    /// Some workers have not said that they went back: until they do, nothing else is ordered.
    split: Option<Transaction>,
    /// Somebody follows frames as long as this lives; `Some` that does not: taps are still to be taken away.
    watched: Option<Weak<()>>,
    /// Number of the last order to workers.
    number: u64,
}

/// One order that takes time.
#[derive(Debug)]
enum Task {
    /// A configuration is looked at, on a thread of its own.
    Check {
        thread: JoinHandle<Result<Prepared, Refusal>>,
        asker: Asker,
        confirm: Option<Duration>,
        dry_run: bool,
    },
    /// Workers go over to another configuration.
    Change { transaction: Box<Transaction>, to: Box<InForce>, then: Then },
    /// A worker reads its forwarding table, between its turns, a little each time.
    Page { worker: usize, deadline: Instant, call: Call },
    /// A worker takes or ends a job.
    Job(JobTask),
}

/// What else comes of a change.
#[derive(Debug)]
enum Then {
    /// It was applied, and is told like this.
    Applied { asker: Asker, step: Box<Step>, confirm: Option<Duration>, answer: Applied },
    /// It was taken back.
    RolledBack { asker: Asker, why: &'static str },
    /// Links have other speeds.
    Followed { speeds: Vec<Option<u64>> },
}

/// Who wants to know.
#[derive(Debug)]
enum Asker {
    Client(Call),
    Hangup,
    Timeout,
}

/// A configuration that can be put in force.
#[derive(Debug)]
struct Prepared {
    target: InForce,
    step: Step,
    changed: Vec<ChangedValue>,
}

impl Office {
    /// Carries out what comes within `time`, and what is due. Longer work goes on at the next call.
    pub fn attend(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            self.settle();
            self.disarm();
            let left = end.saturating_duration_since(Instant::now());
            match self.work.now.take() {
                Some(task) => {
                    self.work.now = self.go_on(task);
                    std::thread::sleep(left.min(POLL));
                }
                None => self.begin(left),
            }
            if left.is_zero() {
                return;
            }
        }
    }

    /// What is due, else the next order that comes within `time`.
    fn begin(&mut self, time: Duration) {
        let due = self.shown.get().unconfirmed.is_some_and(|at| Instant::now() >= at);
        if self.hangup.swap(false, Relaxed) {
            match self.file.clone() {
                Some(file) => self.check(Asker::Hangup, Text::File(file), None, false),
                None => {
                    say_err!("weir: SIGHUP: the configuration is built in, there is no file to read again")
                }
            }
        } else if due {
            self.roll_back(Asker::Timeout, "nobody confirmed in time");
        } else if self.granting.speeds() != self.speeds && self.have_room().is_ok() {
            self.follow_links();
        } else if let Some(call) = self.orders.next(time) {
            self.carry_out(call);
        }
    }

    /// Links have other speeds: nothing is sent faster, and pauses are counted in their bit times.
    fn follow_links(&mut self) {
        let now = self.shown.get();
        let devices = self.granting.with(&self.speeds);
        match way(&now, &now.config, &devices, self.granting.cores.len()) {
            Ok((params, step)) => {
                let to = InForce { params, ..(*now).clone() };
                let then = Then::Followed { speeds: self.speeds.clone() };
                self.work.now = Some(self.change(&step, to, then));
            }
            Err(why) => {
                say_err!("weir: the switch cannot follow the speed of a link: {why}");
                self.speeds = self.granting.speeds();
            }
        }
    }

    fn carry_out(&mut self, call: Call) {
        match call.order.clone() {
            Order::Apply { name, text, confirm, dry_run } => {
                self.check(Asker::Client(call), Text::Given(name, text), confirm, dry_run);
            }
            Order::Confirm => call.answer(self.confirm()),
            Order::Rollback => self.roll_back(Asker::Client(call), "as ordered"),
            Order::Fdb(question) => match self.ask_for_page(&question) {
                Ok(()) => {
                    let (worker, deadline) = (question.worker, Instant::now() + PATIENCE);
                    self.work.now = Some(Task::Page { worker, deadline, call });
                }
                Err(refusal) => call.answer(Err(refusal)),
            },
            Order::Watch(watch) => call.answer(self.watch(&watch)),
            Order::Job(order) => self.work.now = self.order_job(&order, call),
        }
    }

    fn go_on(&mut self, task: Task) -> Option<Task> {
        match task {
            Task::Check { thread, asker, confirm, dry_run } => {
                if !thread.is_finished() {
                    return Some(Task::Check { thread, asker, confirm, dry_run });
                }
                let gone = |_| Err(Refusal::new(500, "the check panicked: please report it"));
                let prepared = thread.join().unwrap_or_else(gone);
                self.checked(prepared, asker, confirm, dry_run)
            }
            Task::Change { mut transaction, to, then } => {
                match transaction.poll(&mut self.workers, self.clock.now(), Instant::now()) {
                    None => return Some(Task::Change { transaction, to, then }),
                    Some(Ended::Over(spread)) => self.changed(*to, then, spread),
                    Some(Ended::Back(why)) => {
                        self.failed(then, &format!("{why}; the switch runs on as it was"));
                    }
                    Some(Ended::Split(why)) => {
                        self.work.split = Some(*transaction);
                        let why = format!("workers may disagree about the configuration: {why}");
                        self.show(|in_force| in_force.unsettled = Some(why.clone()));
                        self.tell("unsettled", &json!({ "detail": why }));
                        say_err!("weir: {why}");
                        self.failed(then, &why);
                    }
                }
                None
            }
            Task::Page { worker, deadline, call } => self.await_page(worker, deadline, call),
            Task::Job(awaited) => self.await_job(awaited),
        }
    }

    /// Looks at a configuration on a thread of its own, beside the workers: it may be long.
    fn check(&mut self, asker: Asker, text: Text, confirm: Option<Duration>, dry_run: bool) {
        let now = self.shown.get();
        let (started, devices) = (Arc::clone(&self.started), self.granting.devices.clone());
        let shards = self.granting.cores.len();
        let work = move || prepare(&started, &now, &devices, shards, text);
        let spawn = || std::thread::Builder::new().name("check".into()).spawn(work);
        match self.eal.beside_workers(&self.granting.cores, spawn) {
            Ok(thread) => self.work.now = Some(Task::Check { thread, asker, confirm, dry_run }),
            Err(error) => answer(asker, Err(Refusal::new(503, format!("no thread to check it: {error}")))),
        }
    }

    fn checked(
        &mut self,
        prepared: Result<Prepared, Refusal>,
        asker: Asker,
        confirm: Option<Duration>,
        dry_run: bool,
    ) -> Option<Task> {
        let ready = prepared.and_then(|prepared| match (self.work.before.is_some() && !dry_run, dry_run) {
            (true, _) => Err(Refusal::with_remedy(
                409,
                "another configuration waits to be confirmed or rolled back",
                "config",
                "keep it with `weir apply --confirm` or go back with `weir apply --rollback` first",
            )),
            (_, true) => Ok(prepared),
            _ => self.have_room().map(|()| prepared),
        });
        let Prepared { target, step, changed } = match ready {
            Ok(prepared) => prepared,
            Err(refusal) => {
                if !dry_run {
                    self.tell("refused", &json!({ "detail": refusal.detail }));
                }
                answer(asker, Err(refusal));
                return None;
            }
        };
        let told = Applied { applied: !dry_run, changed, spread_ns: None, confirm_ms: None };
        if dry_run {
            answer(asker, Ok(Done::said(&told)));
            return None;
        }
        let then = Then::Applied { asker, step: Box::new(step.clone()), confirm, answer: told };
        Some(self.change(&step, target, then))
    }

    fn change(&mut self, step: &Step, to: InForce, then: Then) -> Task {
        self.work.number += 2;
        let (number, now) = (self.work.number, Instant::now());
        let transaction = Transaction::begin(&mut self.workers, number, step, self.clock.now(), now).into();
        Task::Change { transaction, to: Box::new(to), then }
    }

    /// All workers went over.
    fn changed(&mut self, to: InForce, then: Then, spread: u64) {
        if let Then::Followed { speeds } = &then {
            self.granting.set(speeds);
        }
        self.news.push(News::Info(Box::new(self.granting.info(&to.config))));
        let from = self.shown.get();
        let source = to.source.clone();
        match then {
            Then::Applied { asker, step, confirm, answer: mut told } => {
                self.shown.set(InForce { unconfirmed: confirm.map(|time| Instant::now() + time), ..to });
                self.work.before = confirm.map(|_| (from, *step));
                let values = told.changed.len();
                told.spread_ns = Some(spread);
                told.confirm_ms = confirm.map(|time| time.as_millis() as u64);
                let event = json!({ "source": source, "values": values, "confirm_ms": told.confirm_ms });
                self.tell("applied", &event);
                say!("configuration {source}: applied, {}", values_differ(values));
                answer(asker, Ok(Done::said(&told)));
            }
            Then::Followed { .. } => self.followed(to),
            Then::RolledBack { asker, why } => {
                self.shown.set(to);
                self.work.before = None;
                self.tell("rolled_back", &json!({ "source": source, "from": from.source, "why": why }));
                say!("configuration {source}: back in force, {why}");
                answer(asker, Ok(Done::said(&RolledBack { rolled_back_to: source })));
            }
        }
    }

    /// The way back to what waits to be confirmed leads to the present speeds, too.
    fn followed(&mut self, to: InForce) {
        if let Some((before, step)) = &mut self.work.before {
            let way = way(&to, &before.config, &self.granting.devices, self.granting.cores.len());
            if let Ok((params, back)) = way {
                *before = Arc::new(InForce { params, ..(**before).clone() });
                *step = back.reversed();
            }
        }
        self.shown.set(to);
    }

    /// All workers are where they were, or will be.
    fn failed(&mut self, then: Then, why: &str) {
        let (Then::Applied { asker, .. } | Then::RolledBack { asker, .. }) = then else {
            return say_err!("weir: the switch cannot follow the speed of a link yet: {why}");
        };
        if matches!(asker, Asker::Timeout) {
            // Tried again, not at once.
            self.show(|in_force| in_force.unconfirmed = Some(Instant::now() + PATIENCE));
        }
        answer(asker, Err(Refusal::new(503, why)));
    }

    fn show(&self, change: impl FnOnce(&mut InForce)) {
        let mut in_force = (*self.shown.get()).clone();
        change(&mut in_force);
        self.shown.set(in_force);
    }

    /// Hears from workers that had not said that they went back.
    fn settle(&mut self) {
        if self.work.split.as_mut().is_some_and(|split| split.is_settled(&mut self.workers)) {
            self.work.split = None;
            self.show(|in_force| in_force.unsettled = None);
            self.tell("settled", &json!({}));
            say_err!("weir: all workers agree about the configuration again");
        }
    }

    fn confirm(&mut self) -> Answer {
        if self.work.before.take().is_none() {
            return Err(Refusal::new(409, "nothing waits to be confirmed"));
        }
        self.show(|in_force| in_force.unconfirmed = None);
        let source = self.shown.get().source.clone();
        self.tell("confirmed", &json!({ "source": source }));
        say!("configuration {source}: confirmed");
        Ok(Done::said(&Confirmed { confirmed: source }))
    }

    fn roll_back(&mut self, asker: Asker, why: &'static str) {
        let Some((before, step)) = &self.work.before else {
            let detail = "nothing waits to be confirmed: there is nothing to go back to";
            return answer(asker, Err(Refusal::new(409, detail)));
        };
        let (before, step) = ((**before).clone(), step.reversed());
        let then = Then::RolledBack { asker, why };
        match self.have_room() {
            Ok(()) => self.work.now = Some(self.change(&step, before, then)),
            Err(refusal) => self.failed(then, &refusal.detail),
        }
    }

    /// Asks a worker for one page of its forwarding table.
    fn ask_for_page(&mut self, question: &admin::fdb::Question) -> Result<(), Refusal> {
        let admin::fdb::Question { worker, next, filter, most } = *question;
        if worker >= self.workers.len() {
            return Err(Refusal::new(404, format!("no worker {worker}")));
        }
        self.have_room()?;
        self.work.number += 1;
        let page = FdbPage::new(self.work.number, filter, next, most);
        self.workers.send(worker, Command::Fdb(Box::new(page)));
        Ok(())
    }

    fn await_page(&mut self, worker: usize, deadline: Instant, call: Call) -> Option<Task> {
        match self.workers.hear(worker) {
            Some(Reply::Fdb(page)) if page.id == self.work.number => {
                call.answer(Ok(Done::Fdb(Page { worker, workers: self.workers.len(), page })));
                None
            }
            None if Instant::now() >= deadline => {
                call.answer(Err(Refusal::new(503, format!("worker {worker} does not answer"))));
                None
            }
            // Nothing yet, or what nobody waits for any more.
            _ => Some(Task::Page { worker, deadline, call }),
        }
    }

    /// Arms a tap in every worker: frames of one port may leave by those of another.
    fn watch(&mut self, watch: &Watch) -> Answer {
        let config = &self.shown.get().config;
        let names: Vec<_> = config.ports.iter().map(|port| port.name.as_str()).collect();
        let Some(port) = config.port(&watch.port) else {
            let fault = Fault {
                path: "/port".into(),
                detail: format!("no port is called `{}`", watch.port),
                remedy: format!("name one of {}", names.join(", ")),
                ..Fault::default()
            };
            return Err(Refusal { status: 404, detail: fault.detail.clone(), faults: vec![fault] });
        };
        self.disarm();
        if self.work.watched.is_some() {
            let detail = "somebody follows frames already: one at a time";
            let remedy = "end the `weir trace` or `weir capture` that does, or ask again when it has ended";
            return Err(Refusal::with_remedy(409, detail, "/port", remedy));
        }
        self.have_room()?;
        let order = TapOrder {
            port,
            filter: watch.filter,
            count: watch.followed(),
            bytes: watch.bytes,
            drops: watch.drops,
        };
        let follows = watch.engines && !watch.drops;
        let (mut readers, mut engines, mut hands_on) = (Vec::new(), Vec::new(), PortSet::EMPTY);
        let mut followers = self.followers(|port| {
            follows.then(|| {
                hands_on.insert(port);
                let (follower, reader) = Follower::new(port);
                engines.push(reader);
                Box::new(follower)
            })
        });
        for (worker, (tap, reader)) in Tap::for_workers(order, self.workers.len()).into_iter().enumerate() {
            readers.push(reader);
            let tap = Box::new(tap.hands_on(hands_on));
            self.workers.send(worker, Command::Tap(Some(tap), followers.remove(0)));
        }
        let held = Arc::new(());
        self.work.watched = Some(Arc::downgrade(&held));
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let anchor = (unix.as_nanos() as u64, self.clock.now());
        Ok(Done::Watching(Watching { readers, engines, anchor, held }))
    }

    /// For each worker who follows frames into its engines.
    fn followers(&self, mut of: impl FnMut(PortId) -> Option<Box<Follower>>) -> Vec<Followers> {
        let mut followers: Vec<Followers> = (0..self.workers.len()).map(|_| Followers::new()).collect();
        for (port, settings) in self.shown.get().config.ports.iter().enumerate() {
            let id = PortId(port as u16);
            if settings.engine.is_some() {
                followers[usize::from(self.granting.devices[port].shard)].push((id, of(id)));
            }
        }
        followers
    }

    /// Takes taps away whose readers are gone, wherever they were lost.
    fn disarm(&mut self) {
        let left = self.work.watched.as_ref().is_some_and(|watched| watched.strong_count() == 0);
        if left && self.have_room().is_ok() {
            for (worker, followers) in self.followers(|_| None).into_iter().enumerate() {
                self.workers.send(worker, Command::Tap(None, followers));
            }
            self.work.watched = None;
        }
    }

    /// Every worker takes another order.
    fn have_room(&mut self) -> Result<(), Refusal> {
        if let Some(why) = &self.shown.get().unsettled {
            return Err(Refusal::new(503, why.clone()));
        }
        match self.workers.have_room() {
            true => Ok(()),
            false => Err(Refusal::new(503, "a worker has more messages than it can take: try again")),
        }
    }

    /// A host leaves to its NIC what nobody does.
    pub fn report_offloads(&self, found: &kernel::Found) {
        let kernel::Found { port, detail, remedy } = found;
        say_err!("weir: port {port}: {detail}\n  -> {remedy}");
        self.report("offload", "alarm", &json!({ "port": port, "detail": detail, "remedy": remedy }));
    }

    fn tell(&self, phase: &'static str, fields: &Value) {
        self.report("reload", phase, fields);
    }

    /// An event.
    pub fn report(&self, kind: &'static str, phase: &'static str, fields: &Value) {
        let fields: Map<String, Value> = fields.as_object().cloned().unwrap_or_default();
        self.news.push(News::Event { kind, phase, fields });
    }
}

/// Tells whoever asked.
fn answer(asker: Asker, answer: Answer) {
    match (asker, answer) {
        (Asker::Client(call), answer) => call.answer(answer),
        (_, Ok(_)) => {}
        (Asker::Timeout, Err(refusal)) => say_err!("weir: cannot go back: {}", refusal.detail),
        (Asker::Hangup, Err(refusal)) => {
            say_err!("weir: SIGHUP: {}", refusal.detail);
            for fault in &refusal.faults {
                let line = fault.line.map(|line| format!("line {line}: ")).unwrap_or_default();
                say_err!("  {line}{}: {}; {}", fault.path, fault.detail, fault.remedy);
            }
        }
    }
}

/// A configuration, and what it is called.
#[derive(Debug)]
enum Text {
    Given(String, String),
    File(PathBuf),
}

/// Everything that can be wrong with a configuration is found here, before anybody is told of it.
fn prepare(
    started: &Config,
    now: &InForce,
    devices: &[Device],
    shards: usize,
    text: Text,
) -> Result<Prepared, Refusal> {
    let (name, text) = match text {
        Text::Given(name, text) => (name, text),
        Text::File(path) => {
            let text = check::read(&path).map_err(|error| Refusal::new(422, format!("{error:#}")))?;
            (path.display().to_string(), text)
        }
    };
    let loaded = weir_config::load(&name, &text).map_err(|found| Refusal {
        status: 422,
        detail: format!("{name} has errors; the switch runs on as it was"),
        faults: found.iter().filter(|d| d.is_error()).map(Fault::from).collect(),
    })?;
    let mut config = loaded.config;
    let fixed = weir_config::fixed(started, &config);
    let conflict = |faults| Refusal {
        status: 409,
        detail: format!("{name} changes what cannot change at run time; the switch runs on as it was"),
        faults,
    };
    if !fixed.is_empty() {
        return Err(conflict(fixed.iter().map(Fault::from).collect()));
    }
    // Memory for frames was set aside at start: there may be more of it than asked for now.
    config.buffer.frames = started.buffer.frames;
    let (params, step) = way(now, &config, devices, shards).map_err(|detail| {
        let remedy = "leave it as it is, or restart the switch".into();
        conflict(vec![Fault { path: "switch".into(), detail, remedy, ..Fault::default() }])
    })?;
    let changed = weir_config::differences(&now.config, &config).iter().map(ChangedValue::from).collect();
    let target = InForce { source: name, config, params, unconfirmed: None, unsettled: None };
    Ok(Prepared { target, step, changed })
}

/// From what is in force to a configuration on these devices.
fn way(
    now: &InForce,
    config: &Config,
    devices: &[Device],
    shards: usize,
) -> Result<(SwitchParams, Step), String> {
    let mut params = runtime::switch_params(config, devices, shards).map_err(|e| e.to_string())?;
    // Frames that wait were charged by it, and a smaller buffer needs no more of the memory.
    params.mmu.least_charge = now.params.mmu.least_charge;
    let there = Change::between(&now.params, &params).map_err(|e| e.to_string())?;
    let back = Change::between(&params, &now.params).map_err(|e| e.to_string())?;
    Ok((params, Step { there, back }))
}

/// What devices and lcores granted at start, which no configuration changes, and the speed of links the switch runs with.
#[derive(Debug)]
pub struct Granting {
    /// Version of DPDK.
    pub dpdk: String,
    /// Ticks of its clock per second.
    pub hz: u64,
    /// What the switch is told of each device.
    pub devices: Vec<Device>,
    /// What readers are told of it.
    pub granted: Vec<Granted>,
    /// Cores of the workers.
    pub cores: Vec<usize>,
}

impl Granting {
    /// Speed of each link.
    pub fn speeds(&self) -> Vec<Option<u64>> {
        self.devices.iter().map(|device| device.rate).collect()
    }

    /// The devices with other speeds.
    fn with(&self, speeds: &[Option<u64>]) -> Vec<Device> {
        self.devices.iter().zip(speeds).map(|(device, rate)| Device { rate: *rate, ..*device }).collect()
    }

    fn set(&mut self, speeds: &[Option<u64>]) {
        self.devices = self.with(speeds);
        self.granted.iter_mut().zip(speeds).for_each(|(granted, rate)| granted.rate = *rate);
    }

    /// What readers are told of the switch under this configuration.
    pub fn info(&self, config: &Config) -> SwitchInfo {
        let info = SwitchInfo::of(config, &self.dpdk, self.cores.clone(), self.granted.clone());
        SwitchInfo { hz: self.hz, ..info }
    }
}
