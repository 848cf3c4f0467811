"use strict";
// Looks at /v1/snapshot and /v1/history twice a second, draws. Nothing is fetched from elsewhere. A saved report
// carries its data in itself and is drawn by the same code.

const EVERY = 500;
const EVENTS = 200;
// What a reader of `--dump-dom` may wait for: rows beyond this many are left to /v1.
const ROWS = 512;

const $ = (id) => document.getElementById(id);
const saved = $("saved") ? JSON.parse($("saved").textContent) : null;
let token = saved ? "" : sessionStorage.getItem("weir-token") || "";
let snapshot = null;
let behind = null;
let neighbours = null;
let frozen = false;
let cursor = null;

const LANE = ["depth", "shared", "headroom", "xoff", "xon", "packets", "selected", "rx_paused", "tx_paused", "cause"];
// Times are ms since the switch came up: a wall clock can be set back, and charts go on.
const state = { times: [], lanes: new Map(), latency: new Map(), storms: [], kept: 300, step: 200 };

// Takes steps of /v1/history behind those known.
function learn(history) {
  state.kept = history.kept;
  state.step = history.step_ms;
  const before = state.times.length, came = history.uptime_ms.length;
  if (came === 0) return;
  state.times.push(...history.uptime_ms);
  const key = (l) => l.priority + " " + l.port;
  const news = new Map(history.lanes.map((l) => [key(l), l]));
  for (const [name, l] of news) {
    if (state.lanes.has(name)) continue;
    const lane = { port: l.port, priority: l.priority };
    for (const column of LANE) lane[column] = new Array(before).fill(null);
    state.lanes.set(name, lane);
  }
  for (const [name, lane] of state.lanes) {
    const l = news.get(name);
    // An idle lane is not told about: it held nothing.
    for (const column of LANE) lane[column].push(...((l && l[column]) || new Array(came).fill(column === "cause" || column === "xoff" || column === "xon" ? null : 0)));
  }
  const told = new Map(history.latency.map((l) => [l.part + " " + l.priority, l]));
  for (const name of told.keys()) {
    if (!state.latency.has(name)) state.latency.set(name, new Array(before).fill([]));
  }
  for (const [name, steps] of state.latency) {
    const l = told.get(name);
    for (let i = 0; i < came; i++) {
      steps.push(l ? l.frames[i].map(([b, n]) => [l.bounds_ns[b], l.bounds_ns[b + 1], n]) : []);
    }
  }
  const extra = state.times.length - state.kept;
  if (extra <= 0) return;
  state.times.splice(0, extra);
  for (const lane of state.lanes.values()) for (const column of LANE) lane[column].splice(0, extra);
  for (const steps of state.latency.values()) steps.splice(0, extra);
  if (cursor !== null) cursor = Math.max(0, cursor - extra);
}

// A switch that was started anew begins its times and numbers anew.
function forget() {
  state.times = [];
  state.lanes.clear();
  state.latency.clear();
  state.storms = [];
  lastEvent = 0;
  cursor = null;
}

// Tables: cells are texts or nodes, so no name of a port can become markup. A cell that shows a number of /v1 carries
// it in `data-of` and `data-value`.

function cell(tag, content, kind) {
  const node = document.createElement(tag);
  node.append(content);
  if (kind) node.className = kind;
  return node;
}

function shows(text, of, value) {
  const node = cell("span", text);
  node.dataset.of = of;
  node.dataset.value = String(value);
  return node;
}

function fill(table, heads, rows, empty) {
  const head = document.createElement("tr");
  for (const [text, kind] of heads) {
    const th = cell("th", text, kind);
    th.scope = "col";
    head.append(th);
  }
  const body = rows.slice(0, ROWS).map(({ cells, alarm, title }) => {
    const row = document.createElement("tr");
    if (alarm) row.className = "alarm";
    if (title) row.title = title;
    cells.forEach((content, i) => row.append(cell("td", content, heads[i][1])));
    return row;
  });
  if (body.length === 0) {
    const only = cell("td", empty, "text quiet");
    only.colSpan = heads.length;
    const row = document.createElement("tr");
    row.append(only);
    body.push(row);
  }
  table.replaceChildren(head, ...body);
}

function bar(parts, kind) {
  const node = cell("span", "", "bar " + (kind || ""));
  for (const [share, colour] of parts) {
    const part = document.createElement("b");
    part.style.width = Math.min(100, share * 100) + "%";
    part.style.background = colour;
    node.append(part);
  }
  return node;
}

function line(...parts) {
  const node = document.createElement("span");
  node.append(...parts);
  return node;
}

const by = (rows) => {
  const ports = new Map();
  for (const row of rows) ports.has(row.port) ? ports.get(row.port).push(row) : ports.set(row.port, [row]);
  return ports;
};

function pips(pfc, queues) {
  const span = cell("span", "", "pips");
  for (const p of pfc) {
    const i = Number(p.priority);
    const states = [
      [queues[i].storm, "storm", "!", "storm"],
      [p.xoff || p.tx_paused_share > 0.005, "tx", "▲", "we pause the peer " + percent(p.tx_paused_share)],
      [queues[i].paused || p.rx_paused_share > 0.005, "rx", "▼", "the peer pauses us " + percent(p.rx_paused_share)],
      [p.enabled, "on", "●", "PFC on"],
      [true, "off", "·", "PFC off"],
    ];
    const [, kind, sign, text] = states.find(([holds]) => holds);
    const pip = cell("span", sign, "pip " + kind);
    pip.title = "priority " + i + ": " + text;
    span.append(pip);
  }
  return span;
}

function ports() {
  const heads = [["Port", "text"], ["Link", "text"], ["PFC 0–7", "text"], ["Receives", "text"], ["Sends", "text"],
    ["Frames in", ""], ["Frames out", ""], ["Drops", ""], ["Missed", ""]];
  const pfc = by(snapshot.pfc), queues = by(snapshot.queues);
  const rows = snapshot.ports.map((p) => {
    const of = (key) => "ports/" + p.port + "/" + key;
    const drops = BigInt(p.rx_drops) + BigInt(p.tx_drops);
    const link = cell("span", p.admin === "down" ? "off" : p.device_state === "refused" ? "refused" : p.link);
    link.title = (p.admin === "down" ? "switched off: admin = down; " : p.device_error ? p.device_error + "; " : "") + p.driver + ", " + (p.rate_bps === null ? "no line rate" : scaled(Number(p.rate_bps), "bit/s")) + ", lcore " + p.lcore + ", PFC " + p.pfc_mode;
    return {
      cells: [p.port, p.pfc_mode === "not seen by software" ? line(link, " (PFC unseen)") : link, pips(pfc.get(p.port), queues.get(p.port)),
        line(bar([[p.rx_utilisation, COLOUR.blue]]), scaled(p.rx_bps, "")), line(bar([[p.tx_utilisation, COLOUR.green]]), scaled(p.tx_bps, "")),
        shows(count(p.rx_packets), of("rx_packets"), p.rx_packets), shows(count(p.tx_packets), of("tx_packets"), p.tx_packets),
        shows(count(drops), of("rx_drops+tx_drops"), drops), shows(count(p.nic_missed), of("nic_missed"), p.nic_missed)],
      alarm: p.link === "down" && p.admin !== "down",
    };
  });
  fill($("ports"), heads, rows, "no ports");
}

function drops() {
  const heads = [["Port", "text"], ["Reason", "text"], ["Frames", ""], ["Lossless", ""], ["/s", ""], ["Last", ""], ["What to check", "wrap"]];
  const rows = snapshot.drops.map((d) => ({
    cells: [d.port, d.reason, shows(count(d.frames), "drops/" + d.port + "/" + d.reason, d.frames), count(d.lossless_frames), scaled(d.pps, ""),
      d.last_unix_ms === 0 ? "–" : ((snapshot.unix_ms - d.last_unix_ms) / 1000).toFixed(0) + " s ago", d.remedy],
    alarm: d.lossless,
    title: d.remedy,
  }));
  fill($("drops"), heads, rows, "no frame was dropped; reasons and remedies appear here");
}

const STAGES = [["rx_driver", COLOUR.sky, "RX driver"], ["receive", COLOUR.blue, "receive"], ["transmit", COLOUR.green, "transmit"],
  ["tx_driver", COLOUR.orange, "TX driver"], ["tick", COLOUR.pink, "tick"]];

function lcores() {
  const heads = [["Lcore", ""], ["Busy", "text"], ["Off core", ""], ["Cycles per frame", "text"], ["p99 turn", ""], ["Longest", ""], ["Held", ""]];
  const stage = (l, name) => l[name + "_cycles"];
  const total = (l) => STAGES.reduce((sum, [name]) => sum + stage(l, name), 0);
  const most = Math.max(1, ...snapshot.lcores.map(total));
  const planned = Number(snapshot.switch[0].poll_gap_ns);
  const rows = snapshot.lcores.map((l) => {
    const stages = bar(STAGES.map(([name, colour]) => [stage(l, name) / most, colour]), "wide");
    stages.title = STAGES.map(([name, , text]) => text + " " + stage(l, name).toFixed(0)).join(", ");
    const longest = shows(nanos(l.longest_turn_ns), "lcores/" + l.lcore + "/longest_turn_ns", l.longest_turn_ns);
    longest.title = "planned for " + nanos(planned);
    return {
      cells: [String(l.lcore), line(bar([[l.busy_share, COLOUR.blue]]), percent(l.busy_share)),
        l.off_core_ns === null ? "–" : percent(l.off_core_share), line(stages, total(l).toFixed(0)),
        nanos(l.turn_p99_ns), longest, shows(count(l.held), "lcores/" + l.lcore + "/held", l.held)],
      alarm: !l.alive,
    };
  });
  fill($("lcores"), heads, rows, "no workers");
  legend("lcore-legend", STAGES.map(([, colour, text]) => ["box", colour, text]));
}

// Flows behind what happened in the last minute. Where more came than can be kept a share is a range.
const CAUSE = { drop: COLOUR.red, pause: COLOUR.orange, mark: COLOUR.green, depth: COLOUR.blue };
const UNIT = { frames: "", pauses: " pauses", mean_bytes: " B" };

function flows() {
  const heads = [["What", "text"], ["Share", "text"], ["Flow", "text"]];
  const wanted = $("cause").value, order = Object.keys(CAUSE);
  const chosen = (behind ? behind.flows : []).filter((f) => wanted === "" || f.cause === wanted);
  const rows = chosen.sort((a, b) => order.indexOf(a.cause) - order.indexOf(b.cause) || b.share - a.share).map((f) => {
    const range = f.share_at_most > f.share + 0.001 ? percent(f.share) + " – " + percent(f.share_at_most) : percent(f.share);
    return {
      cells: [f.cause + " " + f.port + "/" + f.priority, line(bar([[f.share, CAUSE[f.cause]]]), range), f.flow],
      title: f.count + UNIT[f.unit] + " from " + f.from + (f.reason ? ", " + f.reason : ""),
    };
  });
  const off = behind && !behind.recorded;
  fill($("flows"), heads, rows, off ? "flows are not recorded: [flows] enable" : "nothing was marked, dropped, paused or queued in the last minute");
}

// Who is at the other end of each link, those that do not fit first.
function lldp() {
  const heads = [["Port", "text"], ["Neighbour", "text"], ["Its port", "text"], ["PFC", "text"], ["Differs", "text"], ["TTL", ""]];
  const list = (priorities) => (priorities.length ? priorities.join(",") : "none");
  const differences = (d) => [["PFC", d.pfc], ["ETS", d.ets]].filter(([, all]) => all.length).map(([what, all]) => what + " " + list(all))
    .concat(d.frame_size ? ["frame size"] : []).join("; ");
  const all = (neighbours ? neighbours.ports : []).flatMap((p) => p.neighbours.map((n) => ({ port: p.port, sent: p.sent, n, differs: differences(n.differences) })));
  const rows = all.sort((a, b) => (b.differs !== "") - (a.differs !== "")).map(({ port, sent, n, differs }) => ({
    cells: [port, n.system_name || n.chassis, n.port_id, n.pfc ? list(n.pfc.priorities) : "–", differs || "fits", n.ttl_left_seconds + " s"],
    alarm: differs !== "",
    title: (n.system_description || n.chassis) + (sent && sent.pfc ? "; PFC here: " + list(sent.pfc.priorities) : "") + (n.max_frame_bytes ? "; frames of " + n.max_frame_bytes + " bytes" : ""),
  }));
  const wrong = all.filter(({ differs }) => differs).length;
  $("lldp-note").textContent = all.length === 0 ? "" : wrong === 0 ? all.length + " known, all fit" : wrong + " of " + all.length + " do not fit";
  const off = !neighbours || !neighbours.enabled;
  fill($("lldp"), heads, rows, off ? "LLDP is not spoken: [lldp] enable; then neighbours appear here, and where their PFC, ETS or frame size differs"
    : "no neighbour has spoken yet: hosts and switches that send LLDP appear here");
}

// Ranks of in-network aggregation, the slowest of each job first. There is no panel where there is no engine.
function inc() {
  document.querySelector("main").classList.toggle("inc", snapshot.inc_engines.length > 0);
  const sums = snapshot.inc.reduce((sum, job) => sum + job.sums_per_second, 0);
  $("inc-note").textContent = count(snapshot.inc.length) + " jobs, " + scaled(sums, "/s");
  const heads = [["Job", ""], ["Rank", ""], ["State", "text"], ["Lag", "text"], ["Most", ""], ["RNR", ""], ["Again", ""]];
  const jobs = new Map(snapshot.inc.map((job) => [job.port + " " + job.job, job]));
  const lag = (r) => Number(r.lag_ns);
  const most = Math.max(1, ...snapshot.inc_ranks.map(lag));
  const rows = [...snapshot.inc_ranks].sort((a, b) => a.job - b.job || lag(b) - lag(a)).map((r) => {
    const job = jobs.get(r.port + " " + r.job);
    const word = r.dead ? "dead" : job.state !== "running" ? job.state + " (" + job.reason + ")" : r.missing ? "waited for" : "sums";
    return {
      cells: [String(r.job), r.rank === null ? "parent" : String(r.rank), word,
        line(bar([[lag(r) / most, r.missing ? COLOUR.red : COLOUR.blue]]), nanos(lag(r))), nanos(Number(r.most_lag_ns)),
        count(BigInt(r.rnr_sent) + BigInt(r.rnr_received)), count(r.retransmitted)],
      alarm: r.dead || job.state !== "running",
      title: r.port + ", " + r.operation,
    };
  });
  fill($("inc"), heads, rows, "no jobs");
}

function quantiles() {
  const heads = [["Port/queue", "text"], ["p50", ""], ["p99", ""], ["p99.9", ""], ["max ever", ""]];
  const rows = snapshot.latency.filter((l) => Number(l.frames) > 0 && (priority === null || Number(l.queue) === priority))
    .sort((a, b) => Number(b["window_" + part + "_p99_ns"] || 0) - Number(a["window_" + part + "_p99_ns"] || 0)).map((l) => {
      const of = "latency/" + l.port + "/" + l.queue + "/" + part + "_max_ns", window = "window_" + part;
      const max = shows(nanos(l[part + "_max_ns"]), of, l[part + "_max_ns"]);
      max.title = "since start; all others: of the last second";
      return { cells: [l.port + " / " + l.queue, nanos(l[window + "_p50_ns"]), nanos(l[window + "_p99_ns"]), nanos(l[window + "_p999_ns"]), max] };
    });
  fill($("quantiles"), heads, rows, "no frame has left yet");
}

function legend(id, entries) {
  $(id).replaceChildren(...entries.map(([kind, colour, text]) => {
    const mark = cell("i", "", kind);
    mark.style.color = colour;
    if (kind === "box") mark.style.background = colour;
    return kind === "none" ? line(text) : line(mark, text);
  }));
}

// Charts over time: uPlot, one cursor for all of them.

const charts = new Map();

function chart(id, series, lane) {
  const box = $(id), at = cursor === null ? state.times.length - 1 : cursor;
  const columns = series.map(([column]) => (lane ? lane[column] : state.times.map(() => null)));
  const end = (state.times[state.times.length - 1] || 0) / 1000, start = end - state.kept * state.step / 1000;
  const data = [state.times.map((ms) => ms / 1000), ...columns];
  let plot = charts.get(id);
  if (!plot) {
    const axis = { stroke: COLOUR.quiet, font: FONT, grid: { stroke: COLOUR.line, width: 1 }, ticks: { show: false } };
    plot = new uPlot({
      width: Math.max(50, box.clientWidth), height: Math.max(40, box.clientHeight),
      legend: { show: false }, padding: [6, 16, 0, 0], pxAlign: 1,
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: false }, y: { range: (u, min, max) => [0, Math.max(1024, (max || 0) * 1.08)] } },
      axes: [
        { ...axis, size: 22, gap: 5, values: (u, ticks) => ticks.map((t) => { const s = Math.round(t - u.scales.x.max); return s === 0 ? "now" : s + " s"; }), splits: (u) => [0, 15, 30, 45, 60].map((s) => u.scales.x.max - s).filter((t) => t >= u.scales.x.min) },
        { ...axis, size: 56, gap: 4, values: (u, ticks) => ticks.map((v) => bytes(v)), splits: (u, i, min, max) => niceBytes(max) },
      ],
      series: [{}, ...series.map(([, label, colour, dash, filled]) => ({
        label, stroke: colour, width: dash ? 1.5 : 2, dash, points: { show: false },
        fill: filled ? colour + "26" : undefined, spanGaps: false,
      }))],
      hooks: { setCursor: [(u) => { if (u.over.matches(":hover")) point(u.cursor.idx === undefined ? null : u.cursor.idx); }] },
    }, data, box);
    plot.over.addEventListener("mouseleave", () => point(null));
    charts.set(id, plot);
  }
  if (plot.width !== box.clientWidth || plot.height !== box.clientHeight) {
    plot.setSize({ width: Math.max(50, box.clientWidth), height: Math.max(40, box.clientHeight) });
  }
  plot.batch(() => {
    plot.setData(data, false);
    plot.setScale("x", { min: start, max: end });
    plot.setSeries(null, { focus: false }, false);
  });
  if (cursor !== null && !plot.over.matches(":hover")) {
    plot.setCursor({ left: plot.valToPos(state.times[cursor] / 1000, "x"), top: 0 }, false);
  } else if (cursor === null) {
    plot.setCursor({ left: -10, top: -10 }, false);
  }
  return series.map(([column, label, colour, dash], k) => [dash ? (dash[0] > 3 ? "dash" : "dot") : "", colour, label + " " + bytes(columns[k][at])]);
}

// Four lines or so, at sizes people use for buffers.
function niceBytes(max) {
  let step = 2 ** Math.floor(Math.log2(Math.max(1, max) / 3));
  if (max / step > 6) step *= 2;
  const ticks = [];
  for (let v = 0; v <= max; v += step) ticks.push(v);
  return ticks;
}

function point(index) {
  const i = index === null || index >= state.times.length ? null : index;
  if (i === cursor) return;
  cursor = i;
  charted();
}

// What is looked at: chosen by hand, or the lane that is highest.
function choose(id, rows, number, weight) {
  const select = $(id);
  const names = rows.map((row) => row.port + " / " + row[number]);
  if (select.options.length !== names.length + 1) {
    select.replaceChildren(...["busiest", ...names].map((name) => new Option(name, name)));
  }
  const chosen = names.indexOf(select.value);
  if (chosen >= 0) return rows[chosen];
  let best = 0;
  rows.forEach((row, i) => { if (weight(row) > weight(rows[best])) best = i; });
  select.options[0].text = "busiest: " + names[best];
  return rows[best];
}

let priority = null;
// Which part of the time frames are here: residence = queueing + pause.
let part = "residence";

function priorities() {
  const select = $("lane"), known = [...state.latency.keys()].filter((name) => name.startsWith(part + " ")).map((name) => Number(name.split(" ")[1])).sort();
  if (select.options.length !== known.length + 1) {
    const chosen = select.value;
    select.replaceChildren(new Option("all priorities", ""), ...known.map((p) => new Option("priority " + p, String(p))));
    select.value = known.map(String).includes(chosen) ? chosen : "";
  }
  priority = select.value === "" ? null : Number(select.value);
}

// Everything that moves with the cursor.
function charted() {
  if (!snapshot || !state.times.length) return;
  // Over a minute, not at this instant, or the choice would jump about.
  const area = (row, number, column) => {
    const lane = state.lanes.get(row[number] + " " + row.port);
    return lane ? lane[column].reduce((sum, v) => sum + (v || 0), 0) : 0;
  };
  const queue = choose("queue", snapshot.queues, "queue", (q) => area(q, "queue", "depth") + 1e-9 * Number(q.peak_bytes));
  const group = choose("group", snapshot.pgs, "pg", (g) => area(g, "pg", "shared") + (g.lossless ? 1e-6 : 0) + 1e-9 * Number(g.shared_peak_bytes));
  const lane = state.lanes.get(queue.queue + " " + queue.port);
  const level = (value) => (value === null ? null : state.times.map(() => Number(value)));
  const withLevels = { ...(lane || { depth: state.times.map(() => 0) }), kmin: level(queue.kmin_bytes), kmax: level(queue.kmax_bytes) };
  for (const bound of ["kmin", "kmax"]) withLevels[bound] = withLevels[bound] || state.times.map(() => null);
  legend("depth-legend", chart("depth", [["depth", "depth", COLOUR.blue, undefined, true], ["kmin", "Kmin", COLOUR.green, [7, 4]], ["kmax", "Kmax", COLOUR.red, [2, 3]]], withLevels));
  const pg = state.lanes.get(group.pg + " " + group.port) || { shared: state.times.map(() => 0), headroom: state.times.map(() => 0), xoff: level(group.xoff_bytes), xon: level(group.xon_bytes) };
  legend("pg-legend", chart("pg", [["shared", "shared", COLOUR.blue, undefined, true], ["headroom", "headroom", COLOUR.pink, undefined, true], ["xoff", "Xoff", COLOUR.red, [7, 4]], ["xon", "Xon", COLOUR.green, [2, 3]]],
    { ...pg, xoff: pg.xoff || state.times.map(() => null), xon: pg.xon || state.times.map(() => null) }));
  const ecn = snapshot.ecn.find((e) => e.port === queue.port && e.queue === queue.queue);
  markingPanel(ecn, snapshot.marking.filter((m) => m.port === queue.port && m.queue === queue.queue));
  pausePanel(state, snapshot, cursor);
  const storm = state.storms.length ? [["frame", COLOUR.ink, "storm"]] : [];
  legend("pfc-legend", [["none", COLOUR.ink, "▲ we pause:"], ...CAUSES.map(([, colour, text]) => ["box", colour, text]), ["box", COLOUR.blue, "▼ we are paused"], ...storm]);
  priorities();
  latencyPanel(state, part, priority, cursor);
  const cells = latencyCells(state, part, priority, cursor === null ? state.times.length - 1 : cursor);
  legend("latency-legend", [...QUANTILES.map(([name, q, colour, dash]) => [dash.length ? "dash" : "", colour, name + " " + nanos(quantile(cells, q))]), ["box", "transparent", "max " + nanos(quantile(cells, 1))]]);
}

function duration(seconds) {
  const s = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
  return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
}

function header() {
  const s = snapshot.switch[0];
  $("name").textContent = s.name;
  document.title = s.name + " – weir";
  const when = saved ? ", saved " + new Date(snapshot.unix_ms).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "";
  const since = new Date(snapshot.unix_ms - snapshot.uptime_seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
  $("what").textContent = "weir " + s.version + " since " + since + " UTC (" + duration(snapshot.uptime_seconds) + "), " + s.phase + when + ", " + s.dpdk;
  $("what").title = $("what").textContent;
  $("rate").textContent = scaled(snapshot.ports.reduce((sum, p) => sum + p.tx_bps, 0), "bit/s");
  for (const [id, key] of [["lossless", "lossless_drops"], ["watchdog", "lossless_drops_watchdog"], ["possible", "lossless_drops_possible"], ["conservation", "conservation_error"]]) {
    const bad = Number(s[key]) > 0;
    $(id).replaceChildren(shows(count(s[key]), "switch/" + key, s[key]));
    $(id).parentNode.classList.toggle("alarm", bad);
    // Those that are seldom there take no room while they are not.
    if (id === "watchdog" || id === "possible") $(id).parentNode.hidden = !bad;
  }
  const good = s.health === "healthy";
  health(good ? "good" : "bad", good && saved ? "was healthy" : s.health);
}

function health(kind, text) {
  $("health").className = "badge " + kind;
  $("health").textContent = text;
  $("health").title = text;
}

function draw() {
  if (!snapshot) return;
  part = $("part").value;
  header();
  ports();
  matrixPanel(snapshot);
  bufferPanel(snapshot);
  charted();
  quantiles();
  drops();
  flows();
  lldp();
  lcores();
  inc();
  // The page shows this instant: for those who compare.
  document.documentElement.dataset.unixMs = String(snapshot.unix_ms);
}

// Asking the switch.

async function ask(path) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch(path, { headers, cache: "no-store" });
  $("login").hidden = answer.status !== 401;
  if (!answer.ok) throw new Error(path + ": " + answer.status);
  return answer;
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("weir-token", token);
});

let lastEvent = 0;

async function look() {
  try {
    const after = state.times.length ? state.times[state.times.length - 1] : 0;
    const [now, history, events, flows, lldp] = await Promise.all([
      ask("/v1/snapshot").then((a) => a.json()),
      ask("/v1/history?after=" + after).then((a) => a.json()),
      ask("/v1/events?format=ndjson&follow=false&since=" + lastEvent).then((a) => a.text()),
      ask("/v1/flows?limit=5").then((a) => a.json()),
      ask("/v1/lldp").then((a) => a.json()),
    ]);
    if (snapshot && now.uptime_seconds < snapshot.uptime_seconds) {
      // What came was asked for with the times of another run.
      snapshot = null;
      forget();
      setTimeout(look, EVERY);
      return;
    }
    learn(history);
    snapshot = now;
    behind = flows;
    neighbours = lldp;
    events.split("\n").filter((text) => text).forEach((text) => tell(JSON.parse(text)));
    if (!frozen) draw();
  } catch (error) {
    health("bad", "no answer");
  }
  setTimeout(look, EVERY);
}

// Storms by the clock of the charts, which is that of the switch.
function weather(event) {
  const at = event.unix_ms - (snapshot.unix_ms - snapshot.uptime_seconds * 1000);
  if (event.phase === "detected") {
    state.storms.push({ port: event.port, priority: event.priority, from: at, to: null });
  } else {
    const over = state.storms.find((s) => s.port === event.port && s.priority === event.priority && s.to === null);
    if (over) over.to = at;
  }
  state.storms = state.storms.filter((s) => s.to === null || s.to > (state.times[0] || 0));
}

function tell(event) {
  lastEvent = event.id;
  if (event.event === "storm") weather(event);
  const known = ["id", "unix_ms", "event", "phase", "since_unix_ms", "remedy"];
  const rest = Object.entries(event).filter(([key]) => !known.includes(key)).map(([key, value]) => key + "=" + value);
  const item = line();
  const node = cell("li", item);
  item.append(cell("time", new Date(event.unix_ms).toISOString().slice(11, 23)), cell("b", event.event + " " + event.phase), rest.join(" "));
  if (event.phase === "alarm" || event.event === "storm") node.className = "alarm";
  if (event.phase === "end" || event.phase === "update") node.className = "end";
  // Of an episode under way only the last word is shown.
  node.dataset.episode = [event.event, event.phase, event.port, event.priority, event.direction, event.since_unix_ms].join(" ");
  if (event.phase === "update") {
    for (const old of $("events").children) if (old.dataset.episode === node.dataset.episode) { old.remove(); break; }
  }
  node.hidden = !node.textContent.includes($("filter").value);
  $("events").prepend(node);
  while ($("events").children.length > EVENTS) $("events").lastChild.remove();
}

$("filter").addEventListener("input", () => {
  for (const node of $("events").children) node.hidden = !node.textContent.includes($("filter").value);
});

// Keys.

const sections = [...document.querySelectorAll("main section")];
sections.forEach((section, i) => {
  section.tabIndex = 0;
  section.setAttribute("aria-label", section.querySelector("h2").firstChild.textContent.trim());
  if (saved) return;
  const link = cell("a", "JSON");
  link.href = section.dataset.json;
  section.querySelector("h2").append(link);
});

function whole(section) {
  const was = section && section.classList.contains("whole");
  for (const other of sections) other.classList.remove("whole");
  if (section && !was) section.classList.add("whole");
  draw();
}

function freeze() {
  frozen = !frozen;
  $("freeze").setAttribute("aria-pressed", String(frozen));
  $("freeze").textContent = frozen ? "Go on" : "Freeze";
  if (!frozen) draw();
}

function pick(step) {
  const select = document.activeElement.closest("section")?.querySelector("select") || $("queue");
  select.selectedIndex = (select.selectedIndex + step + select.options.length) % select.options.length;
  draw();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, button, a");
  if (event.key === "Escape") { event.target.blur(); whole(null); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const panel = "1234567890-=\\`".indexOf(event.key);
  const last = state.times.length - 1;
  if (event.key === " ") freeze();
  else if (event.key === "?") $("keys").showModal();
  else if (event.key === "/") $("filter").focus();
  else if (event.key === "[") pick(-1);
  else if (event.key === "]") pick(1);
  else if (event.key === "ArrowLeft") point(Math.max(0, (cursor === null ? last : cursor) - 1));
  else if (event.key === "ArrowRight") point(cursor === null || cursor >= last ? null : cursor + 1);
  else if (event.key === "Enter" && event.target.matches("section")) whole(event.target);
  else if (panel >= 0 && sections[panel]) sections[panel].focus();
  else return;
  event.preventDefault();
});

$("freeze").addEventListener("click", freeze);
$("help").addEventListener("click", () => $("keys").showModal());
for (const id of ["queue", "group", "part", "lane", "cause"]) $(id).addEventListener("change", draw);
new ResizeObserver(() => draw()).observe(document.querySelector("main"));

for (const id of ["pfc", "latency"]) {
  $(id).addEventListener("mousemove", (event) => {
    const width = event.target.clientWidth, [left, right] = id === "pfc" ? pauseEdges(width) : [46, 4];
    const share = (event.offsetX - left) / (width - left - right);
    const back = Math.round((1 - share) * state.kept);
    const index = state.times.length - 1 - back;
    point(share < 0 || share > 1 || index < 0 ? null : index);
  });
  $(id).addEventListener("mouseleave", () => point(null));
}

if (saved) {
  $("freeze").hidden = true;
  snapshot = saved.snapshot;
  behind = saved.flows;
  neighbours = saved.lldp;
  learn(saved.history);
  saved.events.forEach(tell);
  draw();
} else {
  look();
}
