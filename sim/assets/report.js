// The page of one run.

const T = DATA.timeline;
/// Orders in time. Those that were carried out are marks, whose numbers are theirs.
const ORDERS = [...DATA.orders].sort((a, b) => a.planned - b.planned);
const MARKS = ORDERS.filter((order) => order.at !== null).map((order, i) => ({ at: order.at, name: `${i + 1}: ${order.order}, ${time(order.at)}` }));
const CAUSES = Object.fromEntries(DATA.causes.map((cause, i) => [cause, PALETTE[i]]));
/// The collective whose steps are drawn.
let chosen = 0;

const transferred = (n) => scaled(n, [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "KB/s"], [1, "B/s"]]);
const late = (s) => (s === null || s.late_ns === 0 ? "–" : time(s.late_ns));

function collectives() {
  const all = DATA.collectives;
  $("collectives-box").hidden = all.length === 0;
  if (all.length === 0) return;
  $("collectives-note").textContent = (all.length < DATA.collectives_total ? `the ${all.length} longest of ${count(DATA.collectives_total)}; ` : "")
    + "algbw: size by time; busbw: the same times the share each line carries; late: on the chain of messages that ended last";
  table("collectives", [["Collective", "text"], ["Workload", ""], ["Ranks", ""], ["Size", ""], ["Start", ""], ["Time", ""], ["algbw", ""], ["busbw", ""], ["Steps", ""],
    ["Straggler", "text"], ["Cause", "text"], ["Late by", ""]],
  all.map((c) => ({ alarm: c.time_ns === null, cells: [c.kind, String(c.workload), count(c.ranks), bytes(c.bytes), time(c.start_ns), c.time_ns === null ? "not ended" : time(c.time_ns),
    transferred(c.algbw_bytes_per_s), transferred(c.busbw_bytes_per_s), count(c.steps_total), c.straggler?.host ?? "–", c.straggler?.cause ?? "–", late(c.straggler)] })), "");
  const rows = [...$("collectives").rows].slice(1);
  const mark = () => rows.forEach((row, i) => row.classList.toggle("chosen", all.length > 1 && i === chosen));
  if (all.length > 1) rows.forEach((row, i) => {
    row.classList.add("choice");
    row.addEventListener("click", () => {
      chosen = i;
      mark();
      steps();
    });
  });
  mark();
}

/// A bar for each step of the chosen collective, from its first message to its last byte, in the colour of what its last message was late by.
function steps() {
  const holder = $("steps"), of = DATA.collectives[chosen];
  holder.replaceChildren();
  if (!of || of.start_ns === null) return nothing(holder, "Nothing of it was sent.");
  const { kind, workload, steps: list, steps_total: total, start_ns: start } = of;
  $("steps-of").replaceChildren(`Steps of ${kind}, workload ${workload}`, element("span", (list.length < total ? `the first ${count(list.length)} of ${count(total)}; ` : "")
    + "since its start; colour: what made its last message late", "quiet"));
  const tall = Math.max(4, Math.min(15, Math.floor(480 / list.length)));
  const every = Math.ceil(12 / tall), gap = tall > 8 ? 2 : 0.5;
  const begun = list.filter((s) => s.start_ns !== null);
  const end = Math.max(1, ...begun.map((s) => (s.end_ns ?? DATA.end_ns) - start));
  const { root, x } = frame(holder, TOP + BOTTOM + list.length * tall, end, 1, time, null);
  list.forEach((s, i) => {
    const top = TOP + i * tall;
    if (i % every === 0) root.append(svg("text", { x: LEFT - 6, y: top + Math.min(11, tall + 4), "text-anchor": "end", class: "label" }, `step ${s.step}`));
    if (s.start_ns === null) return;
    const from = x(s.start_ns - start), to = x((s.end_ns ?? DATA.end_ns) - start);
    const cause = s.straggler?.cause;
    const bar = svg("rect", { x: from, y: top + gap, width: Math.max(to - from, 1), height: tall - 2 * gap, fill: CAUSES[cause] ?? "#c3cbd5" });
    const last = s.straggler ? `last: flow ${s.straggler.flow}, ${cause === "none" ? "not late" : `late by ${time(s.straggler.late_ns)} (${cause}, ${s.straggler.host})`}` : "has not ended";
    bar.addEventListener("mousemove", (event) => tip(event, [[`step ${s.step}: ${count(s.messages)} messages`],
      [s.end_ns === null ? `from ${time(s.start_ns)}` : `${time(s.start_ns)} to ${time(s.end_ns)}: ${time(s.end_ns - s.start_ns)}`], [last, CAUSES[cause]]]));
    bar.addEventListener("mouseleave", (event) => tip(event, null));
    root.append(bar);
  });
  const there = new Set(list.map((s) => s.straggler?.cause ?? "not ended"));
  const box = element("div", undefined, "legend");
  for (const [name, colour] of [...Object.entries(CAUSES), ["not ended", "#c3cbd5"]].filter(([name]) => there.has(name))) {
    const item = element("span"), dash = element("i");
    dash.style.background = colour;
    item.append(dash, name);
    box.append(item);
  }
  holder.append(box);
}

function orders() {
  $("orders-box").hidden = DATA.orders.length === 0;
  $("orders-note").textContent = (DATA.orders.length < DATA.orders_total ? `the first ${DATA.orders.length} of ${count(DATA.orders_total)}; ` : "") + "numbers are those of the dashed lines below";
  let nth = 0;
  table("orders", [["", ""], ["At", ""], ["Order", "text"], ["Queue pairs", "text"], ["Rate after", "text"], ["Not carried out", "text"]],
    ORDERS.map((o) => ({ alarm: o.refused !== null, cells: [o.at === null ? "" : String(++nth), time(o.planned), o.order,
      o.pairs === 0 ? "–" : o.listed.join(", ") + (o.pairs > o.listed.length ? ` and ${count(o.pairs - o.listed.length)} more` : ""),
      o.rates === null ? "–" : o.rates[0] === o.rates[1] ? rate(o.rates[0]) : `${rate(o.rates[0])} to ${rate(o.rates[1])}`, o.refused ?? ""] })), "");
}

function pauses() {
  const holder = $("pauses");
  holder.replaceChildren();
  $("pauses-note").textContent = T.pauses.length === 0 ? "" : "a bar: the port of a switch or of a host holds its peer back"
    + (T.pauses_left_out > 0 ? `; ${count(T.pauses_left_out)} more are neither shown nor in the sums of the bars` : "");
  if (T.pauses.length === 0) return nothing(holder, DATA.level !== "flow" ? "Nobody held its peer back." : "There are no pauses at flow level.");
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
    // Of a part of them nothing can be said about the run.
    const sum = T.pauses_left_out > 0 ? `${count(row.spans.length)} of its pauses are shown, ${time(row.total)} together` : `${count(row.spans.length)} pauses, ${time(row.total)} in all: ${share} % of the run`;
    bars.addEventListener("mousemove", (event) => tip(event, [[key], [sum]]));
    bars.addEventListener("mouseleave", (event) => tip(event, null));
    root.append(bars);
  });
  moments(root, x, height - BOTTOM, MARKS);
  if (rows.size > listed.length) holder.append(element("div", `${rows.size - listed.length} more ports paused for a shorter time${T.pauses_left_out > 0 ? ", as far as their pauses are shown" : ""}.`, "empty"));
}

function head() {
  const s = DATA.summary;
  $("name").textContent = DATA.name;
  $("identity").textContent = `weir ${DATA.weir} · profile ${DATA.profile} · seed ${DATA.seed} · config ${DATA.config}`;
  const lost = s.frames_dropped + s.frames_lost, open = s.flows_finite - s.flows_done;
  const bad = DATA.conservation_error > 0 ? "frames unaccounted for" : DATA.stopped ? "stopped before its end" : DATA.deadlock.length > 0 ? "deadlock" : s.findings.length > 0 && s.frames_dropped > 0 ? count(s.frames_dropped) + " frames dropped"
    : open > 0 ? count(open) + " flows not delivered" : s.findings[0] ?? "";
  $("verdict").textContent = bad || (lost ? count(lost) + " frames lost, recovered" : "nothing lost");
  if (bad) $("verdict").classList.add("bad");
  const figures = [
    [time(DATA.end_ns), "virtual time"],
    [`${count(s.flows_done)} / ${count(s.flows_finite)}`, "flows delivered", open > 0],
    [s.fct_ns ? time(s.fct_ns.p50) : "–", "FCT p50"],
    [s.fct_ns ? time(s.fct_ns.p99) : "–", "FCT p99"],
    [s.slowdown_milli ? milli(s.slowdown_milli.p99) : "–", "slowdown p99"],
  ];
  if (DATA.level !== "flow") figures.push(
    [count(s.frames_sent), "frames sent, once per link"],
    [count(s.frames_dropped), "dropped", s.frames_dropped > 0],
    [count(s.frames_lost), "lost on links"],
    [count(s.pfc_pauses), s.host_pfc_frames ? "pause frames of switches" : "pause frames"],
    ...(s.host_pfc_frames ? [[count(s.host_pfc_frames), "PFC frames of hosts"]] : []),
    [count(s.ecn_marks), "marks"],
    [bytes(s.queue_max_bytes), "longest queue"],
    [bytes(s.headroom_peak_bytes), "headroom used"],
  );
  else figures.push(["flows", "level"], [count(DATA.links_total), "bottlenecks"]);
  $("figures").replaceChildren(...figures.map(([value, name, alarm]) => {
    const box = element("div", undefined, alarm ? "alarm" : "");
    box.append(element("b", value), element("span", name));
    return box;
  }));
  const early = DATA.stopped ? [DATA.stopped[0].toUpperCase() + DATA.stopped.slice(1) + "."] : [];
  $("why").replaceChildren(...[...early, ...DATA.why].map((sentence) => element("li", sentence)));
  $("why-box").hidden = DATA.why.length === 0;
}

function ports() {
  $("ports-note").textContent = DATA.ports.length < DATA.ports_total ? `${DATA.ports.length} of ${count(DATA.ports_total)}, the busiest` : "";
  const sum = (drops) => Object.values(drops).reduce((a, b) => a + b, 0);
  const pooled = DATA.ports.some((row) => row.headroom_pool);
  const pool = (of) => !pooled ? [] : of ? [bytes(of.peak), bytes(of.size)] : ["–", "–"];
  table("ports", [["Switch", "text"], ["Port", ""], ["To", "text"], ["In", ""], ["Out", ""], ["Longest queue", ""], ["Mean queue", ""], ["Marked", ""],
    ["XOFF sent", ""], ["PFC heard", ""], ["Held back", ""], ["Headroom used", ""], ["of", ""],
    ...(pooled ? [["Pool used", ""], ["of", ""]] : []), ["Dropped", ""]],
  DATA.ports.map(({ switch: name, headroom_pool: of, port: p }) => ({ alarm: sum(p.drops) > 0, cells: [name, String(p.port), p.peer, count(p.rx_frames), count(p.tx_frames),
    bytes(p.queue_max), bytes(p.queue_mean), count(p.marked), count(p.pfc_tx_xoff), count(p.pfc_rx), time(p.rx_paused_ns), bytes(p.headroom_peak),
    bytes(p.headroom), ...pool(of), sum(p.drops) === 0 ? "0" : Object.entries(p.drops).map(([why, n]) => `${count(n)} ${why}`).join(", ")] })), "no switch");
}

/// At flow level, in place of ports.
function bottlenecks() {
  $("ports-name").textContent = "Bottlenecks";
  $("ports-note").textContent = (DATA.links.length < DATA.links_total ? `${DATA.links.length} of ${count(DATA.links_total)}; ` : "") + "links that several flows share, by the time in which they held one back";
  table("ports", [["From", "text"], ["To", "text"], ["Rate", ""], ["Bytes", ""], ["Busy", ""], ["Bottleneck", ""]],
    DATA.links.map((l) => ({ alarm: false, cells: [l.from, l.to, rate(l.rate_bps), bytes(l.bytes), (l.busy_milli / 10).toFixed(1) + " %", (l.bottleneck_milli / 10).toFixed(1) + " %"] })),
    "no link was shared");
}

function tables() {
  table("classes", [["Size", "text"], ["Flows", ""], ["p50", ""], ["p99", ""], ["max", ""], ["slow p50", ""], ["slow p99", ""], ["slow max", ""]],
    DATA.classes.map(({ name, fct, slow }) => ({ cells: [name, count(fct.count), time(fct.p50), time(fct.p99), time(fct.max),
      milli(slow.p50), milli(slow.p99), milli(slow.max)] })), "no flow was delivered");
  if (DATA.level !== "flow") ports();
  else bottlenecks();
  $("hosts-box").hidden = DATA.hosts.length === 0;
  const sends = DATA.hosts.some((h) => h.pfc_tx > 0);
  table("hosts", [["Host", "text"], ...(sends ? [["PFC frames sent", ""]] : []), [sends ? "PFC frames heard" : "PFC frames", ""], ["Pauses", ""], ["Held back", ""], ["Share of the run", ""]],
    DATA.hosts.map((h) => {
      const held = Math.max(...h.paused_ns);
      return { cells: [h.name, ...(sends ? [count(h.pfc_tx)] : []), count(h.pfc_rx), count(h.pauses.reduce((a, b) => a + b, 0)), time(held), ((held / DATA.end_ns) * 100).toFixed(1) + " %"] };
    }), "");
  $("flows-note").textContent = DATA.flows.length < DATA.flows_total ? `the ${DATA.flows.length} slowest of ${count(DATA.flows_total)}` : "slowest first";
  table("flows", [["Flow", ""], ["From", "text"], ["To", "text"], ["Size", ""], ["Start", ""], ["Completion", ""], ["Slowdown", ""], ["Resent", ""], ["Marked", ""], ["CNPs", ""]],
    DATA.flows.map((f) => ({ alarm: f.bytes !== null && f.fct === null, cells: [String(f.id), f.from, f.to, f.bytes === null ? "endless" : bytes(f.bytes), time(f.start),
      f.fct === null ? "–" : time(f.fct), milli(f.slow), count(f.resent), count(f.marked), count(f.cnps)] })), "no flow");
}

const PARTS = { serialization: PALETTE[0], queue: PALETTE[1], pause: PALETTE[3], propagation: PALETTE[4], ingress: PALETTE[2], crossbar: PALETTE[6], egress: PALETTE[5], tx: PALETTE[7], rx: PALETTE[15] };
const pico = (ps) => scaled(ps, [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]]);

function latencyTable() {
  const all = DATA.latency;
  ["latency-box", "latency-cdf-box", "latency-table-box"].forEach((id) => { $(id).hidden = all === null; });
  if (all === null) return;
  $("latency-note").textContent = "mean time of a frame: end to end, and on each leg, a node and the line it sends on"
    + (all.legs.length < all.legs_total ? `; the ${all.legs.length} legs of ${count(all.legs_total)} where most time went` : "");
  const row = (name, frames, d) => ({ cells: [name, frames, ...[d.mean, d.p50, d.p90, d.p99, d.p999, d.max].map(pico)] });
  table("latency", [["Frames", "text"], ["Count", ""], ["Mean", ""], ["p50", ""], ["p90", ""], ["p99", ""], ["p99.9", ""], ["Max", ""]],
    [...all.end_to_end, ...all.legs].filter((of) => of.frames > 0).flatMap((of) => [row(of.name, count(of.frames), of.total),
      ...of.parts.map(([part, d]) => row(`\u2003${part}`, "", d))]), "no frame has arrived");
}

/// A bar for all data frames, for all others and for each leg, as long as the mean frame took, of a piece for each part.
function latencySplit() {
  const holder = $("latency-split");
  holder.replaceChildren();
  const rows = [...DATA.latency.end_to_end, ...DATA.latency.legs].filter((of) => of.frames > 0);
  if (rows.length === 0) return nothing(holder, "No frame has arrived.");
  const tall = 17;
  const { root, x } = frame(holder, TOP + BOTTOM + rows.length * tall, Math.max(1, ...rows.map((of) => of.total.mean)), 1, pico, null);
  rows.forEach((of, i) => {
    const top = TOP + i * tall;
    const name = svg("text", { x: LEFT - 6, y: top + 12, "text-anchor": "end", class: "label" }, of.name.length > 16 ? of.name.slice(0, 15) + "…" : of.name);
    name.append(svg("title", {}, of.name));
    root.append(name);
    let from = 0;
    for (const [part, d] of of.parts) {
      const piece = svg("rect", { x: x(from), y: top + 2, width: Math.max(x(from + d.mean) - x(from), 0), height: tall - 4, fill: PARTS[part] });
      piece.addEventListener("mousemove", (event) => tip(event, [[`${of.name}: ${count(of.frames)} frames, mean ${pico(of.total.mean)}, p99 ${pico(of.total.p99)}`],
        [`${part}: mean ${pico(d.mean)}, p50 ${pico(d.p50)}, p99 ${pico(d.p99)}, max ${pico(d.max)}`, PARTS[part]]]));
      piece.addEventListener("mouseleave", (event) => tip(event, null));
      root.append(piece);
      from += d.mean;
    }
  });
  const box = element("div", undefined, "legend");
  const there = new Set(rows.flatMap((of) => of.parts.map(([part]) => part)));
  for (const part of Object.keys(PARTS).filter((part) => there.has(part))) {
    const item = element("span"), dash = element("i");
    dash.style.background = PARTS[part];
    item.append(dash, part);
    box.append(item);
  }
  holder.append(box);
}

function latencyCdf() {
  const all = DATA.latency.end_to_end.filter((of) => of.frames > 0);
  const marks = (of) => (all.length > 1 ? [] : [["p50", of.total.p50, 500, "#009e73"], ["p99", of.total.p99, 990, "#d55e00"]]);
  distributions("latency-cdf", all.map((of) => ({ name: of.name, points: of.cdf, marks: marks(of) })), pico, "No frame has arrived.");
}

/// Series of one period.
const timed = (series, period) => series.map((s) => ({ ...s, period }));

function cdf() {
  const fct = DATA.summary.fct_ns;
  const marks = fct ? [["p50", fct.p50, 500, "#009e73"], ["p99", fct.p99, 990, "#d55e00"]] : [];
  distributions("cdf", [{ name: "", points: DATA.cdf, marks }], time, "No flow was delivered.");
}

head();
collectives();
orders();
tables();
latencyTable();
keepDrawn(() => {
  if (DATA.collectives.length > 0) steps();
  lines("depths", DATA.end_ns, timed(T.depths, T.period_ns), bytes, DATA.level !== "flow" ? "Nothing waited." : "There are no queues at flow level.", MARKS);
  pauses();
  lines("rates", DATA.end_ns, timed(T.rates, T.rate_period_ns), rate, "Nothing was delivered.", MARKS);
  cdf();
  if (DATA.latency !== null) {
    latencySplit();
    latencyCdf();
  }
});
