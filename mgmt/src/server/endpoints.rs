//! The endpoints: each one entry, from which router, guard, index, OpenAPI document and client are made.

use super::{App, fdb, inc, orders, routes, stream, watching};
use crate::access::Role;
use crate::admin::{explain, fdb as tables, inc as jobs};
use crate::api::documents::{
    Applied, ConfigInForce, Confirmed, Event, ExplainedFrame, FdbPage, Flows, History, Index, JobDone, Lldp,
    OpenApi, RolledBack, SonicConfig, WatchLine, WatchOrder,
};
use crate::api::given::Given;
use crate::api::{
    Answer, Body, CONFIG, CONFIRM, EVENTS, EXPLAIN, Endpoint, HISTORY, INDEX, Kind, OPENAPI, Parameter,
    ROLLBACK, SNAPSHOT, WATCH, parameter,
};
use crate::flows;
use crate::lldp;
use crate::page;
use crate::sonic;
use crate::table::{self, Table};
use crate::times::Part;
use axum::http::Response;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use weir_inc::spec::JobSpec;

/// What answers a request that fits its endpoint.
pub(crate) type Serve =
    Box<dyn Fn(Arc<App>, Given) -> BoxFuture<'static, Response<axum::body::Body>> + Send + Sync>;

macro_rules! serve {
    ($handler:expr) => {
        Box::new(|app, given| Box::pin($handler(app, given)))
    };
}

/// A day.
const LONGEST_CONFIRM: u64 = 24 * 3600 * 1000;

const PORT: Parameter = parameter("port", "rows of this port only", Kind::Port);

const SINCE: &[Parameter] = &[
    parameter("since", "steps that ended after this, ms since 1970", Kind::Integer(0, u64::MAX)),
    parameter(
        "after",
        "steps that ended after this `uptime_ms`, which no clock that is set disturbs",
        Kind::Integer(0, u64::MAX),
    ),
];

const STREAM: &[Parameter] = &[
    parameter("since", "number of the last event already known", Kind::Integer(0, u64::MAX)),
    parameter("port", "events of this port only", Kind::Port),
    parameter("format", "as Accept says unless given, else sse", Kind::Word(|| vec!["sse", "ndjson"])),
    parameter("follow", "false: only what is kept; else it goes on for ever", Kind::Flag),
];

const fn lane(last: Parameter) -> [Parameter; 4] {
    [
        parameter("port", "this port only", Kind::Port),
        parameter("queue", "this queue only", Kind::Integer(0, 7)),
        parameter(
            "part",
            "of the time; residence, all of it, unless given",
            Kind::Word(|| Part::ALL.map(Part::name).to_vec()),
        ),
        last,
    ]
}

const HGRM: &[Parameter] = &lane(parameter("window", "of the last second, not since start", Kind::Flag));
const HLOG: &[Parameter] = &lane(parameter("cumulative", "since start, not second by second", Kind::Flag));

const VERBOSE: &[Parameter] = &[parameter(
    "verbose",
    "say what was checked; the name alone does, too",
    Kind::Word(|| vec!["", "true", "false"]),
)];

const APPLY: &[Parameter] = &[
    parameter("name", "what the configuration is called in messages", Kind::Text),
    parameter(
        "confirm",
        "milliseconds after which it is taken back unless confirmed",
        Kind::Integer(1, LONGEST_CONFIRM),
    ),
    parameter("dry_run", "true: only say what would change", Kind::Flag),
];

const END: &[Parameter] = &[
    Parameter {
        name: "id",
        what: "name of the job, a number",
        kind: Kind::Integer(0, u32::MAX as u64),
        required: true,
    },
    parameter("port", "port of its engine; may be left out where there is one engine", Kind::Port),
];

const WATCH_EXAMPLE: &str =
    r#"{ "port": "p0", "filter": { "dscp": 26 }, "count": 1, "bytes": 64, "timeout_ms": 1000 }"#;

fn read(id: &'static str, path: &'static str, serve: Serve) -> Endpoint {
    Endpoint {
        id: id.into(),
        method: "GET",
        path,
        tag: "switch",
        what: "",
        role: Role::Read,
        parameters: &[],
        body: None,
        answers: Vec::new(),
        serve,
    }
}

fn order(id: &'static str, path: &'static str, role: Role, serve: Serve) -> Endpoint {
    Endpoint { method: "POST", role, ..read(id, path, serve) }
}

fn table(table: &'static Table) -> Endpoint {
    Endpoint {
        id: format!("get_{}", table.name).into(),
        tag: "tables",
        what: table.what,
        parameters: if table.by_port { &[PORT] } else { &[] },
        answers: vec![Answer::rows(table)],
        ..read("", table.path, Box::new(move |app, given| Box::pin(routes::rows(table, app, given))))
    }
}

fn file(file: &'static page::File) -> Endpoint {
    let serve = Box::new(|_, _| {
        let answer = routes::text(file.kind, file.text);
        Box::pin(std::future::ready(answer)) as BoxFuture<'static, _>
    });
    Endpoint { tag: "", role: Role::Anybody, ..read("", file.path, serve) }
}

/// All of them.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let tables = table::ALL.iter().map(table);
    let files = page::FILES.iter().map(file);
    tables.chain(state()).chain(configuration()).chain(frames()).chain(files).collect()
}

/// What the switch shows beside tables.
fn state() -> Vec<Endpoint> {
    let text = || Answer::text("text/plain");
    let health = || vec![text(), Answer { status: 503, ..text() }];
    vec![
        Endpoint {
            what: "200 while the management thread looks at the switch, else 503.",
            tag: "health",
            role: Role::Anybody,
            answers: health(),
            ..read("get_health", "/healthz", serve!(routes::healthz))
        },
        Endpoint {
            what: "200 while the switch forwards, else 503 with reasons.",
            tag: "health",
            parameters: VERBOSE,
            answers: health(),
            ..read("get_readiness", "/readyz", serve!(routes::readyz))
        },
        Endpoint {
            what: "What there is.",
            answers: vec![Answer::json::<Index>()],
            ..read("get_index", INDEX, serve!(routes::index))
        },
        Endpoint {
            what: "Every table, of one reading.",
            answers: vec![Answer::EVERYTHING],
            ..read("get_snapshot", SNAPSHOT, serve!(routes::snapshot))
        },
        Endpoint {
            what: "OpenMetrics 1.0 if asked for, else text 0.0.4.",
            answers: vec![text(), Answer::text("application/openmetrics-text")],
            ..read("get_metrics", "/metrics", serve!(routes::scrape))
        },
        Endpoint {
            what: "The last minute in steps, by port and priority; only what was busy.",
            parameters: SINCE,
            answers: vec![Answer::json::<History>()],
            ..read("get_history", HISTORY, serve!(routes::history))
        },
        Endpoint {
            what: "HdrHistogram percentile distribution, us.",
            parameters: HGRM,
            answers: vec![text()],
            ..read("get_latency_hgrm", "/v1/latency.hgrm", serve!(routes::hgrm))
        },
        Endpoint {
            what: "HdrHistogram interval log V2 of the last minute.",
            parameters: HLOG,
            answers: vec![text()],
            ..read("get_latency_hlog", "/v1/latency.hlog", serve!(routes::hlog))
        },
        Endpoint {
            what: "Events kept, then events as they come.",
            parameters: STREAM,
            answers: vec![Answer::lines::<Event>(), Answer::events::<Event>()],
            ..read("get_events", EVENTS, serve!(stream::events))
        },
        Endpoint {
            what: "This document.",
            answers: vec![Answer::json::<OpenApi>()],
            ..read("get_openapi", OPENAPI, serve!(routes::document))
        },
        Endpoint {
            what: "A page of the forwarding table, in no order, and what workers have counted.",
            parameters: &tables::PARAMETERS,
            answers: vec![Answer::json::<FdbPage>()],
            ..read("get_fdb", tables::PATH, serve!(fdb::page))
        },
        Endpoint {
            what: "Which flows are behind marks, losses, pauses and the depth of queues.",
            parameters: &flows::PARAMETERS,
            answers: vec![Answer::json::<Flows>()],
            ..read("get_flows", flows::PATH, serve!(routes::behind_what))
        },
        Endpoint {
            what: "LLDP with DCBX: neighbours by port, where their PFC, ETS and frame size differ from ours, and what they are told.",
            parameters: &lldp::PARAMETERS,
            answers: vec![Answer::json::<Lldp>()],
            ..read("get_lldp", lldp::PATH, serve!(routes::neighbours))
        },
    ]
}

fn configuration() -> Vec<Endpoint> {
    let toml = Body {
        media: "application/toml",
        schema: |_| serde_json::json!({ "type": "string", "format": "binary" }),
        most: 1 << 20,
        example: "[[port]]\nname = \"p0\"\ndevice = \"ring\"\n\n[[port]]\nname = \"p1\"\ndevice = \"ring\"\n",
    };
    let all = vec![
        Endpoint {
            what: "The configuration in force as SONiC's tables (config_db.json).",
            answers: vec![Answer::json::<SonicConfig>()],
            ..read("get_sonic_config", sonic::PATH, serve!(orders::tables))
        },
        Endpoint {
            what: "Every effective value of the configuration in force, with its origin.",
            answers: vec![Answer::json::<ConfigInForce>()],
            ..read("get_config", CONFIG, serve!(orders::config))
        },
        Endpoint {
            what: "Go over to another configuration, all of it or nothing.",
            parameters: APPLY,
            body: Some(toml),
            answers: vec![Answer::json::<Applied>()],
            ..order("apply_config", CONFIG, Role::Admin, serve!(orders::apply))
        },
        Endpoint {
            what: "Keep what was applied.",
            answers: vec![Answer::json::<Confirmed>()],
            ..order("confirm_config", CONFIRM, Role::Admin, serve!(orders::confirm))
        },
        Endpoint {
            what: "Go back to what was before.",
            answers: vec![Answer::json::<RolledBack>()],
            ..order("roll_back_config", ROLLBACK, Role::Admin, serve!(orders::roll_back))
        },
    ];
    all.into_iter().map(|endpoint| Endpoint { tag: "configuration", ..endpoint }).collect()
}

/// About single frames, and about jobs of in-network aggregation.
fn frames() -> Vec<Endpoint> {
    vec![
        Endpoint {
            what: "What would happen to a frame now.",
            tag: "frames",
            parameters: &explain::PARAMETERS,
            answers: vec![Answer::json::<ExplainedFrame>()],
            ..read("explain_frame", EXPLAIN, serve!(orders::explain))
        },
        Endpoint {
            what: "Follow frames, told as they come.",
            tag: "frames",
            body: Some(Body::json::<WatchOrder>(4096, WATCH_EXAMPLE)),
            answers: vec![Answer::lines::<WatchLine>()],
            ..order("watch_frames", WATCH, Role::Operate, serve!(watching::watch))
        },
        Endpoint {
            what: "Take a job of in-network aggregation (docs/inc.md).",
            tag: "inc",
            body: Some(Body::json::<JobSpec>(jobs::LONGEST, include_str!("../../../configs/inc-job.json"))),
            answers: vec![Answer::json::<JobDone>()],
            ..order("add_inc_job", jobs::PATH, Role::Operate, serve!(inc::add))
        },
        Endpoint {
            what: "Tell the ranks of a job that it has ended, and forget it.",
            tag: "inc",
            method: "DELETE",
            parameters: END,
            answers: vec![Answer::json::<JobDone>()],
            ..order("end_inc_job", "/v1/inc/jobs/{id}", Role::Operate, serve!(inc::end))
        },
    ]
}
