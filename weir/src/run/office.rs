//! Carries out orders: goes over to another configuration, all of it or nothing, and back if nobody confirms.

use super::SHAPER_BURST;
use super::control::{Command, Reply};
use super::kernel;
use super::mgmt::Bulletin;
use crate::output::{say, say_err};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use weir_dataplane::config::{self, Config};
use weir_dataplane::fdb::FdbPage;
use weir_dataplane::runtime::{self, Device};
use weir_dataplane::switch::{Change, Tap, TapOrder};
use weir_dpdk::Clock;
use weir_mgmt::admin::fdb::{Page, Question};
use weir_mgmt::admin::watch::{Watch, Watching};
use weir_mgmt::admin::{self, Answer, Call, Done, Fault, InForce, Order, Orders, Refusal, Shown};
use weir_mgmt::snapshot::{Granted, News, SwitchInfo};

/// From the order to the instant at which all workers obey it: each has seen it by then.
const AHEAD: u64 = 2_000_000;

/// A worker that has not answered by then will not.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who carries out orders, and what that takes.
#[derive(Debug)]
pub struct Office {
    pub orders: Orders,
    pub shown: Shown,
    pub news: Bulletin,
    pub granting: Granting,
    pub clock: Clock,
    pub replies: Vec<rtrb::Consumer<Reply>>,
    /// What was in force before the configuration that waits to be confirmed.
    pub before: Option<Arc<InForce>>,
    /// File the run was started with.
    pub file: Option<PathBuf>,
    /// SIGHUP has come.
    pub hangup: Arc<AtomicBool>,
    /// Frames are followed.
    pub watching: bool,
    /// Pages of forwarding tables asked for so far.
    pub pages: u64,
}

type Producers = [rtrb::Producer<Command>];

impl Office {
    /// Carries out what comes within `time`, and what is due.
    pub fn attend(&mut self, time: Duration, workers: &mut Producers) {
        if let Some(call) = self.orders.next(time) {
            self.carry_out(call, workers);
        }
        let due = self.shown.get().unconfirmed.is_some_and(|at| Instant::now() >= at);
        if due && let Err(refusal) = self.roll_back("nobody confirmed in time", workers) {
            say_err!("weir: cannot go back: {}", refusal.detail);
        }
        if self.hangup.swap(false, Relaxed) {
            self.reload(workers);
        }
    }

    fn carry_out(&mut self, call: Call, workers: &mut Producers) {
        let answer = match &call.order {
            Order::Apply { name, text, confirm, dry_run } => {
                self.apply(name, text, *confirm, *dry_run, workers)
            }
            Order::Confirm => self.confirm(),
            Order::Rollback => self.roll_back("as ordered", workers),
            Order::Fdb(question) => self.read_fdb(question, workers),
            Order::Watch(watch) => self.watch(watch, workers),
            Order::Unwatch => self.unwatch(workers),
        };
        call.answer(answer);
    }

    /// SIGHUP: the file the run was started with, again.
    fn reload(&mut self, workers: &mut Producers) {
        let Some(file) = self.file.clone() else {
            say_err!("weir: SIGHUP: the configuration is built in, there is no file to read again");
            return;
        };
        let name = file.display().to_string();
        let applied = std::fs::read_to_string(&file)
            .map_err(|error| Refusal::new(422, format!("cannot read {name}: {error}")))
            .and_then(|text| self.apply(&name, &text, None, false, workers));
        if let Err(refusal) = applied {
            say_err!("weir: SIGHUP: {}", refusal.detail);
            for fault in &refusal.faults {
                let line = fault.line.map(|line| format!(":{line}")).unwrap_or_default();
                say_err!("  {name}{line}: {}: {}; {}", fault.path, fault.detail, fault.remedy);
            }
        }
    }

    fn apply(
        &mut self,
        name: &str,
        text: &str,
        confirm: Option<Duration>,
        dry_run: bool,
        workers: &mut Producers,
    ) -> Answer {
        let now = self.shown.get();
        let target = self.prepare(&now, name, text).inspect_err(|refusal| {
            if !dry_run {
                self.tell("refused", &json!({ "source": name, "detail": refusal.detail }));
            }
        })?;
        if self.before.is_some() && !dry_run {
            return Err(Refusal::new(409, "another configuration waits to be confirmed or rolled back"));
        }
        let changed = config::differences(&now.config, &target.config);
        let mut answer = json!({
            "applied": !dry_run,
            "changed": changed.iter().map(admin::difference).collect::<Vec<_>>(),
        });
        if dry_run {
            return Ok(answer.into());
        }
        let target = InForce { unconfirmed: confirm.map(|time| Instant::now() + time), ..target };
        let spread = self.switch_over(&now, target, workers)?;
        self.before = confirm.map(|_| now);
        answer["spread_ns"] = json!(spread);
        answer["confirm_ms"] = json!(confirm.map(|time| time.as_millis() as u64));
        let n = changed.len();
        self.tell("applied", &json!({ "source": name, "values": n, "confirm_ms": answer["confirm_ms"] }));
        say!("configuration {name}: applied, {n} values differ");
        Ok(answer.into())
    }

    /// Everything that can be wrong with a configuration is found here, before anybody is told of it.
    fn prepare(&self, now: &InForce, name: &str, text: &str) -> Result<InForce, Refusal> {
        let loaded = config::load(name, text).map_err(|found| Refusal {
            status: 422,
            detail: format!("{name} has errors; the switch runs on as it was"),
            faults: found.iter().filter(|d| d.is_error()).map(Fault::from).collect(),
        })?;
        let mut config = loaded.config;
        let fixed = config::fixed(&now.config, &config);
        let conflict = |faults| Refusal {
            status: 409,
            detail: format!("{name} changes what cannot change at run time; the switch runs on as it was"),
            faults,
        };
        if !fixed.is_empty() {
            return Err(conflict(fixed.iter().map(Fault::from).collect()));
        }
        // Memory for frames was set aside at start: there may be more of it than asked for now.
        config.buffer.frames = now.config.buffer.frames;
        let params =
            runtime::switch_params(&config, &self.granting.devices, self.granting.cores.len(), SHAPER_BURST)
                .map_err(|error| Refusal::new(422, error.to_string()))?;
        Change::between(&now.params, &params).map_err(|error| {
            conflict(vec![Fault {
                path: "switch".into(),
                detail: error.to_string(),
                remedy: "leave it as it is, or restart the switch".into(),
                ..Fault::default()
            }])
        })?;
        Ok(InForce { source: name.to_owned(), config, params, unconfirmed: None })
    }

    fn confirm(&mut self) -> Answer {
        if self.before.take().is_none() {
            return Err(Refusal::new(409, "nothing waits to be confirmed"));
        }
        let kept = InForce { unconfirmed: None, ..(*self.shown.get()).clone() };
        self.tell("confirmed", &json!({ "source": kept.source }));
        say!("configuration {}: confirmed", kept.source);
        let answer = json!({ "confirmed": kept.source });
        self.shown.set(kept);
        Ok(answer.into())
    }

    fn roll_back(&mut self, why: &str, workers: &mut Producers) -> Answer {
        let Some(before) = self.before.clone() else {
            return Err(Refusal::new(409, "nothing waits to be confirmed: there is nothing to go back to"));
        };
        let now = self.shown.get();
        self.switch_over(&now, InForce { unconfirmed: None, ..(*before).clone() }, workers)?;
        self.before = None;
        self.tell("rolled_back", &json!({ "source": before.source, "from": now.source, "why": why }));
        say!("configuration {}: back in force, {why}", before.source);
        Ok(json!({ "rolled_back_to": before.source }).into())
    }

    /// Tells all workers to go over at one instant, and waits until they have. One that cannot takes all back.
    /// Returns how far apart they were, ns.
    fn switch_over(&mut self, from: &InForce, to: InForce, workers: &mut Producers) -> Result<u64, Refusal> {
        let broken = |error: &dyn std::fmt::Display| Refusal::new(500, error.to_string());
        let there = Change::between(&from.params, &to.params).map_err(|error| broken(&error))?;
        let back = Change::between(&to.params, &from.params).map_err(|error| broken(&error))?;
        let everybody: Vec<usize> = (0..workers.len()).collect();
        let results = self.all_apply(&there, &everybody, workers)?;
        if let Some(Err(error)) = results.iter().find(|result| result.is_err()) {
            // A shard that failed may have some of the static entries already: all go back.
            let error = error.clone();
            self.all_apply(&back, &everybody, workers)?;
            return Err(broken(&error));
        }
        let at = |f: fn(u64, u64) -> u64| results.iter().flatten().copied().reduce(f).unwrap_or(0);
        let spread = at(u64::max) - at(u64::min);
        self.news.push(News::Info(Box::new(self.granting.info(&to.config))));
        self.shown.set(to);
        Ok(spread)
    }

    /// When each worker went over, or why it did not.
    fn all_apply(
        &mut self,
        change: &Change,
        who: &[usize],
        workers: &mut Producers,
    ) -> Result<Vec<Result<u64, String>>, Refusal> {
        self.has_room(workers)?;
        let at = self.clock.now() + AHEAD;
        for i in who {
            // There is room: nobody else sends.
            let _ = workers[*i].push(Command::Apply { at, change: Box::new(change.clone()) });
        }
        let deadline = Instant::now() + PATIENCE;
        let mut results = Vec::new();
        for i in who {
            loop {
                match self.replies[*i].pop() {
                    // What nobody waits for any more.
                    Ok(Reply::Tapped(_) | Reply::Fdb(_)) => {}
                    Ok(Reply::Applied { at, result, .. }) => {
                        results.push(result.map(|()| at).map_err(|error| error.to_string()));
                        break;
                    }
                    Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
                    Err(_) => return Err(Refusal::new(500, format!("worker {i} does not answer"))),
                }
            }
        }
        Ok(results)
    }

    /// One page of one worker's forwarding table. The worker reads it between its turns, a little each time.
    fn read_fdb(&mut self, question: &Question, workers: &mut Producers) -> Answer {
        let Question { worker, next, filter, most } = *question;
        if worker >= workers.len() {
            return Err(Refusal::new(404, format!("no worker {worker}")));
        }
        self.has_room(workers)?;
        self.pages += 1;
        let _ = workers[worker].push(Command::Fdb(Box::new(FdbPage::new(self.pages, filter, next, most))));
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.replies[worker].pop() {
                Ok(Reply::Fdb(page)) if page.id == self.pages => {
                    return Ok(Done::Fdb(Page { worker, workers: workers.len(), page }));
                }
                // What nobody waits for any more.
                Ok(_) => {}
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
                Err(_) => return Err(Refusal::new(503, format!("worker {worker} does not answer"))),
            }
        }
    }

    /// Arms a tap in every worker: frames of one port may leave by those of another.
    fn watch(&mut self, watch: &Watch, workers: &mut Producers) -> Answer {
        let config = &self.shown.get().config;
        let names: Vec<_> = config.ports.iter().map(|port| port.name.as_str()).collect();
        let Some(port) = config.port(&watch.port) else {
            let fault = Fault {
                path: "/port".into(),
                detail: format!("no port is called `{}`; there are {}", watch.port, names.join(", ")),
                ..Fault::default()
            };
            return Err(Refusal { status: 404, detail: fault.detail.clone(), faults: vec![fault] });
        };
        if self.watching {
            return Err(Refusal::new(409, "somebody follows frames already: one at a time"));
        }
        self.has_room(workers)?;
        let order = TapOrder {
            port,
            filter: watch.filter,
            count: watch.count,
            bytes: watch.bytes,
            drops: watch.drops,
        };
        let mut readers = Vec::new();
        for worker in workers.iter_mut() {
            let (tap, reader) = Tap::new(order);
            readers.push(reader);
            let _ = worker.push(Command::Tap(Some(Box::new(tap))));
        }
        self.watching = true;
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Done::Watching(Watching { readers, anchor: (unix.as_nanos() as u64, self.clock.now()) }))
    }

    fn unwatch(&mut self, workers: &mut Producers) -> Answer {
        self.has_room(workers)?;
        for worker in workers.iter_mut() {
            let _ = worker.push(Command::Tap(None));
        }
        self.watching = false;
        Ok(json!({}).into())
    }

    /// Every worker takes another message: nobody else sends any, so what is there now is there then.
    fn has_room(&mut self, workers: &Producers) -> Result<(), Refusal> {
        // Answers nobody waits for any more.
        self.replies.iter_mut().for_each(|replies| while replies.pop().is_ok() {});
        match workers.iter().all(|worker| worker.slots() > 0) {
            true => Ok(()),
            false => Err(Refusal::new(503, "a worker has more messages than it can take: try again")),
        }
    }

    /// A host leaves to its NIC what nobody does.
    pub fn report_offloads(&self, found: &kernel::Found) {
        let kernel::Found { port, detail, remedy } = found;
        say_err!("weir: port {port}: {detail}\n  -> {remedy}");
        let fields = json!({ "port": port, "detail": detail, "remedy": remedy });
        let fields = fields.as_object().cloned().unwrap_or_default();
        self.news.push(News::Event { kind: "offload", phase: "alarm", fields });
    }

    fn tell(&self, phase: &'static str, fields: &Value) {
        let fields: Map<String, Value> = fields.as_object().cloned().unwrap_or_default();
        self.news.push(News::Event { kind: "reload", phase, fields });
    }
}

/// What devices and lcores granted at start, which no configuration changes.
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
    /// What readers are told of the switch under this configuration.
    pub fn info(&self, config: &Config) -> SwitchInfo {
        let info = SwitchInfo::of(config, &self.dpdk, self.cores.clone(), self.granted.clone());
        SwitchInfo { hz: self.hz, ..info }
    }
}
