"use strict";
// What pages draw with: numbers, elements, axes, lines, distributions. Their data is in #data; nothing is fetched.

const DATA = JSON.parse(document.getElementById("data").textContent);
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7a5195", "#8c6d31",
  "#1c2430", "#6b8e23", "#a0522d", "#4682b4", "#b03060", "#2f8f8f", "#c0a000", "#708090"];
const $ = (id) => document.getElementById(id);

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
  const width = Math.max(holder.clientWidth, 240);
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

/// Moments: dashed lines with a number above, of each an `at` (ns) and a `name`. Numbers that would cover one another become one.
function moments(root, x, bottom, marks) {
  const groups = [];
  marks.forEach((mark, i) => {
    const at = x(mark.at), before = groups[groups.length - 1];
    root.append(svg("line", { class: "order", x1: at, x2: at, y1: TOP + 6, y2: bottom }));
    if (before && at - before.at < 24) before.to = i + 1;
    else groups.push({ at, from: i + 1, to: i + 1 });
  });
  for (const { at, from, to } of groups) {
    const text = svg("text", { x: at, y: TOP + 3, "text-anchor": "middle", class: "label halo" }, from === to ? String(from) : `${from}\u2013${to}`);
    text.append(svg("title", {}, marks.slice(from - 1, to).map((mark) => mark.name).join("\n")));
    root.append(text);
  }
}

function nothing(holder, text) {
  holder.append(element("div", text, "empty"));
}

/// The name of a series in a legend, which keeps its colour where it has nothing to draw.
function called(series, values) {
  return values.length > 0 ? series.name : `${series.name} (nothing of this)`;
}

/// What tells the colours of series apart; a click on a name calls `toggle`.
function legend(names, hidden, toggle) {
  const box = element("div", undefined, "legend");
  names.forEach((name, i) => {
    const item = element("span", undefined, hidden.has(i) ? "off" : "");
    const dash = element("i");
    dash.style.background = PALETTE[i % PALETTE.length];
    item.append(dash, name);
    item.addEventListener("click", () => {
      if (!hidden.delete(i)) hidden.add(i);
      if (hidden.size === names.length) hidden.clear();
      toggle();
    });
    box.append(item);
  });
  return box;
}

/// Series over a time of `end` ns, one value per `period` ns, and moments in it; a click on a name hides one.
function lines(id, end, series, label, empty, marks = []) {
  const holder = $(id);
  holder.replaceChildren();
  if (series.every((s) => s.values.length === 0)) return nothing(holder, empty);
  const hidden = new Set();
  const plot = () => {
    holder.replaceChildren();
    const shown = series.map((s, i) => ({ ...s, colour: PALETTE[i % PALETTE.length], i })).filter((s) => s.values.length > 0 && !hidden.has(s.i));
    const largest = Math.max(1, ...shown.map((s) => s.values.reduce((a, b) => Math.max(a, b), 0)));
    const { root, x, y, width, height } = frame(holder, 230, end, largest * 1.06, time, label);
    for (const s of shown) {
      let path = "";
      s.values.forEach((v, k) => {
        const from = x(Math.min(k * s.period, end)), to = x(Math.min((k + 1) * s.period, end));
        path += `${k ? "L" : "M"}${from.toFixed(1)} ${y(v).toFixed(1)}H${to.toFixed(1)}`;
      });
      root.append(svg("path", { d: path, fill: "none", stroke: s.colour, "stroke-width": 1.6, "stroke-linejoin": "round" }));
    }
    moments(root, x, height - BOTTOM, marks);
    const cross = svg("line", { class: "cross", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    root.append(cross);
    const away = (event) => {
      cross.setAttribute("visibility", "hidden");
      tip(event, null);
    };
    root.addEventListener("mousemove", (event) => {
      const at = (event.clientX - root.getBoundingClientRect().left) * (width / root.clientWidth);
      const ns = ((at - LEFT) / (width - LEFT - RIGHT)) * end;
      if (ns < 0 || ns > end) return away(event);
      cross.setAttribute("visibility", "visible");
      cross.setAttribute("x1", at);
      cross.setAttribute("x2", at);
      const rows = shown.map((s) => [s.values[Math.floor(ns / s.period)] ?? 0, s.name, s.colour]).sort((a, b) => b[0] - a[0]).slice(0, 12);
      tip(event, [[time(Math.round(ns))], ...rows.map(([v, name, colour]) => [label(v) + "  " + name, colour])]);
    });
    root.addEventListener("mouseleave", away);
    holder.append(legend(series.map((s) => called(s, s.values)), hidden, plot));
  };
  plot();
}

/// Distributions: of each a `name`, `points` (value, thousandths that are at most so large) and, of a single one, `marks`
/// (name, value, thousandths, colour). A click on a name hides it.
function distributions(id, series, label, empty) {
  const holder = $(id);
  const full = series.filter((s) => s.points.length > 0);
  holder.replaceChildren();
  if (full.length === 0) return nothing(holder, empty);
  const low = Math.min(...full.map((s) => s.points[0][0]));
  const high = Math.max(1, ...full.map((s) => s.points[s.points.length - 1][0]));
  const log = low > 0 && high > 50 * low;
  const hidden = new Set();
  const plot = () => {
    holder.replaceChildren();
    const width = Math.max(holder.clientWidth, 240), height = 230;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
    const from = log ? Math.log10(low) : 0, to = log ? Math.log10(high * 1.05) : high * 1.03;
    const x = (v) => LEFT + (((log ? Math.log10(v) : v) - from) / (to - from)) * (width - LEFT - RIGHT);
    const y = (m) => height - BOTTOM - (m / 1000) * (height - TOP - BOTTOM);
    for (const m of [0, 250, 500, 750, 1000]) {
      root.append(svg("line", { class: m ? "grid" : "axis", x1: LEFT, x2: width - RIGHT, y1: y(m), y2: y(m) }));
      root.append(svg("text", { x: LEFT - 6, y: y(m) + 4, "text-anchor": "end" }, m / 10 + " %"));
    }
    const values = log ? Array.from({ length: 16 }, (_, i) => 10 ** i).filter((v) => v >= 10 ** from && v <= 10 ** to) : ticks(high, 5);
    for (const v of values) {
      root.append(svg("line", { class: "grid", x1: x(v), x2: x(v), y1: TOP, y2: height - BOTTOM }));
      root.append(svg("text", { x: x(v), y: height - 6, "text-anchor": "middle" }, plain(label(v))));
    }
    series.forEach(({ name, points, marks }, i) => {
      if (hidden.has(i) || points.length === 0) return;
      let d = `M${x(points[0][0]).toFixed(1)} ${y(0)}`;
      for (const [v, m] of points) d += `H${x(v).toFixed(1)}V${y(m).toFixed(1)}`;
      const path = svg("path", { d, fill: "none", stroke: PALETTE[i % PALETTE.length], "stroke-width": 2 });
      path.append(svg("title", {}, name));
      root.append(path);
      for (const [mark, v, m, colour] of marks ?? []) {
        root.append(svg("circle", { cx: x(v), cy: y(m), r: 4, fill: colour }));
        const left = x(v) > width - 150;
        root.append(svg("text", { x: x(v) + (left ? -8 : 8), y: y(m) + (m > 900 ? 16 : 4), class: "label halo", "text-anchor": left ? "end" : "start" }, `${mark} ${label(v)}`));
      }
    });
    holder.append(root);
    if (series.length > 1) holder.append(legend(series.map((s) => called(s, s.points)), hidden, plot));
  };
  plot();
}

/// Draws now, and once more when the window has another size.
function keepDrawn(draw) {
  draw();
  let pending = 0;
  addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(draw, 120);
  });
}
