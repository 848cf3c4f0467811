"""Plots that are published of lossless fabrics. Each takes a table of `results` and gives a matplotlib figure.

`by` names the columns that tell settings apart: each combination of their values has a colour, and from the ninth on a colour
with another mark or line. Raises ValueError: more settings than can be told apart.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, NullFormatter, NullLocator

from weir_sim.labels import labels

#: Okabe and Ito, as on the pages of weir.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7a5195", "#8c6d31"]
#: Marks, with their sizes in points, and lines: of the first settings, one for each colour, of the next ones and so on.
STYLES = [("o", 3, "-"), ("^", 5, "--"), ("x", 5, ":")]
#: A legend of more entries, or with longer ones, in characters, stands below the axes.
ENTRIES, ENTRY = 8, 40
#: More sizes than this are put into so many groups with the same number of flows.
SIZES = 12

_log = logging.getLogger("weir_sim")


def _figure(x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True, color="#d8dee6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


@dataclass(frozen=True)
class _Setting:
    label: str
    rows: pd.DataFrame
    colour: str
    marker: str
    #: In points.
    marker_size: int
    line: str


def _settings(table: pd.DataFrame, by: Sequence[str]) -> list[_Setting]:
    """The rows of each setting, and how they are drawn. Styles begin anew after all have been used."""
    groups = list(table.groupby(list(by), sort=True, dropna=False)) if by else [((), table)]
    names = labels(table, by, [values for values, _ in groups]) if by else [""]
    found = []
    for i, (name, (_, rows)) in enumerate(zip(names, groups, strict=True)):
        marker, size, line = STYLES[i // len(COLOURS) % len(STYLES)]
        found.append(_Setting(name, rows, COLOURS[i % len(COLOURS)], marker, size, line))
    return found


def _lines(table: pd.DataFrame, by: Sequence[str]) -> list[_Setting]:
    """The same where the style alone tells them apart. Raises ValueError: they are too many for that."""
    found, most = _settings(table, by), len(COLOURS) * len(STYLES)
    if len(found) > most:
        remedy = "name the columns that are to have colours of their own (--by COLUMN), or give fewer folders"
        raise ValueError(f"{len(found)} settings, and {most} at most can be told apart: {remedy}")
    return found


def _legend(figure: Figure, axes: Axes, more: Sequence[Line2D] = ()) -> None:
    handles, names = axes.get_legend_handles_labels()
    named = [handle for handle, name in zip(handles, names, strict=True) if name]
    if not (entries := [*named, *more]):
        return
    longest = max(len(str(entry.get_label())) for entry in entries)
    if len(named) <= ENTRIES and longest <= ENTRY:
        axes.legend(handles=entries, frameon=False, fontsize=8)
        return
    texts = [textwrap.fill(str(entry.get_label()), 85) for entry in entries]
    columns = max(1, min(3, 96 // (longest + 8)))
    # A line is 0.17 inches high.
    lines = sum(1 + text.count("\n") for text in texts) / columns
    figure.set_figheight(figure.get_figheight() + 0.17 * (lines + 1))
    figure.legend(entries, texts, frameon=False, fontsize=8, loc="outside lower center", ncols=columns)


def _size_axis(axes: Axes, sizes: Sequence[float]) -> None:
    """A logarithmic axis of bytes with a tick at each of `sizes`, as far as there is room."""
    axes.set_xscale("log")
    ticks: list[float] = []
    low, high = min(sizes), max(sizes)
    room = np.log(max(high / low, 2.0)) / 9
    for size in sorted(sizes):
        if not ticks or np.log(size / ticks[-1]) >= room:
            ticks.append(size)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _size(size)))


def _size(size: float) -> str:
    """In KiB and so on where it is a whole number of them, else in kB and so on with two digits at least."""
    for unit, power in [("GiB", 30), ("MiB", 20), ("KiB", 10)]:
        if size >= 1 << power and size % (1 << power) == 0:
            return f"{size / (1 << power):g} {unit}"
    power = min(3, int(np.log10(max(size, 1)) // 3))
    value = size / 1000**power
    return f"{value:.2g} {['B', 'kB', 'MB', 'GB'][power]}" if value < 100 else f"{value:.0f} {['B', 'kB', 'MB', 'GB'][power]}"


def _by_size(sizes: pd.Series[float]) -> pd.Series[float]:
    """The size each flow is drawn at: its own, or the median of its group."""
    if sizes.nunique() <= SIZES:
        return sizes
    groups = pd.qcut(sizes.rank(method="first"), SIZES, labels=False)
    return sizes.groupby(groups).transform("median")


def fct_slowdown(flows: pd.DataFrame, by: Sequence[str] = ()) -> Figure:
    """Completion time over that of the same flow alone, by size: median and 99th percentile of the flows that were delivered."""
    figure, axes = _figure("flow size", "FCT slowdown")
    done = flows.dropna(subset=["slowdown", "bytes"])
    drawn: list[float] = []
    for of in _lines(done, by):
        sizes = _by_size(of.rows["bytes"].astype(float))
        groups = of.rows["slowdown"].groupby(sizes)
        p50, p99 = groups.quantile(0.5), groups.quantile(0.99, interpolation="higher")
        axes.plot(p50.index, p50, color=of.colour, marker=of.marker, markersize=of.marker_size, label=of.label)
        axes.plot(p99.index, p99, color=of.colour, marker=of.marker, markersize=of.marker_size, linestyle="--")
        drawn += [float(size) for size in p50.index]
    if drawn:
        _size_axis(axes, drawn)
    axes.set_ylim(bottom=1)
    if len(done) and done["slowdown"].quantile(0.99) > 20:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    solid, dashed = Line2D([], [], color="#5b6675", label="p50"), Line2D([], [], color="#5b6675", linestyle="--", label="p99")
    _legend(figure, axes, [solid, dashed])
    return figure


def _widened(peaks: pd.DataFrame, interval_ns: int) -> pd.DataFrame:
    """Peaks within intervals of this length in every run: within a longer one a peak is larger by itself."""
    runs = [peaks[column] for column in peaks.columns.difference(["at_ns", "interval_ns", "bytes"])]
    intervals = peaks.groupby([*runs, peaks["at_ns"] // interval_ns], dropna=False)
    return intervals.agg({"interval_ns": "sum", "bytes": "max"}).reset_index()


def queue_cdf(queues: pd.DataFrame, by: Sequence[str] = ()) -> Figure:
    """In which part of the run a queue was at most so long. Each row counts for as long as its interval is."""
    what, peak = {"sampled": "fullest port, sampled"}, queues["kind"] == "peak"
    if peak.any():
        interval_ns = int(queues.loc[peak, "interval_ns"].max())
        what["peak"] = f"longest queue within each {EngFormatter(unit='s')(interval_ns / 1e9)}"
        queues = pd.concat([_widened(queues[peak], interval_ns), queues[~peak]])
    kinds = [what[kind] for kind in queues["kind"].unique()]
    if len(kinds) > 1:
        by = ["kind", *by]
    figure, axes = _figure(f"{'queue' if len(kinds) > 1 else kinds[0]}, bytes", "share of the run")
    for of in _lines(queues.replace({"kind": what}), by):
        rows = of.rows.sort_values("bytes")
        values, length = rows["bytes"].to_numpy(), rows["interval_ns"].to_numpy()
        share = length.cumsum() / length.sum()
        steps = np.concatenate([values[:1], values]), np.concatenate([[0.0], share])
        axes.step(*steps, where="post", color=of.colour, linestyle=of.line, label=of.label)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(unit="B"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0%}"))
    _legend(figure, axes)
    return figure


def pause_share(ports: pd.DataFrame, by: Sequence[str] = ()) -> Figure:
    """Part of the run in which ports of switches held their peers back: the mean of all ports, and the port with the most.

    Raises ValueError: no run tells.
    """
    if ports["tx_paused_share"].isna().all():
        raise ValueError('no run tells how long its ports paused: those of profile "ns3-hpcc" and those at level "flow" do not')
    measures = [(of, of.rows["tx_paused_share"].dropna()) for of in _settings(ports, by)]
    found = [(of, shares) for of, shares in measures if len(shares)]
    if silent := [of.label for of, shares in measures if shares.empty]:
        _log.warning('left out, since runs of profile "ns3-hpcc" do not tell how long ports paused: %s', "; ".join(silent))
    figure, axes = _figure("share of the run in which ports held their peers back", "")
    names = [textwrap.fill(of.label, ENTRY) or "all ports" for of, _ in found]
    # A character is 0.085 inches wide; a dozen have room.
    widest = max(len(line) for name in names for line in name.splitlines())
    figure.set_size_inches(6.4 + 0.085 * max(0, widest - 12), 1.2 + 0.5 * len(found))
    for at, (of, shares) in enumerate(found):
        mean, most = float(shares.mean()), float(shares.max())
        axes.barh(at, mean, color=of.colour, height=0.6)
        axes.plot([mean, most], [at, at], color=of.colour, linewidth=1)
        axes.plot(most, at, color=of.colour, marker="D", markersize=5, linestyle="none")
    axes.set_yticks(range(len(found)), names)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.3g}%"))
    grey = "#5b6675"
    mean_mark = Line2D([], [], color=grey, linewidth=6, label="mean of ports")
    most_mark = Line2D([], [], color=grey, marker="D", markersize=5, linestyle="none", label="most of a port")
    figure.legend(handles=[mean_mark, most_mark], frameon=False, fontsize=8, loc="outside upper center", ncols=2)
    return figure


def busbw(collectives: pd.DataFrame, by: Sequence[str] = ()) -> Figure:
    """Bus bandwidth, as nccl-tests defines it, over the size: the mean over seeds, and over what one workload does again.

    Collectives of several kinds or numbers of ranks are settings of their own, and so are those of several workloads of a run
    where they have one size.
    """
    figure, axes = _figure("message size", "busbw, GB/s")
    measured = collectives.dropna(subset=["busbw_bytes_per_s", "bytes"])
    drawn: list[float] = []
    for of in _lines(measured, _jobs(measured, by)):
        speed = of.rows["busbw_bytes_per_s"].groupby(of.rows["bytes"]).mean() / 1e9
        axes.plot(speed.index, speed, color=of.colour, marker=of.marker, markersize=of.marker_size + 1, label=of.label)
        drawn += [float(size) for size in speed.index]
    if drawn:
        _size_axis(axes, drawn)
    axes.set_ylim(bottom=0)
    _legend(figure, axes)
    return figure


def _jobs(collectives: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """`by`, and what tells collectives apart beyond it."""
    kinds = ["kind"] if collectives["kind"].nunique() > 1 else []
    # The key that sets the kind says nothing beyond it.
    columns = [*kinds, *(key for key in by if not kinds or collectives.groupby("kind")[key].nunique().max() > 1)]
    for column, of_one in [("ranks", []), ("workload", ["bytes"])]:
        together = [*columns, *of_one]
        groups = len(collectives.drop_duplicates(together)) if together else 1
        if len(collectives.drop_duplicates([*together, column])) > groups:
            columns.append(column)
    return columns
