"""A sweep on two Ray workers: the digest of one machine, workers that are killed, other versions, and what is there already."""

from __future__ import annotations

import functools
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import ray
from conftest import sweep

from weir_sim import Plan, WeirError, engine, task
from weir_sim.__main__ import main
from weir_sim.plan import Point

#: What ctrl-C does.
SIGNAL = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


def wrapper(folder: Path, weir: str, before: str) -> str:
    """A program that does something and then is weir."""
    program = folder / "weir"
    program.write_text(f'#!/bin/sh\n{before}\nexec {weir} "$@"\n')
    program.chmod(0o755)
    return str(program)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_workers_leave_what_one_machine_leaves(cluster: None, weir: str, plan: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    digest = sweep(weir, plan, whole)
    heard: list[tuple[int, int]] = []
    merged = engine.run(plan, parts, weir=weir, progress=lambda over, of: heard.append((over, of)))
    # A rate of 0 is refused: 4 of the 12 points.
    assert (merged.digest, merged.whole) == (digest, False)
    assert "12 of 12 points, 4 broken" in merged.text
    assert heard == [(over, 12) for over in range(13)]
    assert files(parts) == files(whole)


def test_a_point_whose_worker_is_killed_is_played_by_another(cluster: None, weir: str, plan: Path, tmp_path: Path) -> None:
    digest = sweep(weir, plan, tmp_path / "whole")
    # The first three workers that begin a point die of it.
    killed = "for n in 1 2 3; do mkdir killed$n 2>/dev/null && kill -9 $PPID && exit 9; done"
    before = f'case "$*" in *--shard*) cd {tmp_path} && {{ {killed}; }};; esac'
    merged = engine.run(plan, tmp_path / "parts", weir=wrapper(tmp_path, weir, before))
    assert [(tmp_path / f"killed{n}").exists() for n in (1, 2, 3)] == [True] * 3
    assert merged.digest == digest


def test_folders_of_workers_that_were_killed_are_removed(weir: str, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    # Somebody else's, which has no lock.
    (tmp_path / "tmp/weir-sim-other").mkdir()
    packed = task.pack(Plan.read(plan, weir=weir).files)
    # It ends without cleaning up, while its run is under way; the run is held up until then.
    slow = wrapper(tmp_path, weir, f"touch {tmp_path}/begun; sleep 60")
    worker = multiprocessing.get_context("fork").Process(target=task.play, args=(packed, slow, "tables", 0, 12))
    worker.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)

    def folders() -> list[Path]:
        return sorted(path for path in (tmp_path / "tmp").iterdir() if path.name != "weir-sim-other")

    left = folders()
    assert len(left) == 1
    task.sweep_folders()
    assert folders() == left, "its worker lives"
    worker.kill()
    worker.join()
    assert folders() == left, "nobody has cleaned up"
    task.play(packed, weir, "tables", 0, 12)
    assert folders() == []
    assert (tmp_path / "tmp/weir-sim-other").exists()


def test_files_that_are_named_by_absolute_paths_go_with_the_plan(weir: str, plan: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    for folder in ("fabrics", "matrices"):
        (here / folder).mkdir(parents=True)
    base = here / "fabrics/base.toml"
    base.write_text((plan.parent / "fabrics/base.toml").read_text() + f'[[workload]]\nkind = "htsim_matrix"\nfile = "{here}/matrices/a.cm"\n')
    axis = f"[[axis]]\nkey = \"workload.1.file\"\nvalues = [\"{here}/matrices/a.cm\", '{here}/fabrics/../matrices/b.cm']\n"
    (here / "plan.toml").write_text(f'name = "absolute"\nbase = "{base}"\n{axis}')
    for name, size in [("a", 30_000), ("b", 90_000)]:
        (here / f"matrices/{name}.cm").write_text(f"Nodes 4\nConnections 1\n0->1 start 0 size {size}\n")
    sweep(weir, here / "plan.toml", tmp_path / "whole")
    packed = task.pack(Plan.read(here / "plan.toml", weir=weir).files)
    # The worker's machine has nothing of it.
    here.rename(tmp_path / "there")
    played: dict[str, bytes] = {}
    for point in range(2):
        played |= task.play(packed, weir, "tables", point, 2)[1]
    assert played == files(tmp_path / "whole") and len(played) > 4


def test_a_plan_that_a_worker_refuses_is_named_as_it_is_here(weir: str, plan: Path) -> None:
    packed = task.pack(Plan.read(plan, weir=weir).files)
    root, name, contents = packed
    broken = {**contents, name: contents[name].replace(b"link.rate", b"link.rat")}
    with pytest.raises(RuntimeError, match=f"{plan.parent}/plan.toml:8: axis `link.rat`"):
        task.play((root, name, broken), weir, "tables", 0, 12)


def test_what_is_there_is_not_played_again(cluster: None, weir: str, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep(weir, plan, out, "--shard", "1/3")
    before = files(out)
    known = Plan.read(plan, out, weir=weir)
    assert known.open == (1, 2, 4, 5, 7, 8, 10, 11)
    shards = wrapper(tmp_path, weir, f'case "$*" in *--shard*) echo "$*" >> {tmp_path}/played;; esac')
    engine.run(plan, out, weir=shards)
    assert len((tmp_path / "played").read_text().splitlines()) == 8
    assert files(out).items() >= before.items()
    # With more to keep all that was not refused is open; then nothing.
    assert len(Plan.read(plan, out, weir=weir, keep="report").open) == 8
    assert Plan.read(plan, out, weir=weir).open == ()


def test_what_is_wrong_is_said(cluster: None, weir: str, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = wrapper(tmp_path, weir, f"""case "$*" in *--shard*) cd {tmp_path} && exec python3 - "$@" <<'END'
import json, pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir()
(out / "plan.json").write_text("{{}}")
END
esac""")
    with pytest.raises(WeirError, match="another version of weir"):
        engine.run(plan, out, weir=other)
    assert not list(out.glob("*.json"))
    with pytest.raises(WeirError, match="cannot be run .* say where it is"):
        engine.run(plan, out, weir="/nowhere/weir")
    plan.write_text(plan.read_text().replace("link.rate", "link.rat"))
    with pytest.raises(WeirError, match=r"plan.toml:8: axis `link.rat`: unknown field `rat`, expected one of `rate`"):
        engine.run(plan, out, weir=weir)


def test_points_of_a_machine_without_weir_go_to_others(
    cluster: None, bin_of_one: str, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", f"{bin_of_one}:{os.environ['PATH']}")
    merged = engine.run(plan, tmp_path / "parts", weir="weir-of-one")
    assert "12 of 12 points, 4 broken" in merged.text
    why = "weir-of-{} cannot be run (No such file or directory): install weir there, or say where it is on all machines (--weir)"
    assert caplog.messages == [f"{socket.gethostname()}: {why.format('one')}; its points go to other machines"]
    # No machine has it by this name.
    (tmp_path / "weir-of-none").symlink_to(Path(bin_of_one, "weir-of-one"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(WeirError, match=re.escape(f"{socket.gethostname()}: {why.format('none')}") + "$"):
        engine.run(plan, tmp_path / "none", weir="weir-of-none")


@pytest.mark.parametrize("said", ["setpriv: failed to execute weir: why", "{0}: unrecognized option '--pdeathsig'"])
def test_setpriv_hides_no_reason(weir: str, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    setpriv = tmp_path / "setpriv"
    setpriv.write_text(f'#!/bin/sh\necho "{said.format(setpriv)}" >&2\nexit 1\n')
    setpriv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    packed = task.pack(Plan.read(plan, weir=weir).files)
    assert len(task.play(packed, weir, "tables", 0, 12)[1]) > 1
    with pytest.raises(OSError, match=r"^/nowhere/weir cannot be run \(No such file or directory\): .*--weir"):
        task.play(packed, "/nowhere/weir", "tables", 0, 12)
    loader = wrapper(tmp_path, weir, 'echo "libnuma.so.1: cannot open shared object file" >&2; exit 127')
    with pytest.raises(OSError, match=r"weir cannot be run \(libnuma.so.1: cannot open .*--weir"):
        task.play(packed, loader, "tables", 0, 12)


@pytest.mark.parametrize("cpus", [0.0, 0.5])
def test_a_cluster_without_a_cpu_is_refused(cluster: None, weir: str, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: float) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeID": "a", "Alive": True, "Resources": {"CPU": cpus}}, {"NodeID": "b", "Alive": False, "Resources": {"CPU": 8.0}}])
    with pytest.raises(WeirError, match="no machine of the cluster has a CPU"):
        engine.run(plan, tmp_path / "out", weir=weir)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--workers", "0"], "argument --workers: 0: give a whole number, 1 or more"),
        (["--workers", "-1"], "argument --workers: -1: give a whole number, 1 or more"),
        (["--retries", "-2"], "argument --retries: -2: give a whole number, 0 or more, or always"),
        (["--retries", "two"], "argument --retries: two: give a whole number, 0 or more, or always"),
        (["--workers", "2", "--address", "auto"], "--workers is of a local cluster"),
    ],
)
def test_numbers_of_the_command_line_are_checked(more: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--plan", "plan.toml", "--out", "out", *more])
    assert ended.value.code == 2 and why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "module", "text"),
    [
        (["run", "--plan", "plan.toml"], "ray", SIGNAL),
        # Ctrl-C in code that an import hands to `exec` ends Python by the signal, if nothing is done about it.
        (["run", "--plan", "plan.toml"], "ray", f"exec({SIGNAL!r})"),
        (["table", "flows", "folder"], "pandas", SIGNAL),
    ],
)
def test_ctrl_c_during_imports(tmp_path: Path, command: list[str], module: str, text: str) -> None:
    (tmp_path / f"{module}.py").write_text(text)
    package = Path(__file__).parents[1]
    there = os.environ | {"PYTHONPATH": f"{tmp_path}:{package}"}
    run = [sys.executable, "-m", "weir_sim", *command, "--out", str(tmp_path / "out.csv")]
    default = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    done = subprocess.run(run, capture_output=True, text=True, env=there, check=False, preexec_fn=default)
    said = "\nstopped: nothing was played yet\n" if command[0] == "run" else "\nstopped\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_ctrl_c_while_ray_starts(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    over: list[bool] = []

    def init(**options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: over.append(True))
    assert main(["run", "--plan", str(plan), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "\nstopped: nothing was played yet\n" and over
    assert main(["run", "--plan", str(plan), "--out", str(tmp_path)]) == 1
    assert f"stopped: results so far are in {tmp_path}; the same command goes on" in capsys.readouterr().err


def test_the_command_line_plays_and_goes_on(weir: str, plan: Path, tmp_path: Path) -> None:
    digest = sweep(weir, plan, tmp_path / "whole")
    paths = ["--plan", str(plan), "--out", str(tmp_path / "out")]
    run = [sys.executable, "-m", "weir_sim", "run", "--weir", weir, "--workers", "2", *paths]
    for _ in range(2):
        done = subprocess.run(run, capture_output=True, text=True, env=os.environ | {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"})
        assert done.returncode == 1, done
        assert done.stdout.endswith(f"digest {digest}\n"), done


def test_a_full_disk_leaves_no_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    point = Point(0, "a1b2", ())
    with pytest.raises(WeirError, match=f"{point.address}.json: No space left on device"):
        engine.store(tmp_path / "out", point, {f"{point.address}.json": b"{}"})
    assert list((tmp_path / "out").iterdir()) == []
