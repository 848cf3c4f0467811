"""Tables and plots of results: numbers as weir wrote them, and pictures with something in them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from conftest import sweep

from weir_sim import WeirError, collectives, flows, plots, points, ports, queues, results
from weir_sim.__main__ import main


@pytest.fixture
def out(weir: str, plan: Path, tmp_path: Path) -> Path:
    sweep(weir, plan, tmp_path / "out", "--keep", "report")
    return tmp_path / "out"


def test_tables_have_what_weir_wrote(weir: str, out: Path) -> None:
    figures = points(out, weir=weir)
    assert list(figures["point"]) == list(range(12)) and figures["error"].notna().sum() == 4
    table = flows(out, weir=weir)
    # A ring of 4 ranks: 6 steps of 4 messages, in each of the 8 points that could be played.
    assert len(table) == 8 * 24
    assert list(table.columns[:4]) == ["run", "seed", "link.rate", "workload.0.bytes"]
    for _, row in figures[figures["error"].isna()].iterrows():
        keys = ["seed", "link.rate", "workload.0.bytes"]
        of = table[(table[keys] == row[keys]).all(axis=1)]
        assert (len(of), of["fct_ns"].max()) == (row["flows_done"], row["fct_max_ns"])
        assert of["slowdown"].max() >= 1
    share = ports(out, weir=weir)["tx_paused_share"].dropna()
    assert len(share) == 8 * 4 and share.between(0, 1).all()
    rings = collectives(out, weir=weir)
    assert len(rings) == 8 and set(rings["kind"]) == {"all_reduce"}
    # busbw of an all-reduce of 4 ranks is algbw times 2 * 3 / 4, rounded down.
    assert ((rings["algbw_bytes_per_s"] * 1.5 - rings["busbw_bytes_per_s"]).abs() <= 2).all()
    depths = queues(out, weir=weir)
    longest = figures.set_index("address")["queue_max_bytes"].dropna()
    assert depths["bytes"].max() == longest.max()
    keys = ["seed", "link.rate", "workload.0.bytes"]
    ends = ports(out, weir=weir).groupby(keys)["end_ns"].max()
    pd.testing.assert_series_equal(depths.groupby(keys)["interval_ns"].sum(), ends, check_names=False)
    assert results.settings(table, [out]) == ["link.rate", "workload.0.bytes"]


@pytest.mark.parametrize("what", ["slowdown", "queue", "pause", "busbw"])
def test_plots_show_every_setting(weir: str, out: Path, tmp_path: Path, what: str) -> None:
    shows_settings(weir, out, tmp_path, what)


def test_busbw_of_one_size_shows_every_setting(weir: str, plan: Path, tmp_path: Path) -> None:
    plan.write_text(plan.read_text().replace('["40KB", "200KB"]', '["40KB"]'))
    sweep(weir, plan, tmp_path / "out")
    shows_settings(weir, tmp_path / "out", tmp_path, "busbw")


def shows_settings(weir: str, out: Path, tmp_path: Path, what: str) -> None:
    picture = tmp_path / f"{what}.png"
    assert main(["plot", what, str(out), "--weir", weir, "--out", str(picture)]) == 0
    pixels = matplotlib.image.imread(picture)[..., :3]
    height, width, _ = pixels.shape
    assert width > 800 and height > 300
    # At least the colours of two settings.
    for colour in plots.COLOURS[:2]:
        rgb = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        assert (abs(pixels - rgb).max(axis=2) < 0.02).sum() > 30, colour


def test_runs_that_do_not_tell_how_long_ports_paused_are_named(weir: str, tmp_path: Path) -> None:
    incast = '[topology]\nkind = "star"\nhosts = 4\n[[workload]]\nkind = "incast"\nto = "h3"\nbytes = "100KB"\n'
    keys = {"own": "", "published": 'profile = "ns3-hpcc"\n', "rates": 'level = "flow"\n'}
    for name, key in keys.items():
        file = tmp_path / f"{name}.toml"
        file.write_text(f'name = "{name}"\nstop_time = "2ms"\n{key}{incast}', encoding="utf-8")
        subprocess.run([weir, "sim", str(file), "--out", str(tmp_path / name)], check=True, capture_output=True)

    def plot(*names: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "weir_sim", "plot", "pause", *names, "--out", "pause.png"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert plot("own") == (0, "")
    code, said = plot("own", "published", "rates")
    assert code == 0 and said.splitlines() == [
        'weir_sim: 1 of 3 runs have no rows in ports.csv: those at level "flow" have none',
        'weir_sim: left out, since runs of profile "ns3-hpcc" do not tell how long ports paused: published',
    ]
    (tmp_path / "pause.png").unlink()
    for name, why in {
        "published": 'those of profile "ns3-hpcc" and those at level "flow" do not',
        "rates": 'there is no ports.csv in these folders: those at level "flow" have none; sweep with',
    }.items():
        code, said = plot(name)
        assert code == 2 and why in said
    assert not (tmp_path / "pause.png").exists()


def test_parquet_and_csv_have_the_same_rows(weir: str, out: Path, tmp_path: Path) -> None:
    for name in ["flows.csv", "flows.parquet"]:
        assert main(["table", "flows", str(out), "--weir", weir, "--out", str(tmp_path / name)]) == 0
    written = pd.read_parquet(tmp_path / "flows.parquet")
    pd.testing.assert_frame_equal(written, pd.read_csv(tmp_path / "flows.csv"), check_dtype=False)


def test_flows_that_weir_wrote_as_parquet_are_those_of_its_lines(weir: str, tmp_path: Path) -> None:
    fabric = Path(__file__).parents[3] / "configs/sim/incast.toml"
    for form in ["csv", "parquet"]:
        command = [weir, "sim", str(fabric), "--out", str(tmp_path / form), "--flows", form]
        subprocess.run(command, check=True, capture_output=True)
        assert (tmp_path / form / f"flows.{form}").exists()
    lines, columns = (results.flows(tmp_path / form).drop(columns="run") for form in ["csv", "parquet"])
    assert len(columns) > 1
    pd.testing.assert_frame_equal(columns, lines)


def test_an_axis_that_some_tables_have_as_a_column_is_one_setting_each(weir: str, plan: Path, tmp_path: Path) -> None:
    # Flows of hybrid runs have a column `level` of their own, and those of others have none.
    levels = plan.parent / "levels.toml"
    levels.write_text(
        'name = "levels"\nbase = "fabrics/base.toml"\n[[axis]]\nkey = "level"\nvalues = ["packet", "flow", "hybrid"]\n',
        encoding="utf-8",
    )
    sweep(weir, levels, tmp_path / "out")
    table = flows(tmp_path / "out", weir=weir)
    assert results.settings(table, [tmp_path / "out"]) == ["axis level"]
    # A ring of 4 ranks: 6 steps of 4 messages.
    assert table["axis level"].value_counts().to_dict() == {"packet": 24, "flow": 24, "hybrid": 24}


def test_collectives_with_the_same_figures_are_several(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("id\n0\n", encoding="utf-8")
    head = "collective,workload,kind,ranks,bytes,time_ns,step,messages,start_ns,end_ns,straggler,cause,late_ns\n"
    steps = [f"{nth},0,all_reduce,2,100,{50 + nth % 2},{step},2,0,9,h0,none,0\n" for nth in range(3) for step in range(2)]
    (tmp_path / "collectives.csv").write_text(head + "".join(steps), encoding="utf-8")
    assert list(collectives(tmp_path)["time_ns"]) == [50, 51, 50]


def test_slowdown_is_that_of_the_quantiles() -> None:
    sizes = [1000] * 100 + [5000] * 100
    table = pd.DataFrame({"bytes": sizes, "slowdown": [*range(1, 101), *([2.0] * 100)]})
    median, worst = plots.fct_slowdown(table).axes[0].lines[:2]
    assert np.asarray(median.get_data()).tolist() == [[1000, 5000], [50.5, 2.0]]
    assert np.asarray(worst.get_ydata()).tolist() == [100.0, 2.0]


def test_axes_stand_first_whichever_folder_has_them(weir: str, plan: Path, tmp_path: Path) -> None:
    # One axis is called like a column of the table.
    for name, key, values in [("numbers", "workload.0.bytes", "[1000]"), ("tables", "workload", '[[{ kind = "all_to_all", bytes = 1000 }]]')]:
        plan.write_text(f'name = "{name}"\nbase = "fabrics/base.toml"\n[[axis]]\nkey = "{key}"\nvalues = {values}\n')
        sweep(weir, plan, tmp_path / name, "--keep", "report")
    folders = tmp_path / "numbers", tmp_path / "tables"
    table = collectives(*folders, weir=weir)
    assert list(table.columns[:4]) == ["run", "workload.0.bytes", "axis workload", "collective"]
    assert results.settings(table, folders) == ["run", "workload.0.bytes", "axis workload"]
    assert list(queues(*folders, weir=weir).columns[:4]) == ["run", "workload.0.bytes", "workload", "kind"]


def test_points_that_are_broken_are_told(weir: str, plan: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = tmp_path / "out"
    sweep(weir, plan, out)
    assert len(flows(out, weir=weir)) == 8 * 24
    (said,) = caplog.messages
    assert said.startswith(f"left out: {out}: 4 of 12 points are broken, point 2 by: spec of point 2:") and "rate 0" in said
    plan.write_text(plan.read_text().replace('["100G", "0", "25G"]', '["0"]'))
    sweep(weir, plan, tmp_path / "broken")
    with pytest.raises(WeirError, match="broken: 4 of 4 points are broken, point 0 by: spec of point 0:.* rate 0"):
        flows(tmp_path / "broken", weir=weir)
    for result in (tmp_path / "broken").glob("*.json"):
        if result.name != "plan.json":
            result.unlink()
    with pytest.raises(WeirError, match="broken: no point of the sweep has a result yet"):
        flows(tmp_path / "broken", weir=weir)


def report_of(folder: Path, **report: object) -> str:
    """A folder with such a report in it."""
    folder.mkdir()
    (folder / "flows.csv").write_text("id\n", encoding="utf-8")
    (folder / "report.json").write_text(json.dumps({"samples": [], **report}), encoding="utf-8")
    return str(folder)


def test_queues_count_for_as_long_as_their_interval(tmp_path: Path) -> None:
    short = report_of(tmp_path / "short", end_ns=10, timeline={"period_ns": 4, "depth_max": [5, 1, 9]})
    long = report_of(tmp_path / "long", end_ns=20, timeline={"period_ns": 8, "depth_max": [2, 7, 3]})
    idle = report_of(tmp_path / "idle", end_ns=20, timeline={"period_ns": 8, "depth_max": []})
    table = queues(short, long, idle)
    assert list(table["interval_ns"]) == [4, 4, 2, 8, 8, 4, 8, 8, 4]
    # Within 8 ns each: 5 and, in the 2 ns that are left, 9; 2, 7, and 3 in 4 ns; nothing in 20.
    (line,) = plots.queue_cdf(table).axes[0].lines
    at, share = map(np.asarray, line.get_data())
    last = {int(bytes): float(part) * 50 for bytes, part in zip(at, share, strict=True)}
    assert last == pytest.approx({0: 20, 2: 28, 3: 32, 5: 40, 7: 48, 9: 50})
    of_each = plots.queue_cdf(table, ["run"]).axes[0]
    assert [np.asarray(of.get_xdata()).tolist() for of in of_each.lines] == [[0, 0, 0, 0], [2, 2, 3, 7], [5, 5, 9]]
    assert of_each.get_xlabel() == "longest queue within each 8 ns, bytes"


def test_samples_and_peaks_are_told_apart(tmp_path: Path) -> None:
    peaks = report_of(tmp_path / "peaks", end_ns=10, timeline={"period_ns": 8, "depth_max": [5, 1]})
    samples = [{"at_ns": at, "queues": [longest, 0]} for at, longest in [(3, 7), (6, 8), (9, 9)]]
    sampled = report_of(tmp_path / "sampled", end_ns=10, samples=samples)
    table = queues(peaks, sampled)
    assert list(table["interval_ns"]) == [8, 2, 3, 3, 3]
    axes = plots.queue_cdf(table, ["run"]).axes[0]
    assert axes.get_xlabel() == "queue, bytes"
    assert [line.get_label() for line in axes.lines] == [
        f"fullest port, sampled, {sampled}",
        f"longest queue within each 8 ns, {peaks}",
    ]
    assert plots.queue_cdf(queues(sampled)).axes[0].get_xlabel() == "fullest port, sampled, bytes"


def test_flow_level_has_no_queues(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    timeline = {"period_ns": 8, "depth_max": []}
    packets = report_of(tmp_path / "packets", end_ns=10, timeline=timeline)
    rates = report_of(tmp_path / "rates", end_ns=10, timeline=timeline, level="flow")
    assert set(queues(packets, rates)["run"]) == {packets}
    assert caplog.messages == ['1 of 2 runs have no queues: those at level "flow"']
    with pytest.raises(WeirError, match='runs at level "flow" have none'):
        queues(rates)


def test_a_folder_that_is_none_is_refused(weir: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeirError, match="neither plan.json nor a table of flows"):
        flows(tmp_path / "empty", weir=weir)
    assert main(["table", "flows", str(out), "--weir", weir, "--out", "flows.txt"]) == 2
    assert main(["plot", "busbw", str(out), "--weir", weir, "--by", "colour", "--out", "a.png"]) == 2
    said = capsys.readouterr().err
    assert "a table is .csv or .parquet" in said and "no such column; there are run, seed" in said
