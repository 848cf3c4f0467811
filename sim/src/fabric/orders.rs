//! `[[order]]`: what `weir qp` does to a running host, at a virtual time (CC-015, CC-021 to CC-024).
//!
//! An order is for queue pairs that have begun: a flow that starts at the same time is one of them. Sending queue pairs of
//! a host are numbered from 0 in the order in which they began; registers count them from 1.

use super::FabricError;
use super::faults::Faults;
use super::rate_control;
use super::spec::{Congestion, DcqcnSpec, FabricSpec, Protocol};
use super::topology::Plan;
use super::units::Duration;
use super::workload::Planned;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::access;
use weir_endpoint::dcqcn::firmware::{Dcqcn, RateController};
use weir_endpoint::dcqcn::registers::{At, Register};
use weir_endpoint::dcqcn::trace::{Entry, State, Trace};
use weir_endpoint::flow::{Nic, Pace};

/// Parameters a queue pair takes into account as it begins, and never again.
const OF_THE_START: [&str; 3] = ["initial_alpha", "initial_rate", "message"];

/// One order.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderSpec {
    /// When.
    #[serde(default)]
    pub at: Duration,
    /// The sending host; all unless given.
    pub host: Option<String>,
    /// Its queue pair; all unless given.
    pub qpn: Option<u32>,
    /// Keys of `[host.dcqcn]` with other values, and registers (`"0x600008"`) with numbers; none unless given.
    #[serde(default)]
    #[schemars(schema_with = "super::json_schema::order_set")]
    pub set: Option<Table>,
    /// A record of what moves rates begins, empty, or ends; neither unless given.
    pub trace: Option<TraceSwitch>,
    /// Registers go into the report, after what else it does.
    #[serde(default)]
    pub show: bool,
}

/// What becomes of the record of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceSwitch {
    /// It begins anew.
    Start,
    /// Nothing more is recorded.
    Stop,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderResult {
    /// When, ns.
    pub at_ns: u64,
    /// `set`, `trace start`, `trace stop` or `show`.
    pub order: &'static str,
    /// Queue pairs it was carried out for.
    pub queue_pairs: Vec<QueuePair>,
    /// Why not, or not for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A queue pair after an order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueuePair {
    /// Its host.
    pub host: String,
    /// Its number there.
    pub qpn: u32,
    /// Rate it may send at.
    pub rate_bps: u64,
    /// Its registers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub registers: Vec<RegisterValue>,
}

/// A register.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegisterValue {
    /// Its name in the manual of the adapter.
    pub name: &'static str,
    /// Where it stands.
    pub address: u64,
    /// What it says.
    pub value: u32,
}

/// What was recorded of a queue pair: how it began, each event, and how many there were of each class (CC-023).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairTrace {
    /// Its host.
    pub host: String,
    /// Its number there.
    pub qpn: u32,
    /// It would record more.
    pub running: bool,
    /// State before the first event.
    pub initial: TraceState,
    /// Events of each class.
    pub counts: TraceCounts,
    /// The events, 64 at most.
    pub entries: Vec<TraceEntry>,
}

/// The state of a queue pair as a record begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceState {
    /// Rate.
    pub rate_bps: u64,
    /// Target rate.
    pub target_bps: u64,
    /// Alpha, 1024ths.
    pub alpha: u16,
    /// Increases by the byte counter since the last cut.
    pub byte_count: u32,
    /// Increases by the timer since the last cut.
    pub time_count: u32,
}

/// Events of each class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceCounts {
    /// Cuts.
    pub decrease: u32,
    /// Increases by the byte counter.
    pub byte_counter: u32,
    /// Increases by the timer.
    pub timer: u32,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceEntry {
    /// When, ns.
    pub time_ns: u64,
    /// Its code.
    pub code: u8,
    /// Its name.
    pub event: &'static str,
    /// The rate it left.
    pub rate_bps: u64,
    /// All of it in 64 bits, as hardware has it.
    pub dcqcn_dfx_info: u64,
}

impl PairTrace {
    fn of(host: &str, qpn: u32, trace: &Trace) -> Self {
        let State { current, target, alpha, byte_count, time_count } = *trace.initial();
        let counts = trace.counts();
        let entry = |entry: &Entry| TraceEntry {
            time_ns: entry.at,
            code: entry.cause as u8,
            event: entry.cause.name(),
            rate_bps: entry.rate,
            dcqcn_dfx_info: entry.info(),
        };
        Self {
            host: host.into(),
            qpn,
            running: trace.is_running(),
            initial: TraceState { rate_bps: current, target_bps: target, alpha, byte_count, time_count },
            counts: TraceCounts {
                decrease: counts.decrease,
                byte_counter: counts.byte_counter,
                timer: counts.timer,
            },
            entries: trace.entries().iter().map(entry).collect(),
        }
    }

    /// A line for each event, and one for the state before them.
    pub(super) fn csv(&self) -> impl Iterator<Item = String> + '_ {
        let head = format!("{},{}", super::report::quoted(&self.host), self.qpn);
        let first = format!("{head},,,start,{}\n", self.initial.rate_bps);
        let line =
            move |e: &TraceEntry| format!("{head},{},{:03b},{},{}\n", e.time_ns, e.code, e.event, e.rate_bps);
        std::iter::once(first).chain(self.entries.iter().map(line))
    }
}

#[derive(Clone, Debug)]
enum Action {
    /// Parameters, then registers by their addresses.
    Set(Table, Vec<(u64, u64)>),
    Trace(TraceSwitch),
    /// Nothing but a look.
    Show,
}

/// An order that can be carried out.
#[derive(Clone, Debug)]
struct Order {
    hosts: Vec<usize>,
    qpn: Option<u32>,
    action: Action,
    /// Registers are reported.
    show: bool,
}

/// All orders of a run, and what came of those that have been carried out.
#[derive(Debug, Default)]
pub(super) struct Orders {
    orders: Vec<Order>,
    results: Vec<OrderResult>,
    /// `[host.dcqcn]` of the file, and of queue pairs for which orders have changed it.
    dcqcn: Table,
    changed: BTreeMap<(usize, u32), Table>,
}

fn wrong(nth: usize, key: &str, got: impl Into<String>, must: impl Into<String>) -> FabricError {
    FabricError::Range { what: format!("order.{nth}.{key}"), got: got.into(), must: must.into() }
}

/// What a `[host.dcqcn]` comes to on a line of `line` bit/s.
///
/// # Errors
/// Why it is none.
fn parameters(spec: &FabricSpec, dcqcn: &Table, line: u64) -> Result<Dcqcn, String> {
    let mut host = spec.host.clone();
    let read: Result<DcqcnSpec, _> = dcqcn.clone().try_into();
    host.dcqcn = read.map_err(|e: toml::de::Error| e.message().to_owned())?;
    let pace = rate_control::pace(&host, line).map_err(|e| e.to_string())?;
    rate_control::check(&pace).map_err(|e| e.to_string())?;
    Ok(match pace {
        Pace::Scheme { dcqcn, .. } => dcqcn,
        Pace::Dcqcn(params) => Dcqcn::plain(params),
        Pace::Line | Pace::Fixed(_) | Pace::Acks(_) => return Err("no DCQCN".into()),
    })
}

/// The address and the value of a register.
fn register(nth: usize, key: &str, value: &Value) -> Result<(u64, u64), FabricError> {
    let what = format!("set.{key}");
    let digits = key.trim_start_matches("0x").replace('_', "");
    let address = u64::from_str_radix(&digits, 16)
        .map_err(|_| wrong(nth, &what, "no number", "an address, e.g. \"0x600008\""))?;
    if At::address(address).is_none() {
        return Err(wrong(nth, &what, "no register", "the address of one: docs/host.md lists them"));
    }
    let value = value.as_integer().and_then(|value| u64::try_from(value).ok());
    let value = value.ok_or_else(|| wrong(nth, &what, "no number", "a number of 0 or more"))?;
    Ok((address, value))
}

impl Orders {
    /// Those of `spec`.
    ///
    /// # Errors
    /// An order that says nothing, or cannot be carried out.
    pub fn new(spec: &FabricSpec, plan: &Plan, flows: &[Planned]) -> Result<Self, FabricError> {
        let dcqcn = spec.source.get("host.dcqcn").and_then(Value::as_table).cloned();
        let mut all = Self {
            orders: Vec::new(),
            results: Vec::new(),
            dcqcn: dcqcn.unwrap_or_default(),
            changed: BTreeMap::new(),
        };
        let mut faults = Faults::default();
        for (nth, order) in spec.orders.iter().enumerate() {
            let Some(order) = faults.keep(all.planned(spec, plan, flows, nth, order)) else { continue };
            let word = match &order.action {
                Action::Set(..) => "set",
                Action::Trace(TraceSwitch::Start) => "trace start",
                Action::Trace(TraceSwitch::Stop) => "trace stop",
                Action::Show => "show",
            };
            let refused = Some("the run ended before".to_owned());
            let at_ns = spec.orders[nth].at.0;
            all.results.push(OrderResult { at_ns, order: word, queue_pairs: Vec::new(), refused });
            all.orders.push(order);
        }
        faults.refuse().map(|()| all)
    }

    fn planned(
        &self,
        spec: &FabricSpec,
        plan: &Plan,
        flows: &[Planned],
        nth: usize,
        order: &OrderSpec,
    ) -> Result<Order, FabricError> {
        let cannot = |key: &str, problem: String| {
            let key = format!("order.{nth}.{key}");
            Err(FabricError::Order { index: nth + 1, key, problem })
        };
        match (order.set.is_some(), order.trace.is_some(), order.show) {
            (true, true, _) => {
                return cannot("trace", "it says both `set` and `trace`; write an [[order]] for each".into());
            }
            (false, false, false) => {
                return cannot(
                    "at",
                    "there is nothing to do; give it one of `set`, `trace` and `show = true`".into(),
                );
            }
            _ => {}
        }
        if spec.host.protocol == Protocol::Rclink {
            let problem = "queue pairs of RC Link have no registers and no DCQCN; take it out, or protocol = \"rclink\"";
            return cannot("at", problem.into());
        }
        if order.at.0 > spec.stop_time.0 {
            return Err(wrong(
                nth,
                "at",
                order.at.0.to_string(),
                format!("at most `stop_time`, which is {} ns", spec.stop_time.0),
            ));
        }
        let names = &plan.names[..plan.stations()];
        let hosts: Vec<usize> = match &order.host {
            None => (0..names.len()).collect(),
            Some(name) => {
                let at = names.iter().position(|host| host == name);
                vec![at.ok_or_else(|| wrong(nth, "host", name, "the name of a host"))?]
            }
        };
        let reacts = |host: &usize| {
            flows.iter().any(|f| f.from == *host && f.cc == Congestion::Dcqcn && f.seat.is_none())
        };
        let hosts: Vec<usize> = hosts.into_iter().filter(reacts).collect();
        let Some(first) = hosts.first() else {
            let whose =
                order.host.as_ref().map_or("no flow".to_owned(), |host| format!("no flow of `{host}`"));
            let problem = format!(
                "{whose} has cc = \"dcqcn\", and no others have what orders are about (nor have ranks of inc_all_reduce); take it out, or set that"
            );
            return cannot("host", problem);
        };
        let action = match (&order.set, order.trace) {
            (None, None) => Action::Show,
            (_, Some(switch)) => Action::Trace(switch),
            (Some(set), None) => {
                let (registers, keys): (Vec<_>, Vec<_>) =
                    set.iter().partition(|(key, _)| key.starts_with("0x"));
                if set.is_empty() {
                    return Err(wrong(
                        nth,
                        "set",
                        "empty",
                        "keys of [host.dcqcn], or addresses of registers",
                    ));
                }
                if order.qpn.is_some() && !registers.is_empty() {
                    let must = "absent: the address of a register has its queue pair in it";
                    return Err(wrong(nth, "qpn", "set", must));
                }
                if let Some((key, _)) = keys.iter().find(|(key, _)| OF_THE_START.contains(&key.as_str())) {
                    let must = "absent: it is of the start of a queue pair; set it in [host.dcqcn]";
                    return Err(wrong(nth, &format!("set.{key}"), "set", must));
                }
                if set.contains_key("scheme") && spec.host.dcqcn.scheme.is_none() {
                    let must = "absent: without a scheme in [host.dcqcn] flows have no work requests";
                    return Err(wrong(nth, "set.scheme", "set", must));
                }
                let keys: Table = keys.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect();
                let mut merged = self.dcqcn.clone();
                merged.extend(keys.clone());
                if let Err(why) = parameters(spec, &merged, plan.line_of(*first)) {
                    return cannot(
                        "set",
                        format!("`set` is refused as a [host.dcqcn] with it would be: {why}"),
                    );
                }
                let registers = registers.iter().map(|(key, value)| register(nth, key, value));
                Action::Set(keys, registers.collect::<Result<_, _>>()?)
            }
        };
        Ok(Order { hosts, qpn: order.qpn, action, show: order.show })
    }

    /// Hosts of an order; whether it changes what they do.
    pub fn of(&self, nth: usize) -> (Vec<usize>, bool) {
        let order = &self.orders[nth];
        (order.hosts.clone(), matches!(order.action, Action::Set(..)))
    }

    /// Carries out order `nth` at one of its hosts: a `set` for all of its queue pairs there or, where one refuses, for none.
    pub fn carry_out(
        &mut self,
        nth: usize,
        spec: &FabricSpec,
        plan: &Plan,
        host: usize,
        nic: &mut Nic,
        now: Nanos,
    ) {
        let Order { qpn, action, show, .. } = self.orders[nth].clone();
        let mut adapters = nic.rate_controllers_mut();
        adapters.iter_mut().flatten().for_each(|adapter| adapter.handle_timeout(now));
        let is_meant = |at: u32| qpn.is_none_or(|asked| asked == at);
        let done = match &action {
            Action::Set(keys, registers) => {
                let of = |table: &Table| {
                    let mut merged = table.clone();
                    merged.extend(keys.clone());
                    merged
                };
                let tables = (0u32..).zip(&adapters).map(|(at, adapter)| {
                    let held = self.changed.get(&(host, at)).unwrap_or(&self.dcqcn);
                    (adapter.is_some() && is_meant(at) && !keys.is_empty()).then(|| of(held))
                });
                let tables: Vec<Option<Table>> = tables.collect();
                let line = plan.line_of(host);
                let done = set(&mut adapters, &tables, registers, now, |table| parameters(spec, table, line));
                if done.is_ok() {
                    let changed = (0u32..).zip(tables).filter_map(|(at, table)| Some(((host, at), table?)));
                    self.changed.extend(changed);
                }
                done
            }
            Action::Trace(switch) => {
                for (_, adapter) in (0u32..).zip(&mut adapters).filter(|(at, _)| is_meant(*at)) {
                    match (adapter, switch) {
                        (Some(adapter), TraceSwitch::Start) => adapter.start_trace(),
                        (Some(adapter), TraceSwitch::Stop) => adapter.stop_trace(),
                        (None, _) => {}
                    }
                }
                Ok(())
            }
            Action::Show => Ok(()),
        };
        let row = |at: u32| {
            let adapter = adapters[at as usize].as_deref()?;
            let registers = if show { registers(adapter, at, now) } else { Vec::new() };
            let rate_bps = adapter.allowance().rate;
            Some(QueuePair { host: plan.names[host].clone(), qpn: at, rate_bps, registers })
        };
        let result = &mut self.results[nth];
        if done.is_ok() {
            let met = (0..adapters.len() as u32).filter(|at| is_meant(*at));
            result.queue_pairs.extend(met.filter_map(row));
        }
        let refused = done.err().map(|why| format!("{}: {why}", plan.names[host]));
        // What the run began with is that nothing was done.
        result.refused = result.refused.take().filter(|why| why.contains(':')).or(refused);
    }

    /// What came of all, in the order of the file.
    pub fn results(mut self) -> Vec<OrderResult> {
        for result in &mut self.results {
            if result.refused.is_none() && result.queue_pairs.is_empty() {
                result.refused =
                    Some("there was no such queue pair; flows that begin later have none".into());
            }
        }
        self.results
    }
}

/// Sets queue pairs of a host: `tables` are the `[host.dcqcn]` of those that get another one, of which `parameters` makes what they are told,
/// and then come registers.
///
/// # Errors
/// Why not; nothing is changed.
fn set(
    adapters: &mut [Option<&mut RateController>],
    tables: &[Option<Table>],
    registers: &[(u64, u64)],
    now: Nanos,
    parameters: impl Fn(&Table) -> Result<Dcqcn, String>,
) -> Result<(), String> {
    let told = |(adapter, table): (&Option<&mut RateController>, &Option<Table>)| {
        let Some(adapter) = adapter else { return Ok(None) };
        table.as_ref().map_or(Ok(*adapter.settings()), &parameters).map(Some)
    };
    let mut all = adapters.iter().zip(tables).map(told).collect::<Result<Vec<_>, _>>()?;
    let mut own = Vec::new();
    let mut shared = false;
    for &(address, value) in registers {
        match access::tell(&mut all, address, value).map_err(|e| e.to_string())? {
            true => shared = true,
            false => own.push((address, value)),
        }
    }
    let mut changed: Vec<(&mut RateController, Dcqcn)> = Vec::new();
    for ((adapter, table), told) in adapters.iter_mut().zip(tables).zip(all) {
        if let (Some(adapter), Some(told)) = (adapter, told.filter(|_| shared || table.is_some())) {
            adapter.can_configure(&told, now).map_err(|e| e.to_string())?;
            changed.push((adapter, told));
        }
    }
    for (adapter, told) in changed {
        adapter.configure(&told, now).map_err(|e| e.to_string())?;
    }
    for (address, value) in own {
        access::write(adapters, address, value, now).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn registers(adapter: &RateController, at: u32, now: Nanos) -> Vec<RegisterValue> {
    let row = |register: Register| {
        let address = register.address(u64::from(at) + 1)?;
        Some(RegisterValue { name: register.name(), address, value: adapter.read(register, now) })
    };
    Register::ALL.into_iter().filter_map(row).collect()
}

/// What was recorded at a host.
pub(super) fn traces<'a>(name: &'a str, nic: &'a Nic) -> impl Iterator<Item = PairTrace> + 'a {
    let of = |(qpn, sender): (u32, &weir_endpoint::flow::Sender)| {
        Some(PairTrace::of(name, qpn, sender.rate_controller()?.trace()?))
    };
    (0u32..).zip(nic.senders()).filter_map(of)
}
