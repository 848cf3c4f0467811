// The page of a comparison.

const list = (id, lines) => $(id).replaceChildren(...lines.map((line) => element("li", line)));
const times = (n) => scaled(n / 1000, [[1, "×"]]);
const share = (ppm) => scaled(ppm / 1e4, [[0, "%"]]);
const NONE = "Nothing was kept of these but figures: sweep with --keep tables.";
const NO_QUEUES = "Reports have queues, and there is none of these: sweep with --keep report.";

list("legend", DATA.legend);
list("notes", DATA.notes);
$("notes-box").hidden = DATA.notes.length === 0;
table("rows", DATA.heads.map((head, i) => [head, i === 0 ? "text" : ""]), DATA.rows.map((cells) => ({ cells })), "");
keepDrawn(() => {
  const series = (key) => DATA.sides.map((side) => ({ name: side.name, points: side[key] }));
  distributions("fct", series("fct"), time, NONE);
  distributions("slowdown", series("slowdown"), times, NONE);
  distributions("paused", series("paused"), share, NONE);
  const depths = DATA.sides.filter((side) => side.period_ns > 0).map((side) => ({ name: side.name, values: side.depths, period: side.period_ns }));
  lines("depths", DATA.end_ns, depths, bytes, NO_QUEUES);
  distributions("queues", series("queues"), bytes, NO_QUEUES);
});
