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
from matplotlib.figure import Figure

from weir_sim import WeirError, collectives, flows, plots, points, ports, queues, results
from weir_sim.__main__ import main
from weir_sim.labels import labels


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


def looks(figure: Figure) -> list[tuple[str, str, str]]:
    """What each line that has a label looks like."""
    lines = [line for line in figure.axes[0].lines if not str(line.get_label()).startswith("_")]
    return [(str(line.get_color()), str(line.get_marker()), str(line.get_linestyle())) for line in lines]


def test_as_many_settings_as_can_be_told_apart_are_drawn() -> None:
    sizes = pd.DataFrame({"bytes": [1000, 5000], "slowdown": [1.5, 2.5], "busbw_bytes_per_s": 1e9, "kind": "all_reduce", "ranks": 4, "workload": 0})
    peaks = pd.DataFrame({"kind": "peak", "at_ns": [0, 8], "interval_ns": 8, "bytes": [5, 9]})
    for draw, table in [(plots.fct_slowdown, sizes), (plots.busbw, sizes), (plots.queue_cdf, peaks)]:
        many = pd.concat([table.assign(rate=f"{rate}G") for rate in range(10, 35)], ignore_index=True)
        assert len(set(looks(draw(many[many["rate"] < "34G"], ["rate"])))) == 24, draw
        with pytest.raises(ValueError, match=r"^25 settings, and 24 at most can be told apart: .*--by COLUMN"):
            draw(many, ["rate"])


def test_busbw_is_the_mean_over_seeds_alone() -> None:
    table = pd.DataFrame(
        [(1, 0, 4, 64, 4.0), (2, 0, 4, 64, 6.0), (1, 1, 8, 64, 3.0), (2, 1, 8, 64, 1.0)],
        columns=["seed", "workload", "ranks", "bytes", "busbw_bytes_per_s"],
    ).assign(kind="all_reduce")
    table["busbw_bytes_per_s"] *= 1e9

    def drawn(table: pd.DataFrame) -> dict[object, list[float]]:
        return {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in plots.busbw(table).axes[0].lines}

    assert drawn(table) == {"ranks 4": [5.0], "ranks 8": [2.0]}
    # Two jobs that differ in nothing but who they are; with other sizes they are points of one line.
    assert drawn(table.assign(ranks=4)) == {"workload 0": [5.0], "workload 1": [2.0]}
    assert list(drawn(table.assign(ranks=4, bytes=[64, 64, 128, 128])).values()) == [[5.0, 2.0]]


def test_labels_are_short_and_tell_apart(weir: str, plan: Path, tmp_path: Path) -> None:
    values = {
        "topology": '[{ kind = "star", hosts = 4 }, { kind = "dumbbell", pairs = 3 }]',
        "workload": '[[{ kind = "incast", to = "h0", bytes = 1000 }], [{ kind = "all_to_all", bytes = 1000 }, { kind = "all_reduce", bytes = 5000 }]]',
    }
    axes = "".join(f'[[axis]]\nkey = "{key}"\nvalues = {of}\n' for key, of in values.items())
    plan.with_name("tables.toml").write_text(f'name = "tables"\nbase = "fabrics/base.toml"\n{axes}')
    sweep(weir, plan.with_name("tables.toml"), tmp_path / "tables")
    plan.with_name("numbers.toml").write_text('name = "numbers"\nbase = "fabrics/base.toml"\n[[axis]]\nkey = "workload.0.bytes"\nvalues = [1000, 2000]\n')
    sweep(weir, plan.with_name("numbers.toml"), tmp_path / "numbers")
    folders = [tmp_path / "numbers", tmp_path / "tables"]
    table = flows(*folders, weir=weir).replace({"run": {str(folder): folder.name for folder in folders}})
    figure = plots.fct_slowdown(table, results.settings(table, folders))
    assert [line.get_label() for line in figure.axes[0].lines[::2]] == [
        "numbers, bytes 1000",
        "numbers, bytes 2000",
        "tables, topology.kind star, workload.0.kind all_to_all",
        "tables, topology.kind star, workload.0.kind incast",
        "tables, topology.kind dumbbell, workload.0.kind all_to_all",
        "tables, topology.kind dumbbell, workload.0.kind incast",
    ]
    figure.draw_without_rendering()
    axes_box, (legend,) = figure.axes[0].get_window_extent(), figure.legends
    assert axes_box.width > 0.7 * figure.bbox.width and axes_box.height > 0.4 * figure.bbox.height
    assert legend.get_window_extent().x1 <= figure.bbox.x1 and legend.get_window_extent().y1 < axes_box.y0


def labels_of(values: list[object]) -> list[str]:
    return labels(pd.DataFrame({"host.x": values}), ["host.x"], [[value] for value in values])


def test_labels_of_one_axis() -> None:
    # What pandas makes of whole numbers beside runs without the axis.
    assert labels_of([1000.0, 2000.0, float("nan")]) == ["x 1000", "x 2000", "without x"]
    assert labels_of(['{ kind = "a", bytes = 1 }', '{ kind = "a", bytes = 2 }', '{ kind = "b" }']) == ["bytes 1", "bytes 2", "bytes not set"]
    assert labels_of(['{ kind = "a", bytes = 1 }', '{ kind = "a", bytes = 2 }', '{ kind = "b", bytes = 1 }']) == [
        "kind a, bytes 1",
        "kind a, bytes 2",
        "kind b, bytes 1",
    ]
    folder = "/a/folder/with/a/long/name/of/many/parts"
    assert labels_of([f'{{ file = "{folder}/{name}.cm" }}' for name in "ab"]) == ["file …/a.cm", "file …/b.cm"]
    assert labels_of(["[not a table", "{neither"]) == ["x [not a table", "x {neither"]
    long = [f'{{ hosts = [{", ".join(chr(34) + f"h{host}" + chr(34) for host in range(first, first + 20))}] }}' for first in (0, 1)]
    assert labels_of(list(long)) == ["hosts [h0, h1, h2, h3, h4,… h16, h17, h18, h19]", "hosts [h1, h2, h3, h4, h5,… h17, h18, h19, h20]"]
    table = pd.DataFrame({"workload.0.bytes": [1], "workload.1.bytes": [2], "link.rate": ["9G"], "workload.2": ["all"]})
    assert labels(table, list(table.columns), [[1, 2, "9G", "all"]]) == ["workload.0.bytes 1, workload.1.bytes 2, rate 9G, workload.2 all"]


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
    axes = plots.queue_cdf(table.assign(run=table["run"].map({peaks: "peaks", sampled: "sampled"})), ["run"]).axes[0]
    assert axes.get_xlabel() == "queue, bytes"
    assert [line.get_label() for line in axes.lines] == ["fullest port, sampled, sampled", "longest queue within each 8 ns, peaks"]
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
