"""Results as pandas tables: of folders that `weir sim sweep` or `weir sim FILE --out` wrote.

Every table of several runs begins with what tells the runs apart: `run`, the folder, and of a sweep one column for each axis.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from weir_sim.plan import WeirError, call

Folders = Iterable[str | os.PathLike[str]]

#: Which runs have nothing in a table.
WITHOUT = {"ports.csv": 'those at level "flow" have none', "collectives.csv": "those without a collective have none"}

_log = logging.getLogger("weir_sim")


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A table that weir wrote: lines that begin with `#` stand before the names of the columns."""
    with open(path, encoding="utf-8") as file:
        about = 0
        while file.readline().startswith("#"):
            about += 1
    return pd.read_csv(path, skiprows=about, keep_default_na=False, na_values=[""])


def read_table(path: Path) -> pd.DataFrame | None:
    """A table that weir wrote, in the file of this name or, as Parquet, in the one that ends with `.parquet`; None: there is neither."""
    columns = path.with_suffix(".parquet")
    if columns.exists():
        try:
            return pd.read_parquet(columns)
        except ImportError as error:
            raise WeirError(f"{columns}: Parquet needs pyarrow: pip install 'contrib/python[parquet]' of weir's sources") from error
    return read_csv(path) if path.exists() else None


def points(folder: str | os.PathLike[str], *, weir: str = "weir") -> pd.DataFrame:
    """A row for each point of a sweep that has a result: axes, figures, `point` (its number), `address`, and `error`.

    Raises WeirError: what `weir sim merge` says of the folder.
    """
    with tempfile.TemporaryDirectory() as beside:
        table = os.path.join(beside, "points.csv")
        call(weir, ["sim", "merge", os.fspath(folder), "--csv", table], good=(0, 1))
        return read_csv(table)


def axes(folder: str | os.PathLike[str]) -> list[str]:
    """Keys of the axes of a sweep; none of a single run."""
    described = Path(folder, "plan.json")
    return list(json.loads(described.read_text(encoding="utf-8"))["axes"]) if described.exists() else []


def settings(table: pd.DataFrame, folders: Folders) -> list[str]:
    """Columns by which the runs of `table` differ, but for the seed: what a plot gives one colour each."""
    keys = ["run", *dict.fromkeys(key for folder in folders for key in axes(folder) if key != "seed")]
    columns = [f"axis {key}" if f"axis {key}" in table else key for key in keys]
    return [column for column in columns if column in table and table[column].nunique(dropna=False) > 1]


def _played(folder: Path, weir: str) -> list[dict[Hashable, Any]]:
    """Rows of the points of a sweep that were played; those that are broken are logged. Raises WeirError: there is none."""
    rows = points(folder, weir=weir).to_dict("records")
    if not rows:
        raise WeirError(f"{folder}: no point of the sweep has a result yet")
    broken = [row for row in rows if isinstance(row["error"], str)]
    if broken:
        said = f"{folder}: {len(broken)} of {len(rows)} points are broken, point {broken[0]['point']} by: {broken[0]['error']}"
        if len(broken) == len(rows):
            raise WeirError(said)
        _log.warning("left out: %s", said)
    return [row for row in rows if not isinstance(row["error"], str)]


def _runs(folders: Folders, weir: str) -> Iterator[tuple[dict[str, object], Path]]:
    """What tells a run from the others, and the folder of its tables."""
    for folder in map(Path, folders):
        run: dict[str, object] = {"run": str(folder)}
        if (folder / "plan.json").exists():
            keys = axes(folder)
            for row in _played(folder, weir):
                yield run | {key: row[key] for key in keys}, folder / str(row["address"])
        elif any((folder / name).exists() for name in ("flows.csv", "flows.parquet")):
            yield run, folder
        else:
            raise WeirError(f"{folder}: neither plan.json nor a table of flows is in it; give a folder that weir sim has written")


def _table(name: str, folders: Folders, weir: str) -> pd.DataFrame:
    tables = [(run, read_table(folder / name)) for run, folder in _runs(folders, weir)]
    found = [(run, table) for run, table in tables if table is not None]
    if not found:
        without = f"{WITHOUT[name]}; " if name in WITHOUT else ""
        raise WeirError(f"there is no {name} in these folders: {without}sweep with --keep tables, or another file of a fabric")
    if lacking := sum(table is None or table.empty for _, table in tables):
        _log.warning("%d of %d runs have no rows in %s: %s", lacking, len(tables), name, WITHOUT.get(name, "sweep with --keep tables"))
    # An axis may be called like a column that some of the tables have.
    taken = {column for _, table in found for column in table.columns}
    for run, table in found:
        for at, (key, value) in enumerate(run.items()):
            table.insert(at, f"axis {key}" if key in taken else key, value)  # type: ignore[arg-type]
    return _together(found)


def _together(found: Sequence[tuple[dict[str, object], pd.DataFrame]]) -> pd.DataFrame:
    """Tables of runs, each of which begins with what tells it apart: so does the whole, also where runs have other axes."""
    first = dict.fromkeys(column for run, table in found for column in table.columns[: len(run)])
    table = pd.concat([table for _, table in found], ignore_index=True)
    return table[[*first, *(column for column in table.columns if column not in first)]]


def flows(*folders: str | os.PathLike[str], weir: str = "weir") -> pd.DataFrame:
    """A row for each flow: `bytes`, `start_ns`, `fct_ns`, `ideal_ns` and so on, and `slowdown`, fct_ns / ideal_ns."""
    table = _table("flows.csv", folders, weir)
    table["slowdown"] = table["fct_ns"] / table["ideal_ns"]
    return table


def ports(*folders: str | os.PathLike[str], weir: str = "weir") -> pd.DataFrame:
    """A row for each port of each switch, with `tx_paused_share`: the part of the run in which it held its peer back, 0 to 1.

    Without a value where the run does not tell: of profile `ns3-hpcc`.
    """
    table = _table("ports.csv", folders, weir)
    table["tx_paused_share"] = table["tx_paused_ns"] / table["end_ns"]
    return table


def collectives(*folders: str | os.PathLike[str], weir: str = "weir") -> pd.DataFrame:
    """A row for each collective: `collective` (its number in the run), `kind`, `ranks`, `bytes`, `time_ns`, `algbw_bytes_per_s`, `busbw_bytes_per_s`."""
    table = _table("collectives.csv", folders, weir)
    # The file has a line for each step.
    steps = ["step", "messages", "start_ns", "end_ns", "straggler", "cause", "late_ns"]
    once = table.columns.get_loc("step")
    assert isinstance(once, int)
    of_step = table.columns[once:]
    assert set(steps) <= set(of_step)
    return table.drop(columns=of_step).drop_duplicates(ignore_index=True)


def queues(*folders: str | os.PathLike[str], weir: str = "weir") -> pd.DataFrame:
    """A row for each instant or interval: `at_ns`, `interval_ns`, `bytes`, and `kind`.

    With `sample` in the fabric file: `sampled`, bytes in the fullest port of all switches at that instant, and the time since
    the one before. Else `peak`, the longest queue of any port within the interval that begins then, and its length, which is
    by that of the run. Needs report.json: `--keep report` of a sweep. Runs at level "flow" have no queues.
    """
    found, runs = [], 0
    for run, folder in _runs(folders, weir):
        runs += 1
        path = folder / "report.json"
        if not path.exists():
            raise WeirError(f"{path} is not there: sweep with --keep report")
        report = json.loads(path.read_text(encoding="utf-8"))
        if report.get("level") == "flow":
            continue
        if samples := report["samples"]:
            kind, begins = "sampled", [sample["at_ns"] for sample in samples]
            lengths = [now - before for before, now in zip([0, *begins], begins, strict=False)]
            longest = [max(sample["queues"], default=0) for sample in samples]
        else:
            kind, period, end = "peak", report["timeline"]["period_ns"], report["end_ns"]
            # It is empty where nothing ever waited.
            longest = report["timeline"]["depth_max"] or [0] * (end // period + 1)
            begins = [k * period for k in range(len(longest))]
            lengths = [min(period, end - begin) for begin in begins]
        table = pd.DataFrame({"kind": kind, "at_ns": begins, "interval_ns": lengths, "bytes": longest})
        for at, (key, value) in enumerate(run.items()):
            table.insert(at, key, value)  # type: ignore[arg-type]
        found.append((run, table))
    if not found:
        raise WeirError('there are no queues in these folders: runs at level "flow" have none')
    if runs > len(found):
        _log.warning('%d of %d runs have no queues: those at level "flow"', runs - len(found), runs)
    return _together(found)
