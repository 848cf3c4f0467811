"use strict";
// Draws what is in #data. Nothing is fetched.

const DATA = JSON.parse(document.getElementById("data").textContent);
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7a5195", "#8c6d31",
  "#1c2430", "#6b8e23", "#a0522d", "#4682b4", "#b03060", "#2f8f8f", "#c0a000", "#708090"];
const $ = (id) => document.getElementById(id);
const T = DATA.timeline;

// Numbers.

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
const count = (n) => (n === null || n === undefined ? "–" : grouped(n));

function scaled(value, units) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of units) {
    if (value >= size) {
      const n = value / size;
      return n.toFixed(n >= 100 || Number.isInteger(n) ? 0 : n >= 10 ? 1 : 2) + "\u202f" + unit;
    }
  }
  return value + "\u202f" + units[units.length - 1][1];
}

/// Labels of axes have no idle zeros.
const plain = (text) => text.replace(/(\.\d*?)0+(?=\u202f)/, "$1").replace(/\.(?=\u202f)/, "");
const time = (ns) => scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
const bytes = (n) => scaled(n, [[1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "B"]]);
const rate = (n) => scaled(n, [[1e12, "Tb/s"], [1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]]);
const milli = (n) => (n === null || n === undefined ? "–" : (n / 1000).toFixed(2));

// Elements. Names are texts or attributes, never markup.

function element(tag, content, kind) {
  const node = document.createElement(tag);
  if (content !== undefined) node.append(content);
  if (kind) node.className = kind;
  return node;
}

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function table(id, heads, rows, empty) {
  const head = element("tr");
  for (const [text, kind] of heads) head.append(element("th", text, kind));
  const body = rows.map(({ cells, alarm }) => {
    const row = element("tr", undefined, alarm ? "alarm" : "");
    cells.forEach((content, i) => row.append(element("td", content, heads[i][1])));
    return row;
  });
  if (body.length === 0) {
    const only = element("td", empty, "text quiet");
    only.colSpan = heads.length;
    const row = element("tr");
    row.append(only);
    body.push(row);
  }
  $(id).replaceChildren(head, ...body);
}

function tip(event, lines) {
  const box = $("tip");
  if (!lines) {
    box.hidden = true;
    return;
  }
  box.replaceChildren(...lines.map(([text, colour]) => {
    const line = element("div");
    if (colour) {
      const dot = element("i");
      dot.style.background = colour;
      line.append(dot);
    }
    line.append(text);
    return line;
  }));
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = Math.min(event.clientX + 14, innerWidth - width - 8) + "px";
  box.style.top = Math.min(event.clientY + 14, innerHeight - height - 8) + "px";
}

// Axes: steps of 1, 2, 5.

function ticks(max, about) {
  if (!(max > 0)) return [0];
  const raw = max / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= raw);
  const all = [];
  for (let i = 0; i * step <= max * 1.0001; i++) all.push(Math.round(i * step * 1e6) / 1e6);
  return all;
}

const LEFT = 92, RIGHT = 12, TOP = 8, BOTTOM = 22;

function frame(holder, height, maxX, maxY, labelX, labelY) {
  const width = Math.max(holder.clientWidth, 320);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const x = (v) => LEFT + (v / maxX) * (width - LEFT - RIGHT);
  const y = (v) => height - BOTTOM - (v / maxY) * (height - TOP - BOTTOM);
  if (labelY) {
    for (const v of ticks(maxY, 4)) {
      root.append(svg("line", { class: v === 0 ? "axis" : "grid", x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }));
      root.append(svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, plain(labelY(v))));
    }
  }
  for (const v of ticks(maxX, Math.max(3, Math.floor(width / 140)))) {
    root.append(svg("line", { class: "grid", x1: x(v), x2: x(v), y1: TOP, y2: height - BOTTOM }));
    root.append(svg("text", { x: x(v), y: height - 6, "text-anchor": "middle" }, plain(labelX(v))));
  }
  holder.append(root);
  return { root, x, y, width, height };
}

function nothing(holder, text) {
  holder.append(element("div", text, "empty"));
}

/// Series over time, one value per period; a click on a name hides it.
function lines(id, series, period, label, empty) {
  const holder = $(id);
  holder.replaceChildren();
  if (series.length === 0) return nothing(holder, empty);
  const hidden = new Set();
  const plot = () => {
    holder.replaceChildren();
    const shown = series.map((s, i) => ({ ...s, colour: PALETTE[i % PALETTE.length], i })).filter((s) => !hidden.has(s.i));
    const largest = Math.max(1, ...shown.map((s) => s.values.reduce((a, b) => Math.max(a, b), 0)));
    const { root, x, y, width, height } = frame(holder, 230, DATA.end_ns, largest * 1.06, time, label);
    for (const s of shown) {
      let path = "";
      s.values.forEach((v, k) => {
        const from = x(Math.min(k * period, DATA.end_ns)), to = x(Math.min((k + 1) * period, DATA.end_ns));
        path += `${k ? "L" : "M"}${from.toFixed(1)} ${y(v).toFixed(1)}H${to.toFixed(1)}`;
      });
      root.append(svg("path", { d: path, fill: "none", stroke: s.colour, "stroke-width": 1.6, "stroke-linejoin": "round" }));
    }
    const cross = svg("line", { class: "cross", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    root.append(cross);
    const away = (event) => {
      cross.setAttribute("visibility", "hidden");
      tip(event, null);
    };
    root.addEventListener("mousemove", (event) => {
      const at = (event.clientX - root.getBoundingClientRect().left) * (width / root.clientWidth);
      const ns = ((at - LEFT) / (width - LEFT - RIGHT)) * DATA.end_ns;
      if (ns < 0 || ns > DATA.end_ns) return away(event);
      cross.setAttribute("visibility", "visible");
      cross.setAttribute("x1", at);
      cross.setAttribute("x2", at);
      const k = Math.min(Math.floor(ns / period), shown.length ? shown[0].values.length - 1 : 0);
      const rows = shown.map((s) => [s.values[k] ?? 0, s.name, s.colour]).sort((a, b) => b[0] - a[0]).slice(0, 12);
      tip(event, [[time(Math.round(ns))], ...rows.map(([v, name, colour]) => [label(v) + "  " + name, colour])]);
    });
    root.addEventListener("mouseleave", away);
    const legend = element("div", undefined, "legend");
    series.forEach((s, i) => {
      const item = element("span", undefined, hidden.has(i) ? "off" : "");
      const dash = element("i");
      dash.style.background = PALETTE[i % PALETTE.length];
      item.append(dash, s.name);
      item.addEventListener("click", () => {
        if (!hidden.delete(i)) hidden.add(i);
        if (hidden.size === series.length) hidden.clear();
        plot();
      });
      legend.append(item);
    });
    holder.append(legend);
  };
  plot();
}

function pauses() {
  const holder = $("pauses");
  holder.replaceChildren();
  $("pauses-note").textContent = T.pauses.length === 0 ? "" : "a bar: the port holds its peer back"
    + (T.pauses_left_out > 0 ? `; ${count(T.pauses_left_out)} more are not shown` : "");
  if (T.pauses.length === 0) return nothing(holder, "No port held its peer back.");
  const rows = new Map();
  for (const p of T.pauses) {
    const key = `${p.node} port ${p.port} \u2192 ${p.peer}, priority ${p.priority}`;
    if (!rows.has(key)) rows.set(key, { short: `${p.node}:${p.port} \u2192 ${p.peer}`, spans: [], total: 0, priority: p.priority });
    const row = rows.get(key);
    row.spans.push(p);
    row.total += p.to_ns - p.from_ns;
  }
  const listed = [...rows.entries()].sort((a, b) => b[1].total - a[1].total).slice(0, 40);
  const tall = 15;
  const height = TOP + BOTTOM + listed.length * tall;
  const { root, x, width } = frame(holder, height, DATA.end_ns, 1, time, null);
  const shift = LEFT;
  listed.forEach(([key, row], i) => {
    const top = TOP + i * tall;
    root.append(svg("rect", { x: shift, y: top + 2, width: width - shift - RIGHT, height: tall - 4, fill: "#f4f6f8" }));
    const name = svg("text", { x: LEFT - 6, y: top + 11, "text-anchor": "end", class: "label" }, row.short.length > 16 ? row.short.slice(0, 15) + "…" : row.short);
    name.append(svg("title", {}, key));
    root.append(name);
    const colour = PALETTE[[3, 0, 1, 3, 2, 5, 4, 6][row.priority]];
    // Bars that touch are drawn as one.
    let d = "";
    let open = null;
    for (const s of row.spans) {
      const from = x(s.from_ns), to = Math.max(x(s.to_ns), from + 0.7);
      if (open && from - open[1] < 0.3) {
        open[1] = to;
      } else {
        if (open) d += `M${open[0].toFixed(1)} ${top + 2}H${open[1].toFixed(1)}V${top + tall - 2}H${open[0].toFixed(1)}Z`;
        open = [from, to];
      }
    }
    d += `M${open[0].toFixed(1)} ${top + 2}H${open[1].toFixed(1)}V${top + tall - 2}H${open[0].toFixed(1)}Z`;
    const bars = svg("path", { d, fill: colour });
    const share = ((row.total / DATA.end_ns) * 100).toFixed(1);
    bars.addEventListener("mousemove", (event) => tip(event, [[key], [`${count(row.spans.length)} pauses, ${time(row.total)} in all: ${share} % of the run`]]));
    bars.addEventListener("mouseleave", (event) => tip(event, null));
    root.append(bars);
  });
  if (rows.size > listed.length) holder.append(element("div", `${rows.size - listed.length} more ports paused for a shorter time.`, "empty"));
}

function cdf() {
  const holder = $("cdf");
  holder.replaceChildren();
  if (DATA.cdf.length === 0) return nothing(holder, "No flow was delivered.");
  const points = DATA.cdf;
  const low = points[0][0], high = points[points.length - 1][0];
  const log = high > 50 * Math.max(low, 1);
  const width = Math.max(holder.clientWidth, 320), height = 230;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const from = log ? Math.log10(Math.max(low, 1)) : 0, to = log ? Math.log10(high * 1.05) : high * 1.03;
  const x = (v) => LEFT + (((log ? Math.log10(Math.max(v, 1)) : v) - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (m) => height - BOTTOM - (m / 1000) * (height - TOP - BOTTOM);
  for (const m of [0, 250, 500, 750, 1000]) {
    root.append(svg("line", { class: m ? "grid" : "axis", x1: LEFT, x2: width - RIGHT, y1: y(m), y2: y(m) }));
    root.append(svg("text", { x: LEFT - 6, y: y(m) + 4, "text-anchor": "end" }, m / 10 + " %"));
  }
  const marks = log ? Array.from({ length: 12 }, (_, i) => 10 ** i).filter((v) => v >= 10 ** from && v <= 10 ** to) : ticks(high, 5);
  for (const v of marks) {
    root.append(svg("line", { class: "grid", x1: x(v), x2: x(v), y1: TOP, y2: height - BOTTOM }));
    root.append(svg("text", { x: x(v), y: height - 6, "text-anchor": "middle" }, plain(time(v))));
  }
  let d = `M${x(low)} ${y(0)}`;
  for (const [v, m] of points) d += `H${x(v).toFixed(1)}V${y(m).toFixed(1)}`;
  root.append(svg("path", { d, fill: "none", stroke: "#0072b2", "stroke-width": 2 }));
  const fct = DATA.summary.fct_ns;
  [["p50", fct.p50, 500, "#009e73"], ["p99", fct.p99, 990, "#d55e00"]].forEach(([name, v, m, colour]) => {
    root.append(svg("circle", { cx: x(v), cy: y(m), r: 4, fill: colour }));
    const left = x(v) > width - 150;
    root.append(svg("text", { x: x(v) + (left ? -8 : 8), y: y(m) + (m > 900 ? 16 : 4), class: "label halo", "text-anchor": left ? "end" : "start" }, `${name} ${time(v)}`));
  });
  holder.append(root);
}

function head() {
  const s = DATA.summary;
  $("name").textContent = DATA.name;
  $("identity").textContent = `weir ${DATA.weir} · profile ${DATA.profile} · seed ${DATA.seed} · config ${DATA.config}`;
  const lost = s.frames_dropped + s.frames_lost, open = s.flows_finite - s.flows_done;
  const bad = DATA.conservation_error > 0 ? "frames unaccounted for" : DATA.deadlock.length > 0 ? "deadlock" : s.frames_dropped > 0 ? count(s.frames_dropped) + " frames dropped"
    : open > 0 ? count(open) + " flows not delivered" : "";
  $("verdict").textContent = bad || (lost ? "recovered" : "nothing lost");
  if (bad) $("verdict").classList.add("bad");
  const figures = [
    [time(DATA.end_ns), "virtual time"],
    [`${count(s.flows_done)} / ${count(s.flows_finite)}`, "flows delivered", open > 0],
    [s.fct_ns ? time(s.fct_ns.p50) : "–", "FCT p50"],
    [s.fct_ns ? time(s.fct_ns.p99) : "–", "FCT p99"],
    [s.slowdown_milli ? milli(s.slowdown_milli.p99) : "–", "slowdown p99"],
    [count(s.frames_sent), "data frames"],
    [count(s.frames_dropped), "dropped", s.frames_dropped > 0],
    [count(s.frames_lost), "lost on links"],
    [count(s.pfc_pauses), "pause frames"],
    [count(s.ecn_marks), "marks"],
    [bytes(s.queue_max_bytes), "longest queue"],
    [bytes(s.headroom_peak_bytes), "headroom used"],
  ];
  $("figures").replaceChildren(...figures.map(([value, name, alarm]) => {
    const box = element("div", undefined, alarm ? "alarm" : "");
    box.append(element("b", value), element("span", name));
    return box;
  }));
  $("why").replaceChildren(...DATA.why.map((sentence) => element("li", sentence)));
  $("why-box").hidden = DATA.why.length === 0;
}

function tables() {
  table("classes", [["Size", "text"], ["Flows", ""], ["p50", ""], ["p99", ""], ["max", ""], ["slow p50", ""], ["slow p99", ""], ["slow max", ""]],
    DATA.classes.map(({ name, fct, slow }) => ({ cells: [name, count(fct.count), time(fct.p50), time(fct.p99), time(fct.max),
      milli(slow.p50), milli(slow.p99), milli(slow.max)] })), "no flow was delivered");
  $("ports-note").textContent = DATA.ports.length < DATA.ports_total ? `${DATA.ports.length} of ${count(DATA.ports_total)}, the busiest` : "";
  const sum = (drops) => Object.values(drops).reduce((a, b) => a + b, 0);
  table("ports", [["Switch", "text"], ["Port", ""], ["To", "text"], ["In", ""], ["Out", ""], ["Longest queue", ""], ["Mean queue", ""], ["Marked", ""],
    ["XOFF sent", ""], ["PFC heard", ""], ["Held back", ""], ["Headroom used", ""], ["of", ""], ["Dropped", ""]],
  DATA.ports.map(({ switch: name, port: p }) => ({ alarm: sum(p.drops) > 0, cells: [name, String(p.port), p.peer, count(p.rx_frames), count(p.tx_frames),
    bytes(p.queue_max), bytes(p.queue_mean), count(p.marked), count(p.pfc_tx_xoff), count(p.pfc_rx), time(p.rx_paused_ns), bytes(p.headroom_peak),
    bytes(p.headroom), sum(p.drops) === 0 ? "0" : Object.entries(p.drops).map(([why, n]) => `${count(n)} ${why}`).join(", ")] })), "no switch");
  $("hosts-box").hidden = DATA.hosts.length === 0;
  table("hosts", [["Host", "text"], ["PFC frames", ""], ["Pauses", ""], ["Held back", ""], ["Share of the run", ""]],
    DATA.hosts.map((h) => {
      const held = Math.max(...h.paused_ns);
      return { cells: [h.name, count(h.pfc_rx), count(h.pauses.reduce((a, b) => a + b, 0)), time(held), ((held / DATA.end_ns) * 100).toFixed(1) + " %"] };
    }), "");
  $("flows-note").textContent = DATA.flows.length < DATA.flows_total ? `the ${DATA.flows.length} slowest of ${count(DATA.flows_total)}` : "slowest first";
  table("flows", [["Flow", ""], ["From", "text"], ["To", "text"], ["Size", ""], ["Start", ""], ["Completion", ""], ["Slowdown", ""], ["Resent", ""], ["Marked", ""], ["CNPs", ""]],
    DATA.flows.map((f) => ({ alarm: f.bytes !== null && f.fct === null, cells: [String(f.id), f.from, f.to, f.bytes === null ? "endless" : bytes(f.bytes), time(f.start),
      f.fct === null ? "–" : time(f.fct), milli(f.slow), count(f.resent), count(f.marked), count(f.cnps)] })), "no flow");
}

function draw() {
  lines("depths", T.depths, T.period_ns, bytes, "Nothing waited.");
  pauses();
  lines("rates", T.rates, T.rate_period_ns, rate, "Nothing was delivered.");
  cdf();
}

head();
tables();
draw();
let pending = 0;
addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(draw, 120);
});
