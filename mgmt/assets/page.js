"use strict";
// Looks at /v1/snapshot four times a second, keeps a minute, draws. Nothing is fetched from elsewhere.

const EVERY = 250;
const KEPT = 240;
const EVENTS = 200;
const COLOUR = {
  blue: "#0072b2", orange: "#e69f00", red: "#d55e00", green: "#009e73", sky: "#56b4e9", pink: "#cc79a7",
  ink: "#1c2430", quiet: "#5b6675", line: "#d8dee6", paper: "#f4f6f8",
};

const $ = (id) => document.getElementById(id);
const history = [];
let token = sessionStorage.getItem("weir-token") || "";

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

// Numbers. Counters above 2^53 come as text and stay text.

function count(value) {
  if (value === null || value === undefined) return "–";
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function scaled(value, unit) {
  if (value === null) return "–";
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return (value / size).toFixed(value >= size * 100 ? 0 : 1) + " " + letter + unit;
  }
  return value.toFixed(0) + " " + unit;
}

function bytes(value) {
  if (value === null) return "–";
  const n = Number(value);
  if (n >= 1048576) return (n / 1048576).toFixed(1) + " MiB";
  if (n >= 1024) return (n / 1024).toFixed(n >= 102400 ? 0 : 1) + " KiB";
  return n + " B";
}

const micros = (ns) => (ns === null ? "–" : (Number(ns) / 1000).toFixed(Number(ns) >= 100000 ? 0 : 1));
const percent = (share) => (share * 100).toFixed(1) + " %";

function duration(seconds) {
  const s = Math.floor(seconds);
  const two = (n) => String(n).padStart(2, "0");
  return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
}

// Tables: cells are texts or nodes, so no name of a port can become markup.

function cell(tag, content, kind) {
  const node = document.createElement(tag);
  node.append(content);
  if (kind) node.className = kind;
  return node;
}

function fill(table, heads, rows, empty) {
  const head = document.createElement("tr");
  for (const [text, kind] of heads) head.append(cell("th", text, kind));
  const body = rows.map(({ cells, alarm }) => {
    const row = document.createElement("tr");
    if (alarm) row.className = "alarm";
    cells.forEach((content, i) => row.append(cell("td", content, heads[i][1])));
    return row;
  });
  if (body.length === 0) {
    const row = document.createElement("tr");
    const only = cell("td", empty, "text quiet");
    only.colSpan = heads.length;
    row.append(only);
    body.push(row);
  }
  table.replaceChildren(head, ...body);
}

function meter(share) {
  const node = document.createElement("meter");
  node.max = 1;
  node.value = Math.min(share, 1);
  node.title = percent(share);
  return node;
}

const of = (rows, port) => rows.filter((row) => row.port === port);

function pips(snapshot, port) {
  const span = document.createElement("span");
  span.className = "pips";
  const queues = of(snapshot.queues, port);
  for (const p of of(snapshot.pfc, port)) {
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

function ports(snapshot) {
  const heads = [["Port", "text"], ["Link", "text"], ["PFC 0–7", "text"], ["RX", ""], ["", "text"], ["TX", ""], ["", "text"],
    ["In", ""], ["Out", ""], ["Drops", ""], ["NIC missed", ""]];
  const rows = snapshot.ports.map((p) => ({
    cells: [p.port, p.link + (p.pfc_mode === "not seen by software" ? " (PFC not seen)" : ""), pips(snapshot, p.port),
      scaled(p.rx_bps, "b/s"), meter(p.rx_utilisation), scaled(p.tx_bps, "b/s"), meter(p.tx_utilisation),
      count(p.rx_packets), count(p.tx_packets), count(BigInt(p.rx_drops) + BigInt(p.tx_drops)), count(p.nic_missed)],
    alarm: p.link === "down",
  }));
  fill($("ports"), heads, rows, "no ports");
}

function latency(snapshot) {
  const heads = [["Port", "text"], ["Queue", ""], ["p50", ""], ["p99", ""], ["p99.9", ""], ["max", ""], ["max ever", ""]];
  const rows = snapshot.latency.filter((l) => Number(l.frames) > 0).map((l) => ({
    cells: [l.port, String(l.queue), micros(l.window_p50_ns), micros(l.window_p99_ns), micros(l.window_p999_ns),
      micros(l.window_max_ns), micros(l.max_ns)],
  }));
  fill($("latency"), heads, rows, "no frame has left yet");
}

function drops(snapshot) {
  const heads = [["Port", "text"], ["Reason", "text"], ["Frames", ""], ["/s", ""], ["Last", ""], ["What to check", "text"]];
  const rows = snapshot.drops.map((d) => ({
    cells: [d.port, d.reason, count(d.frames), scaled(d.pps, ""), d.last_unix_ms === 0 ? "–" : ago(snapshot, d.last_unix_ms), d.remedy],
    alarm: d.lossless,
  }));
  fill($("drops"), heads, rows, "no frame has been dropped");
}

const ago = (snapshot, ms) => ((snapshot.unix_ms - ms) / 1000).toFixed(0) + " s ago";

function lcores(snapshot) {
  const heads = [["Lcore", ""], ["Busy", "text"], ["", ""], ["Turns/s", ""], ["Turn p50", ""], ["p99", ""], ["max", ""],
    ["max ever", ""], ["Planned", ""], ["Held", ""]];
  const planned = snapshot.switch[0].poll_gap_ns;
  const rows = snapshot.lcores.map((l) => ({
    cells: [String(l.lcore), meter(l.busy_share), percent(l.busy_share), scaled(l.turns_per_second, ""), micros(l.turn_p50_ns),
      micros(l.turn_p99_ns), micros(l.turn_max_ns), micros(l.longest_turn_ns), micros(planned), count(l.held)],
    alarm: !l.alive,
  }));
  fill($("lcores"), heads, rows, "no workers");
}

// Canvases.

function canvas(id) {
  const node = $(id);
  const scale = window.devicePixelRatio || 1;
  const width = node.clientWidth, height = Number(node.getAttribute("data-height") || node.height);
  node.setAttribute("data-height", height);
  if (node.width !== Math.round(width * scale)) {
    node.width = Math.round(width * scale);
    node.height = Math.round(height * scale);
    node.style.height = height + "px";
  }
  const draw = node.getContext("2d");
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, width, height);
  draw.font = "11px system-ui, sans-serif";
  draw.textBaseline = "middle";
  return { draw, width, height };
}

// Lines over the last minute: { label, colour, dash, fill, at: snapshot => number or null }.
function lines(id, series) {
  const { draw, width, height } = canvas(id);
  const left = 62, right = 8, top = 22, bottom = 16;
  const values = series.map((s) => history.map(s.at));
  const highest = Math.max(1, ...values.flat().filter((v) => v !== null));
  const power = Math.pow(2, Math.floor(Math.log2(highest * 1.1)));
  const limit = power * [1, 1.25, 1.5, 1.75, 2].find((m) => power * m >= highest * 1.05);
  const x = (i) => left + (width - left - right) * (KEPT - history.length + i) / (KEPT - 1);
  const y = (v) => height - bottom - (height - top - bottom) * v / limit;
  draw.strokeStyle = COLOUR.line;
  draw.fillStyle = COLOUR.quiet;
  draw.lineWidth = 1;
  draw.setLineDash([]);
  for (let i = 0; i <= 4; i++) {
    const v = limit * i / 4;
    draw.beginPath();
    draw.moveTo(left, Math.round(y(v)) + 0.5);
    draw.lineTo(width - right, Math.round(y(v)) + 0.5);
    draw.stroke();
    draw.textAlign = "right";
    draw.fillText(bytes(Math.round(v)), left - 6, y(v));
  }
  draw.textAlign = "left";
  draw.fillText("60 s ago", left, height - 6);
  draw.textAlign = "right";
  draw.fillText("now", width - right, height - 6);
  let key = left;
  series.forEach((s, n) => {
    draw.strokeStyle = draw.fillStyle = s.colour;
    draw.lineWidth = s.dash ? 1.5 : 2;
    draw.setLineDash(s.dash || []);
    draw.beginPath();
    let open = false;
    values[n].forEach((v, i) => {
      if (v === null) { open = false; return; }
      open ? draw.lineTo(x(i), y(v)) : draw.moveTo(x(i), y(v));
      open = true;
    });
    draw.stroke();
    const last = values[n][values[n].length - 1];
    const label = s.label + " " + (last === null || last === undefined ? "–" : bytes(last));
    draw.beginPath();
    draw.moveTo(key, 9);
    draw.lineTo(key + 16, 9);
    draw.stroke();
    draw.setLineDash([]);
    draw.textAlign = "left";
    draw.fillStyle = COLOUR.ink;
    draw.fillText(label, key + 20, 9);
    key += 34 + draw.measureText(label).width;
  });
}

// What is looked at: chosen by hand, or the lane that is highest.
function choose(id, rows, number, value) {
  const select = $(id);
  const names = rows.map((row) => row.port + " / " + row[number]);
  if (select.options.length !== names.length + 1) {
    select.replaceChildren(...["busiest", ...names].map((name) => new Option(name, name)));
  }
  const chosen = names.indexOf(select.value);
  if (chosen >= 0) return chosen;
  let best = 0;
  rows.forEach((row, i) => { if (value(row) > value(rows[best])) best = i; });
  select.options[0].text = "busiest: " + names[best];
  return best;
}

const number = (value) => (value === null || value === undefined ? null : Number(value));

function depth(snapshot) {
  const i = choose("queue", snapshot.queues, "queue", (q) => Number(q.peak_bytes) + 1e12 * (Number(q.depth_bytes) > 0));
  const at = (key) => (s) => number(s.queues[i][key]);
  lines("depth", [
    { label: "depth", colour: COLOUR.blue, at: at("depth_bytes") },
    { label: "peak", colour: COLOUR.sky, dash: [2, 3], at: at("peak_bytes") },
    { label: "Kmin", colour: COLOUR.green, dash: [6, 4], at: at("kmin_bytes") },
    { label: "Kmax", colour: COLOUR.red, dash: [6, 4], at: at("kmax_bytes") },
  ]);
}

function group(snapshot) {
  const i = choose("group", snapshot.pgs, "pg", (g) => Number(g.shared_peak_bytes) + 1e12 * g.lossless);
  const at = (key) => (s) => number(s.pgs[i][key]);
  lines("pg", [
    { label: "shared", colour: COLOUR.blue, at: at("shared_bytes") },
    { label: "headroom", colour: COLOUR.pink, at: at("headroom_bytes") },
    { label: "Xoff at", colour: COLOUR.red, dash: [6, 4], at: at("xoff_bytes") },
    { label: "Xon at", colour: COLOUR.green, dash: [6, 4], at: at("xon_bytes") },
  ]);
}

function buffer(snapshot) {
  const { draw, width, height } = canvas("buffer");
  const pools = snapshot.buffer;
  const total = pools.reduce((sum, pool) => sum + Number(pool.size_bytes), 0) || 1;
  const colours = { reserved: COLOUR.green, shared: COLOUR.blue, headroom: COLOUR.pink, control: COLOUR.orange };
  // The whole buffer as one bar, in proportion.
  let x = 0;
  for (const pool of pools) {
    const w = width * Number(pool.size_bytes) / total;
    draw.globalAlpha = 0.35;
    draw.fillStyle = colours[pool.pool];
    draw.fillRect(x, 0, w - 1, 18);
    draw.globalAlpha = 1;
    draw.fillRect(x, 0, (w - 1) * Math.min(1, Number(pool.used_bytes || 0) / Math.max(1, Number(pool.size_bytes))), 18);
    x += w;
  }
  const step = (height - 26) / pools.length;
  pools.forEach((pool, i) => {
    const y = 26 + i * step, size = Math.max(1, Number(pool.size_bytes));
    draw.fillStyle = COLOUR.ink;
    draw.textAlign = "left";
    draw.fillText(pool.pool, 0, y + 8);
    draw.textAlign = "right";
    const peak = pool.peak_bytes === null ? "" : ", peak " + bytes(pool.peak_bytes);
    const used = pool.used_bytes === null ? "" : bytes(pool.used_bytes) + " of ";
    draw.fillText(used + bytes(pool.size_bytes) + peak, width, y + 8);
    draw.fillStyle = COLOUR.paper;
    draw.fillRect(0, y + 17, width, 10);
    draw.fillStyle = colours[pool.pool];
    draw.fillRect(0, y + 17, width * Math.min(1, Number(pool.used_bytes || 0) / size), 10);
    if (pool.peak_bytes !== null) {
      draw.fillStyle = COLOUR.ink;
      draw.fillRect(Math.min(width - 2, width * Number(pool.peak_bytes) / size), y + 15, 2, 14);
    }
  });
}

function pfc(snapshot) {
  const { draw, width, height } = canvas("pfc");
  const rows = snapshot.pfc.map((p, i) => [p, i])
    .filter(([p]) => p.enabled || Number(p.rx_pauses) > 0 || Number(p.tx_pauses) > 0);
  if (rows.length === 0) {
    draw.fillStyle = COLOUR.quiet;
    draw.fillText("no priority has PFC", 0, 12);
    return;
  }
  const left = 110, right = 150, step = Math.min(26, height / rows.length);
  const w = (width - left - right) / KEPT;
  rows.forEach(([p, i], n) => {
    const y = n * step;
    draw.fillStyle = COLOUR.paper;
    draw.fillRect(left, y + 1, width - left - right, step - 2);
    history.forEach((s, k) => {
      // Whole pixels: neighbours must not overlap, or they show as stripes.
      const x = Math.round(left + (KEPT - history.length + k) * w);
      const next = Math.round(left + (KEPT - history.length + k + 1) * w);
      for (const [share, colour, dy] of [[s.pfc[i].tx_paused_share, COLOUR.red, 0], [s.pfc[i].rx_paused_share, COLOUR.blue, 1]]) {
        if (share <= 0) continue;
        draw.globalAlpha = Math.max(0.25, share);
        draw.fillStyle = colour;
        draw.fillRect(x, y + 1 + dy * (step - 2) / 2, next - x, (step - 2) / 2);
      }
    });
    draw.globalAlpha = 1;
    if (step < 9) return;
    draw.fillStyle = COLOUR.ink;
    draw.textAlign = "right";
    draw.fillText(p.port + " / " + p.priority, left - 8, y + step / 2);
    draw.textAlign = "left";
    draw.fillText("▲ " + percent(p.tx_paused_share) + "  ▼ " + percent(p.rx_paused_share), width - right + 8, y + step / 2);
  });
}

function header(snapshot) {
  const s = snapshot.switch[0];
  $("name").textContent = s.name;
  document.title = s.name + " – weir";
  $("what").textContent = "weir " + s.version + ", " + s.dpdk + ", up " + duration(snapshot.uptime_seconds) + ", " + s.phase;
  $("lossless").textContent = count(s.lossless_drops);
  $("lossless").parentNode.classList.toggle("alarm", Number(s.lossless_drops) > 0);
  $("conservation").textContent = count(s.conservation_error);
  $("conservation").parentNode.classList.toggle("alarm", Number(s.conservation_error) > 0);
  const faults = [];
  if (s.phase !== "forwarding") faults.push(s.phase);
  if (snapshot.lcores.some((l) => !l.alive)) faults.push("a worker stands still");
  if (snapshot.queues.some((q) => q.storm)) faults.push("PFC storm");
  if (snapshot.ports.some((p) => p.link === "down")) faults.push("link down");
  health(faults.length === 0 ? "good" : "bad", faults.join(", ") || "healthy");
}

function health(kind, text) {
  $("health").className = "badge " + kind;
  $("health").textContent = text;
}

function draw() {
  const snapshot = history[history.length - 1];
  if (!snapshot) return;
  for (const panel of [header, ports, buffer, depth, group, pfc, latency, drops, lcores]) panel(snapshot);
}

async function look() {
  try {
    const snapshot = await (await ask("/v1/snapshot")).json();
    history.push(snapshot);
    if (history.length > KEPT) history.shift();
    draw();
  } catch (error) {
    health("bad", "no answer");
  }
  setTimeout(look, EVERY);
}

// Events: NDJSON as it comes; after a break from where it broke off.

let last = 0;

function tell(event) {
  last = event.id;
  const known = ["id", "unix_ms", "event", "phase", "since_unix_ms"];
  const rest = Object.entries(event).filter(([key]) => !known.includes(key)).map(([key, value]) => key + "=" + value);
  const time = new Date(event.unix_ms).toISOString().slice(11, 23);
  const line = cell("li", time + "  " + (event.event + " " + event.phase).padEnd(18) + " " + rest.join(" "));
  if (event.phase === "alarm" || event.event === "storm") line.className = "alarm";
  $("events").prepend(line);
  while ($("events").children.length > EVENTS) $("events").lastChild.remove();
}

async function follow() {
  try {
    const answer = await ask("/v1/events?format=ndjson&since=" + last);
    const reader = answer.body.getReader(), decoder = new TextDecoder();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      const whole = text.split("\n");
      text = whole.pop();
      whole.filter((line) => line).forEach((line) => tell(JSON.parse(line)));
    }
  } catch (error) {
    // The badge says so already.
  }
  setTimeout(follow, 1000);
}

look();
follow();
