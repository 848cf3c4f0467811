// The page of one run.

const T = DATA.timeline;

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

/// Series of one period.
const timed = (series, period) => series.map((s) => ({ ...s, period }));

function cdf() {
  const fct = DATA.summary.fct_ns;
  const marks = fct ? [["p50", fct.p50, 500, "#009e73"], ["p99", fct.p99, 990, "#d55e00"]] : [];
  distributions("cdf", [{ name: "", points: DATA.cdf, marks }], time, "No flow was delivered.");
}

head();
tables();
keepDrawn(() => {
  lines("depths", DATA.end_ns, timed(T.depths, T.period_ns), bytes, "Nothing waited.");
  pauses();
  lines("rates", DATA.end_ns, timed(T.rates, T.rate_period_ns), rate, "Nothing was delivered.");
  cdf();
});
