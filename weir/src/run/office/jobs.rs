//! Orders about jobs of in-network aggregation: a job is made here, where memory may be taken, and handed to the worker that
//! moves its engine.

use super::{Office, PATIENCE, Task};
use crate::run::control::{Command, JobOrder, Reply, Told};
use std::time::Instant;
use weir_config::EngineConfig;
use weir_dataplane::types::PortId;
use weir_inc::job::Job;
use weir_inc::kernels::Kernels;
use weir_inc::params::Refusal as JobRefusal;
use weir_inc::spec::JobSpec;
use weir_mgmt::admin::inc::JobOrder as Asked;
use weir_mgmt::admin::{Call, Done, Fault, Refusal};
use weir_mgmt::api::documents::{self, JobDone};

/// A worker takes or ends a job.
#[derive(Debug)]
pub(super) struct JobTask {
    worker: usize,
    /// Of its engine.
    port: PortId,
    deadline: Instant,
    phase: &'static str,
    /// What is said of it once it has.
    said: JobDone,
    call: Call,
}

impl Office {
    /// Sends an order about a job to the worker of its engine.
    pub(super) fn order_job(&mut self, asked: &Asked, call: Call) -> Option<Task> {
        let (port, named) = match asked {
            Asked::Add(spec) => (spec.port.as_deref(), spec.id),
            Asked::End { id, port } => (port.as_deref(), *id),
        };
        let ready = self.engine(port).and_then(|(port, engine)| {
            let order = match asked {
                Asked::Add(spec) => {
                    JobOrder::Add(make(spec, &engine, self.shown.get().config.ports[port.index()].mtu)?)
                }
                Asked::End { id, .. } => JobOrder::End(*id),
            };
            self.have_room().map(|()| (port, order))
        });
        let (port, order) = match ready {
            Ok(ready) => ready,
            Err(refusal) => {
                call.answer(Err(refusal));
                return None;
            }
        };
        let (phase, memory) = match &order {
            JobOrder::Add(job) => ("added", Some(job.params().memory())),
            JobOrder::End(_) => ("ended", None),
        };
        let name = &self.shown.get().config.ports[port.index()].name;
        let said = JobDone { port: name.clone(), job: named, memory_bytes: memory };
        let worker = usize::from(self.granting.devices[port.index()].shard);
        self.work.number += 1;
        self.workers.send(worker, Command::Job { id: self.work.number, port, order });
        let deadline = Instant::now() + PATIENCE;
        Some(Task::Job(JobTask { worker, port, deadline, phase, said, call }))
    }

    /// The engine of this port, or the only one.
    fn engine(&self, port: Option<&str>) -> Result<(PortId, EngineConfig), Refusal> {
        let config = &self.shown.get().config;
        let engines =
            config.ports.iter().enumerate().filter_map(|(i, p)| Some((i, p.name.as_str(), p.engine?)));
        let engines: Vec<_> = engines.collect();
        let chosen = match (port, &engines[..]) {
            (Some(port), all) => all.iter().find(|(_, name, _)| *name == port),
            (None, [one]) => Some(one),
            (None, _) => None,
        };
        let names = || engines.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ");
        match chosen {
            Some((i, _, engine)) => Ok((PortId(*i as u16), *engine)),
            None if engines.is_empty() => {
                Err(Refusal::new(404, "this switch has no engine: no port with device = \"inc\""))
            }
            None => {
                let detail = match port {
                    Some(port) => format!("port `{port}` is not an engine; there are {}", names()),
                    None => format!("say which engine with `port`: {}", names()),
                };
                let fault = Fault { path: "/port".into(), detail: detail.clone(), ..Fault::default() };
                Err(Refusal { status: 404, detail, faults: vec![fault] })
            }
        }
    }

    pub(super) fn await_job(&mut self, awaited: JobTask) -> Option<Task> {
        let JobTask { worker, port, deadline, phase, said, call } = awaited;
        match self.workers.hear(worker) {
            // A job that was ended is in the way, for as long as its ranks are told at most.
            Some(Reply::Job { id, told: Told::Ending(job) })
                if id == self.work.number && Instant::now() < deadline =>
            {
                self.workers.send(worker, Command::Job { id, port, order: JobOrder::Add(job) });
                Some(Task::Job(JobTask { worker, port, deadline, phase, said, call }))
            }
            Some(Reply::Job { id, told }) if id == self.work.number => {
                call.answer(match told {
                    Told::Taken => {
                        self.report("inc", phase, &documents::json(&said));
                        Ok(Done::said(&said))
                    }
                    Told::Refused(refusal, _) => Err(refused(&refusal)),
                    Told::Ending(job) => {
                        let id = job.params().id;
                        let detail =
                            format!("job {id}: a job that was ended still has what it needs; try again");
                        Err(Refusal::new(409, detail))
                    }
                    Told::Unknown => Err(Refusal::new(404, format!("the engine has no job {}", said.job))),
                });
                None
            }
            None if Instant::now() >= deadline => {
                call.answer(Err(Refusal::new(503, format!("worker {worker} does not answer"))));
                None
            }
            // Nothing yet, or what nobody waits for any more.
            _ => Some(Task::Job(JobTask { worker, port, deadline, phase, said, call })),
        }
    }
}

/// The job, with all its memory, for an engine behind a port that carries frames of `mtu` bytes.
fn make(spec: &JobSpec, engine: &EngineConfig, mtu: u16) -> Result<Box<Job>, Refusal> {
    let params =
        crate::inc::fits(spec, engine, mtu).map_err(|error| Refusal::new(422, format!("{error:#}")))?;
    let (needed, quota) = (params.memory(), engine.params.quota);
    if needed > quota {
        return Err(refused(&JobRefusal::Quota(spec.id, needed, quota)));
    }
    Job::new(params, Kernels::best()).map(Box::new).map_err(|refusal| refused(&refusal))
}

fn refused(refusal: &JobRefusal) -> Refusal {
    Refusal::new(if refusal.passes() { 409 } else { 422 }, refusal.to_string())
}
