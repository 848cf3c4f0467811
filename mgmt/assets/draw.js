"use strict";
// Numbers as text, and what is drawn on canvases: matrix, buffer, marking, pauses, latency.

const COLOUR = {
  blue: "#0072b2", orange: "#e69f00", red: "#d55e00", green: "#009e73", sky: "#56b4e9", pink: "#cc79a7",
  ink: "#18212d", quiet: "#5a6675", line: "#dbe1e8", paper: "#eef1f4", white: "#ffffff",
};
const FONT = '11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';

// Light to dark and one hue after the other: readable in grey and by everybody (after viridis).
const HEAT = [[236, 240, 244], [176, 213, 206], [94, 185, 162], [44, 144, 141], [49, 103, 142], [62, 59, 120], [54, 10, 72]];

function heat(share) {
  const x = Math.max(0, Math.min(1, share)) * (HEAT.length - 1);
  const i = Math.min(HEAT.length - 2, Math.floor(x));
  const mix = HEAT[i].map((c, k) => Math.round(c + (HEAT[i + 1][k] - c) * (x - i)));
  return "rgb(" + mix.join(",") + ")";
}

// Counters above 2^53 come as text and stay text.
function count(value) {
  if (value === null || value === undefined) return "–";
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function scaled(value, unit) {
  if (value === null || value === undefined) return "–";
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return (value / size).toPrecision(3).replace(/\.?0+$/, (z) => (z.startsWith(".") ? "" : z)) + "\u202f" + letter + unit;
  }
  return value.toFixed(0) + "\u202f" + unit;
}

function bytes(value) {
  if (value === null || value === undefined) return "–";
  const n = Number(value);
  if (n >= 1048576) return (n / 1048576).toFixed(n >= 104857600 ? 0 : 1) + "\u202fMiB";
  if (n >= 1024) return (n / 1024).toFixed(n >= 102400 ? 0 : 1) + "\u202fKiB";
  return Math.round(n) + "\u202fB";
}

function nanos(value) {
  if (value === null || value === undefined) return "–";
  const n = Number(value);
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (n >= size) return (n / size).toFixed(n >= size * 100 ? 0 : 1) + "\u202f" + unit;
  }
  return n.toFixed(0) + "\u202fns";
}

const percent = (share) => (share * 100).toFixed(share >= 0.0995 || share === 0 ? 0 : 1) + "\u202f%";

// A canvas as large as it is shown, cleared.
function canvas(id) {
  const node = document.getElementById(id);
  const scale = window.devicePixelRatio || 1;
  const width = node.clientWidth, height = node.clientHeight;
  if (node.width !== Math.round(width * scale) || node.height !== Math.round(height * scale)) {
    node.width = Math.round(width * scale);
    node.height = Math.round(height * scale);
  }
  const draw = node.getContext("2d");
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, width, height);
  draw.font = FONT;
  draw.textBaseline = "middle";
  draw.lineWidth = 1;
  draw.setLineDash([]);
  return { draw, width, height };
}

function say(draw, text, x, y, align, colour) {
  draw.textAlign = align || "left";
  draw.fillStyle = colour || COLOUR.ink;
  draw.fillText(text, x, y);
}

function rule(draw, x1, y1, x2, y2, colour) {
  draw.strokeStyle = colour || COLOUR.line;
  draw.beginPath();
  draw.moveTo(x1, y1);
  draw.lineTo(x2, y2);
  draw.stroke();
}

// As many letters as fit; of a name those at its end, which tell it from others.
function fit(draw, text, width, isName) {
  const cut = (n) => (n === text.length ? text : isName ? "…" + text.slice(-n) : text.slice(0, n) + "…");
  let n = text.length;
  while (n > 1 && draw.measureText(cut(n)).width > width) n--;
  return cut(n);
}

function matrixPanel(snapshot) {
  const { draw, width, height } = canvas("matrix");
  const names = snapshot.ports.map((p) => p.port);
  const index = new Map(names.map((name, i) => [name, i]));
  const most = Math.max(1, ...snapshot.matrix.map((m) => m.bps));
  const labels = names.length <= 24;
  const left = labels ? Math.min(70, 8 + Math.max(...names.map((n) => draw.measureText(n).width))) : 8;
  const top = labels ? 16 : 8;
  const w = (width - left) / names.length, h = (height - top) / names.length;
  names.forEach((from, y) => {
    if (labels) {
      say(draw, fit(draw, from, left - 6, true), left - 5, top + (y + 0.5) * h, "right", COLOUR.quiet);
      say(draw, fit(draw, from, w - 2, true), left + (y + 0.5) * w, top / 2, "center", COLOUR.quiet);
    }
    names.forEach((to, x) => {
      draw.fillStyle = x === y ? COLOUR.white : COLOUR.paper;
      draw.fillRect(left + x * w, top + y * h, Math.max(1, w - 1), Math.max(1, h - 1));
    });
  });
  for (const cell of snapshot.matrix) {
    const x = index.get(cell.port), y = index.get(cell.from), share = Math.sqrt(cell.bps / most);
    if (x === undefined || y === undefined || cell.bps <= 0) continue;
    draw.fillStyle = heat(0.08 + share * 0.92);
    draw.fillRect(left + x * w, top + y * h, Math.max(1, w - 1), Math.max(1, h - 1));
    const text = scaled(cell.bps, "");
    if (h >= 12 && draw.measureText(text).width < w - 4) {
      say(draw, text, left + (x + 0.5) * w, top + (y + 0.5) * h, "center", share > 0.42 ? COLOUR.white : COLOUR.ink);
    }
  }
  if (labels) say(draw, "to →", 0, top / 2, "left", COLOUR.quiet);
  if (snapshot.matrix.length === 0) {
    const text = fit(draw, "nothing waits: queued bytes appear here", width - left - 12);
    const w = draw.measureText(text).width + 12, middle = left + (width - left) / 2;
    draw.fillStyle = COLOUR.white;
    draw.fillRect(middle - w / 2, height / 2 - 9, w, 18);
    say(draw, text, middle, height / 2, "center", COLOUR.quiet);
  }
}

function bufferPanel(snapshot) {
  const { draw, width, height } = canvas("buffer");
  const pools = snapshot.buffer;
  const total = pools.reduce((sum, pool) => sum + Number(pool.size_bytes), 0) || 1;
  const colours = { reserved: COLOUR.green, shared: COLOUR.blue, headroom: COLOUR.pink, control: COLOUR.orange };
  document.getElementById("buffer-note").textContent = bytes(total);
  // The whole buffer as one bar, in proportion; what is in use is solid.
  let x = 0;
  for (const pool of pools) {
    const w = width * Number(pool.size_bytes) / total;
    draw.globalAlpha = 0.28;
    draw.fillStyle = colours[pool.pool];
    draw.fillRect(x, 0, Math.max(0, w - 1), 13);
    draw.globalAlpha = 1;
    draw.fillRect(x, 0, Math.max(0, w - 1) * Math.min(1, Number(pool.used_bytes || 0) / Math.max(1, Number(pool.size_bytes))), 13);
    if (pool.peak_bytes !== null) {
      draw.fillStyle = COLOUR.ink;
      draw.fillRect(x + Math.min(w - 2, w * Number(pool.peak_bytes) / Math.max(1, Number(pool.size_bytes))), 0, 2, 13);
    }
    x += w;
  }
  pools.forEach((pool, i) => {
    const y = 22 + i * 14;
    draw.fillStyle = colours[pool.pool];
    draw.fillRect(0, y - 4, 8, 8);
    say(draw, pool.pool, 13, y);
    const used = pool.used_bytes === null ? "" : bytes(pool.used_bytes) + " of ";
    const peak = pool.peak_bytes === null ? "" : ", peak " + bytes(pool.peak_bytes);
    say(draw, used + bytes(pool.size_bytes) + peak, width, y, "right", COLOUR.quiet);
  });
  // The fullest groups: shared against their moving line, headroom behind it.
  const groups = snapshot.pgs.filter((g) => Number(g.shared_bytes) + Number(g.headroom_bytes) > 0)
    .sort((a, b) => Number(b.shared_bytes) + Number(b.headroom_bytes) - Number(a.shared_bytes) - Number(a.headroom_bytes));
  const first = 22 + pools.length * 14 + 4, step = 17;
  const room = Math.floor((height - first - 6) / step);
  rule(draw, 0, first - 6.5, width, first - 6.5);
  if (groups.length === 0) {
    say(draw, "no group holds anything now", 0, first + 6, "left", COLOUR.quiet);
    return;
  }
  const left = 62, right = 66;
  const scale = Math.max(...groups.slice(0, room).map((g) =>
    Math.max(Number(g.xoff_bytes || 0), Number(g.shared_bytes)) + Number(g.headroom_size_bytes)));
  groups.slice(0, room).forEach((g, i) => {
    const y = first + i * step, at = (v) => left + (width - left - right) * Number(v) / scale;
    const line = g.xoff_bytes === null ? null : Math.max(Number(g.xoff_bytes), 0);
    say(draw, fit(draw, g.port + " / " + g.pg, left - 4, true), 0, y + 6);
    draw.fillStyle = COLOUR.paper;
    draw.fillRect(left, y + 1, width - left - right, 10);
    draw.fillStyle = COLOUR.blue;
    draw.fillRect(left, y + 1, at(g.shared_bytes) - left, 10);
    if (Number(g.headroom_bytes) > 0) {
      const from = at(Math.max(line || 0, Number(g.shared_bytes)));
      draw.fillStyle = COLOUR.pink;
      draw.fillRect(from, y + 1, Math.max(2, at(g.headroom_bytes) - left), 10);
    }
    if (line !== null) {
      draw.fillStyle = COLOUR.red;
      draw.fillRect(at(line) - 1, y - 1, 2, 14);
    }
    say(draw, bytes(Number(g.shared_bytes) + Number(g.headroom_bytes)) + (g.xoff ? " ▲" : ""), width, y + 6, "right");
  });
}

// Probability of a mark at a depth, as configured.
function law(q, depth) {
  const kmin = Number(q.kmin_bytes), kmax = Number(q.kmax_bytes), pmax = Number(q.pmax_ppm) / 1e6;
  if (depth <= kmin) return 0;
  if (depth >= kmax) return 1;
  return pmax * (depth - kmin) / (kmax - kmin);
}

// The configured curve, and over it what was measured since start: share of frames selected, by depth left behind.
function markingPanel(q, measured) {
  const { draw, width, height } = canvas("marking");
  document.getElementById("marking-note").textContent = q ? q.port + " / " + q.queue : "";
  if (!q || q.kmax_bytes === null) {
    say(draw, "this queue does not mark: a [[wred]] with kmin and kmax has it do so", 0, 12, "left", COLOUR.quiet);
    return;
  }
  const kmax = Number(q.kmax_bytes), deepest = kmax * 2;
  const bins = measured.map((m) => ({
    depth: (Number(m.depth_from_bytes) + Number(m.depth_to_bytes === null ? deepest : m.depth_to_bytes)) / 2,
    frames: Number(m.frames), share: Number(m.selected) / Math.max(1, Number(m.frames)), open: m.depth_to_bytes === null,
  }));
  const left = 38, right = 22, top = 20, bottom = 18;
  const x = (d) => left + (width - left - right) * Math.min(1, d / deepest), y = (p) => height - bottom - (height - top - bottom) * p;
  for (const p of [0, 0.25, 0.5, 0.75, 1]) {
    rule(draw, left, Math.round(y(p)) + 0.5, width - right, Math.round(y(p)) + 0.5);
    say(draw, percent(p), left - 5, y(p), "right", COLOUR.quiet);
  }
  for (const [name, at, colour] of [["Kmin", Number(q.kmin_bytes), COLOUR.green], ["Kmax", kmax, COLOUR.red]]) {
    draw.setLineDash([2, 3]);
    rule(draw, Math.round(x(at)) + 0.5, top, Math.round(x(at)) + 0.5, height - bottom, colour);
    draw.setLineDash([]);
    say(draw, name + " " + bytes(at), x(at), height - 7, name === "Kmin" && x(kmax) - x(at) < 90 ? "right" : "left", COLOUR.quiet);
  }
  draw.strokeStyle = COLOUR.sky;
  draw.lineWidth = 2;
  draw.beginPath();
  for (const d of [0, Number(q.kmin_bytes), kmax - 1e-6, kmax, deepest]) {
    d === 0 ? draw.moveTo(x(d), y(law(q, d))) : draw.lineTo(x(d), y(law(q, d)));
  }
  draw.stroke();
  draw.lineWidth = 1;
  const most = Math.max(1, ...bins.map((b) => b.frames));
  for (const b of bins) {
    draw.fillStyle = COLOUR.red;
    draw.strokeStyle = COLOUR.white;
    draw.beginPath();
    draw.arc(x(b.open ? deepest : b.depth), y(b.share), 2.5 + 3.5 * Math.sqrt(b.frames / most), 0, 7);
    draw.fill();
    draw.stroke();
  }
  draw.fillStyle = COLOUR.sky;
  draw.fillRect(left, 6, 16, 2);
  say(draw, "configured", left + 20, 7);
  draw.fillStyle = COLOUR.red;
  draw.beginPath();
  draw.arc(left + 96, 7, 3.5, 0, 7);
  draw.fill();
  say(draw, bins.length === 0 ? "measured: no frames yet" : "measured, by depth", left + 104, 7);
  if (bins.some((b) => b.open)) say(draw, "deeper ▸", width, height - 7, "right", COLOUR.quiet);
}

// Where a time of the last minute is on a panel that shows it all.
function timeScale(times, left, right, width, kept, step) {
  const end = times.length ? times[times.length - 1] : 0;
  const span = kept * step;
  return (ms) => left + (width - left - right) * (1 - (end - ms) / span);
}

function cursorLine(draw, x, top, bottom) {
  if (x === null) return;
  draw.setLineDash([3, 3]);
  rule(draw, Math.round(x) + 0.5, top, Math.round(x) + 0.5, bottom, COLOUR.quiet);
  draw.setLineDash([]);
}

// Stretches of the last minute of which nothing is known: the switch was not up yet, or did not come to look.
function unseen(state) {
  const all = [], times = state.times, end = times.length ? times[times.length - 1] : 0;
  let known = end - state.kept * state.step;
  for (const ms of times) {
    if (ms - state.step > known + state.step / 2) all.push([known, ms - state.step]);
    known = Math.max(known, ms);
  }
  return all;
}

// Hatched, so that nobody takes it for a time in which nothing happened.
function drawUnseen(draw, state, x, left, top, bottom) {
  for (const [from, to] of unseen(state)) {
    const a = Math.max(left, Math.round(x(from))), b = Math.round(x(to));
    if (b - a < 2) continue;
    draw.save();
    draw.beginPath();
    draw.rect(a, top, b - a, bottom - top);
    draw.clip();
    draw.fillStyle = COLOUR.white;
    draw.fillRect(a, top, b - a, bottom - top);
    for (let i = a - (bottom - top); i < b; i += 7) rule(draw, i, bottom, i + bottom - top, top, "#c3ccd6");
    const text = "no data";
    if (b - a > 60) {
      const w = draw.measureText(text).width + 8;
      draw.fillStyle = COLOUR.white;
      draw.fillRect((a + b - w) / 2, (top + bottom) / 2 - 8, w, 16);
      say(draw, text, (a + b) / 2, (top + bottom) / 2, "center", COLOUR.quiet);
    }
    draw.restore();
  }
}

// Room for names before, and for numbers behind, the pauses.
const pauseEdges = (width) => (width < 480 ? [64, 74] : [58, 168]);

const CAUSES = [["queue", COLOUR.red, "queue full"], ["paused_queue", COLOUR.orange, "queue paused itself"], ["receive_ring", COLOUR.pink, "receive ring full"]];
const causeColour = (cause) => (CAUSES.find(([word]) => cause && word === cause[0]) || CAUSES[0])[1];

function pausePanel(state, snapshot, cursor) {
  const { draw, width, height } = canvas("pfc");
  const weigh = (l) => [l.tx_paused, l.rx_paused].reduce((sum, c) => sum + (c ? c.reduce((a, b) => a + (b || 0), 0) : 0), 0);
  const paused = [...state.lanes.values()].map((l) => [weigh(l), l]).filter(([w]) => w > 0).sort((a, b) => b[0] - a[0]);
  const bottom = 14, [left, right] = pauseEdges(width);
  const enabled = snapshot.pfc.filter((p) => p.enabled).length;
  if (paused.length === 0) {
    say(draw, enabled === 0 ? "no priority has PFC: a preset such as roce-lossless gives it to one" : "nobody has paused anybody in the last minute: a group that reaches its Xoff line appears here", 0, 12, "left", COLOUR.quiet);
    return;
  }
  const fits = Math.max(1, Math.floor((height - bottom) / 15));
  const shown = paused.slice(0, fits).map(([, l]) => l);
  shown.sort((a, b) => (a.port < b.port ? -1 : a.port > b.port ? 1 : a.priority - b.priority));
  const step = Math.min(60, (height - bottom) / shown.length);
  const x = timeScale(state.times, left, right, width, state.kept, state.step);
  const i = cursor === null ? state.times.length - 1 : cursor;
  shown.forEach((l, n) => {
    const y = n * step, half = (step - 3) / 2;
    draw.fillStyle = COLOUR.paper;
    draw.fillRect(left, y + 1, width - left - right, step - 2);
    state.times.forEach((ms, k) => {
      // Whole pixels: neighbours must not overlap, or they show as stripes.
      const from = Math.round(x(ms - state.step)), to = Math.max(from + 1, Math.round(x(ms)));
      if (to < left) return;
      const tx = l.tx_paused ? l.tx_paused[k] : 0, rx = l.rx_paused ? l.rx_paused[k] : 0;
      if (tx > 0) {
        const h = Math.max(1.5, half * Math.sqrt(tx));
        draw.fillStyle = causeColour(l.cause && l.cause[k]);
        draw.fillRect(from, y + 1 + half - h, to - from, h);
      }
      if (rx > 0) {
        draw.fillStyle = COLOUR.blue;
        draw.fillRect(from, y + 2 + half, to - from, Math.max(1.5, half * Math.sqrt(rx)));
      }
    });
    for (const storm of state.storms.filter((s) => s.port === l.port && s.priority === l.priority)) {
      const from = Math.max(left, x(storm.from)), to = storm.to === null ? width - right : Math.min(width - right, x(storm.to));
      if (to <= from) continue;
      draw.strokeStyle = COLOUR.ink;
      draw.lineWidth = 2;
      draw.strokeRect(from, y + 2, Math.max(3, to - from), step - 4);
      draw.lineWidth = 1;
    }
    say(draw, fit(draw, l.port + " / " + l.priority, left - 6, true), left - 6, y + step / 2, "right");
    const tx = l.tx_paused && i >= 0 ? l.tx_paused[i] : 0, rx = l.rx_paused && i >= 0 ? l.rx_paused[i] : 0;
    const cause = l.cause && i >= 0 ? l.cause[i] : null;
    const by = cause && cause.length > 1 ? " for " + cause[1] + "/" + cause[2] : cause ? " receive ring" : "";
    const text = (tx > 0 ? "▲ " + percent(tx) + by : "") + (rx > 0 ? (tx > 0 ? "  " : "") + "▼ " + percent(rx) : "");
    say(draw, fit(draw, text || "–", right - 10), width - right + 8, y + step / 2, "left", text ? COLOUR.ink : COLOUR.quiet);
  });
  drawUnseen(draw, state, x, left, 1, step * shown.length);
  say(draw, "60 s ago", left, height - 5, "left", COLOUR.quiet);
  say(draw, "now", width - right, height - 5, "right", COLOUR.quiet);
  if (paused.length > shown.length) say(draw, "and " + (paused.length - shown.length) + " more", width, height - 5, "right", COLOUR.quiet);
  if (cursor !== null) cursorLine(draw, x(state.times[cursor]), 0, height - bottom);
}

// Cells of a step: [from ns, to ns, frames], of a part of the time, of one priority or of all.
function latencyCells(state, part, priority, i) {
  const cells = [];
  for (const [name, steps] of state.latency) {
    const [of, p] = name.split(" ");
    if (of === part && (priority === null || Number(p) === priority) && steps[i]) cells.push(...steps[i]);
  }
  return cells;
}

function quantile(cells, q) {
  const sorted = [...cells].sort((a, b) => a[1] - b[1]);
  const total = sorted.reduce((sum, c) => sum + c[2], 0);
  if (total === 0) return null;
  let seen = 0;
  for (const c of sorted) {
    seen += c[2];
    if (seen >= total * q) return c[1] - 1;
  }
  return sorted[sorted.length - 1][1] - 1;
}

const QUANTILES = [["p50", 0.5, COLOUR.ink, []], ["p99", 0.99, COLOUR.orange, []], ["p99.9", 0.999, COLOUR.red, [4, 3]]];

function latencyPanel(state, part, priority, cursor) {
  const { draw, width, height } = canvas("latency");
  const steps = state.times.map((_, i) => latencyCells(state, part, priority, i));
  const all = steps.flat();
  if (all.length === 0) {
    say(draw, "no frame has left in the last minute", 0, 12, "left", COLOUR.quiet);
    return;
  }
  const left = 46, right = 4, bottom = 14;
  const low = Math.log10(Math.max(1, Math.min(...all.map((c) => c[0])))), high = Math.log10(Math.max(...all.map((c) => c[1])));
  const y = (ns) => (height - bottom) * (1 - (Math.log10(Math.max(1, ns)) - low) / Math.max(0.3, high - low));
  const x = timeScale(state.times, left, right, width, state.kept, state.step);
  draw.fillStyle = COLOUR.paper;
  draw.fillRect(left, 0, width - left - right, height - bottom);
  const most = Math.max(...steps.map((cells) => Math.max(0, ...cells.map((c) => c[2]))));
  steps.forEach((cells, k) => {
    const from = Math.round(x(state.times[k] - state.step)), to = Math.max(from + 1, Math.round(x(state.times[k])));
    if (to < left) return;
    // Several priorities may share a cell: what is drawn is their sum.
    const sums = new Map();
    for (const [lo, hi, n] of cells) {
      const s = sums.get(lo) || [lo, hi, 0];
      s[2] += n;
      sums.set(lo, s);
    }
    for (const [lo, hi, n] of sums.values()) {
      const top = Math.round(y(hi)), end = Math.max(top + 1, Math.round(y(lo)));
      draw.fillStyle = heat(0.1 + 0.75 * Math.log1p(n) / Math.log1p(most));
      draw.fillRect(Math.max(left, from), top, to - Math.max(left, from), end - top);
    }
  });
  drawUnseen(draw, state, x, left, 0, height - bottom);
  const grid = [];
  for (let power = Math.ceil(low); power <= high; power++) grid.push(10 ** power);
  if (high - low < 2.5) for (const ns of [...grid, 10 ** Math.floor(low)]) grid.push(ns * 2, ns * 5);
  for (const ns of grid) {
    if (y(ns) < 5 || y(ns) > height - bottom - 4) continue;
    rule(draw, left, Math.round(y(ns)) + 0.5, width - right, Math.round(y(ns)) + 0.5, "#ffffff66");
    say(draw, nanos(ns), left - 5, y(ns), "right", COLOUR.quiet);
  }
  for (const [, q, colour, dash] of QUANTILES) {
    // A pale edge keeps a line visible on dark cells.
    for (const [edge, stroke] of [[3.5, "#ffffffaa"], [1.6, colour]]) {
      draw.strokeStyle = stroke;
      draw.lineWidth = edge;
      draw.setLineDash(edge > 2 ? [] : dash);
      draw.beginPath();
      let open = false;
      steps.forEach((cells, k) => {
        const at = quantile(cells, q);
        if (at === null) { open = false; return; }
        const px = (x(state.times[k] - state.step) + x(state.times[k])) / 2;
        if (px < left) return;
        open ? draw.lineTo(px, y(at)) : draw.moveTo(px, y(at));
        open = true;
      });
      draw.stroke();
    }
  }
  draw.lineWidth = 1;
  draw.setLineDash([]);
  say(draw, "60 s ago", left, height - 5, "left", COLOUR.quiet);
  say(draw, "now", width - right, height - 5, "right", COLOUR.quiet);
  if (cursor !== null) cursorLine(draw, x(state.times[cursor]), 0, height - bottom);
}
