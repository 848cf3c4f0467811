// The page of a comparison.

const times = (n) => scaled(n / 1000, [[1, "×"]]);
const share = (ppm) => `${Number((ppm / 1e4).toPrecision(3))}\u202f%`;
const NONE = "Nothing was kept of these but figures: sweep with --keep tables.";
const NO_QUEUES = "Reports of runs with frames have queues, and there is none of these: sweep with --keep report.";
const NO_PAUSES = "No port of any switch held its peer back.";
const UNTOLD = "Runs at level flow and of profile ns3-hpcc do not tell how long ports held their peers back.";

/// A figure with its digits in groups; a difference whose interval leaves 0 out stands out.
function cell(text) {
  const [, percent, half] = text.match(/^([+-][\d.]+) ± ([\d.]+) %$/) ?? [];
  if (half !== undefined && Math.abs(percent) > Number(half)) return element("b", text);
  return /^\d+(\.\d+)?$/.test(text) ? text.replace(/^\d+/, grouped) : text;
}

$("legend").replaceChildren(...DATA.legend.map((line, i) => {
  const item = element("li"), dot = element("i");
  dot.style.background = PALETTE[i % PALETTE.length];
  item.append(dot, line);
  return item;
}));
$("notes").replaceChildren(...DATA.notes.map((line) => element("li", line)));
if (DATA.queues_period_ns) $("interval").textContent = time(DATA.queues_period_ns);
$("notes-box").hidden = DATA.notes.length === 0;
table("rows", DATA.heads.map((head, i) => [head, i === 0 ? "text" : ""]), DATA.rows.map((cells) => ({ cells: cells.map(cell) })), "");
keepDrawn(() => {
  const series = (key) => DATA.sides.map((side) => ({ name: side.name, points: side[key] }));
  distributions("fct", series("fct"), time, NONE);
  distributions("slowdown", series("slowdown"), times, NONE);
  const paused = series("paused"), ports = paused.flatMap((side) => side.points);
  const idle = ports.length > 0 && ports.every(([ppm]) => ppm === 0);
  const untold = DATA.sides.some((side) => side.kept && side.paused.length === 0);
  const why = [idle ? NO_PAUSES : untold ? "" : NONE, untold ? UNTOLD : ""].filter((text) => text).join(" ");
  distributions("paused", idle ? [] : paused, share, why);
  const depths = DATA.sides.map(({ name, depths }) => ({ name, values: depths?.values ?? [], period: depths?.period_ns ?? 1 }));
  lines("depths", DATA.depths_end_ns, depths, bytes, NO_QUEUES);
  distributions("queues", series("queues"), bytes, NO_QUEUES);
});
