"""A sweep on a Ray cluster: one task for each point; results come to one folder, as one machine would have left them."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from weir_sim import task
from weir_sim.plan import Plan, Point, WeirError, call

#: Tasks for each processor of the cluster that are handed out at once: enough that none is ever idle.
AHEAD = 2

_log = logging.getLogger("weir_sim")


@dataclass(frozen=True)
class Merged:
    """What `weir sim merge` says of the folder."""

    #: The same as after a sweep on one machine.
    digest: str
    #: Whether every point has a result, and none was refused.
    whole: bool
    #: All it says.
    text: str


class _Machines:
    """Machines of the cluster that can play points, by Ray's names of them."""

    def __init__(self) -> None:
        """Raises WeirError: none has a processor for a point."""
        self._unfit: dict[str, str] = {}
        self._cpus = self._look()
        if not self._cpus:
            raise WeirError("no machine of the cluster has a CPU, so that no point can be played: add one (`ray start --num-cpus N`)")

    def _look(self) -> dict[str, int]:
        """Processors of each; a part of one is none, as a point takes a whole one."""
        nodes: Any = ray.nodes
        there = {str(node["NodeID"]): int(node["Resources"].get("CPU", 0)) for node in nodes() if node["Alive"]}
        return {machine: cpus for machine, cpus in there.items() if cpus > 0 and machine not in self._unfit}

    def ahead(self) -> int:
        """Tasks that are handed out at once."""
        return AHEAD * sum(self._cpus.values())

    def leave_out(self, machine: str, why: str) -> None:
        """It can play no point. Raises WeirError: no other one can."""
        known = machine in self._unfit
        self._unfit[machine] = why
        self._cpus = self._look()
        if not self._cpus:
            raise WeirError("\n".join(dict.fromkeys(self._unfit.values())))
        if not known:
            _log.warning("%s; its points go to other machines", why)

    def next(self, busy: Counter[str]) -> str:
        """Where the next point is to go, by the points that were sent to each; "": wherever Ray likes."""
        return min(self._cpus, key=lambda machine: busy[machine] / self._cpus[machine]) if self._unfit else ""


def merge(folders: list[Path], *, weir: str = "weir") -> Merged:
    """Puts folders of one sweep together. Raises WeirError: what `weir` says of them."""
    text = call(weir, ["sim", "merge", *map(os.fspath, folders)], good=(0, 1))
    digest = re.search(r"^digest (\w+)$", text, re.MULTILINE)
    there = re.search(r": (\d+) of (\d+) points, (\d+) broken$", text, re.MULTILINE)
    if digest is None or there is None:
        raise WeirError(f"`{weir} sim merge` says nothing that is understood here: {text}")
    return Merged(digest[1], there[1] == there[2] and there[3] == "0", text)


def run(
    plan: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    weir: str = "weir",
    keep: str = "tables",
    retries: int = 3,
    progress: Callable[[int, int], None] = lambda over, of: None,
) -> Merged:
    """Plays the points of `plan` that have no result in `out` yet, on the Ray cluster this process is connected to, and merges.

    A task whose worker or machine is lost is handed out again, `retries` times (-1: always). `progress` hears how many points
    of how many are over. Ended early, by an exception or a signal, it leaves the results there are: the next call goes on.

    A machine without `weir`, or with another version of it, is logged, and its points go to other machines.

    Raises WeirError: what `weir` says of the plan or of `out`, on this machine or on a worker; no machine has a CPU, or none can
    play a point; ray.exceptions.RayError: a point whose worker was lost more often than `retries`.
    """
    folder = Path(out)
    known = Plan.read(plan, folder, weir=weir, keep=keep)
    of = len(known.points)
    over = of - len(known.open)
    progress(over, of)
    if known.open:
        with closing(_results(known, weir, keep, retries)) as results:
            for point, files in results:
                store(folder, point, files)
                over += 1
                progress(over, of)
    return merge([folder], weir=weir)


def _results(plan: Plan, weir: str, keep: str, retries: int) -> Generator[tuple[Point, dict[str, bytes]], None, None]:
    """Points that are open, and the files of their results, in the order in which they are done."""
    machines = _Machines()
    # Functions of Ray without types.
    by_value: Any = cloudpickle.register_pickle_by_value
    by_value(task)
    remote: Any = ray.remote(num_cpus=1, max_retries=retries)(task.attempt)
    packed = ray.put(task.pack(plan.files))
    waiting = [plan.points[index] for index in reversed(plan.open)]
    flying: dict[Any, tuple[Point, str]] = {}
    try:
        while waiting or flying:
            while waiting and len(flying) < machines.ahead():
                point, machine = waiting.pop(), machines.next(Counter(to for _, to in flying.values()))
                there = remote.options(scheduling_strategy=_at(machine))
                flying[there.remote(packed, weir, keep, point.index, len(plan.points))] = point, machine
            for done in ray.wait(list(flying))[0]:
                point, _ = flying.pop(done)
                machine, host, files = _result(done)
                if why := _unfit(plan, point, host, files):
                    machines.leave_out(machine, why)
                    waiting.append(point)
                else:
                    yield point, files
    finally:
        for lost in flying:
            ray.cancel(lost, force=True)


def _at(machine: str) -> Any:
    """There, or elsewhere if it is lost."""
    affinity: Any = NodeAffinitySchedulingStrategy
    return affinity(machine, soft=True) if machine else "DEFAULT"


def _result(done: Any) -> tuple[str, str, dict[str, bytes]]:
    try:
        result: tuple[str, str, dict[str, bytes]] = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise WeirError(str(error.cause)) from error
    return result


def _unfit(plan: Plan, point: Point, host: str, files: dict[str, bytes]) -> str:
    """Why a machine that said this can play no point; "": it can."""
    if not files:
        return host
    if _last(point) not in files:
        return f"{host} has another version of weir than {plan.weir}: install the same everywhere"
    return ""


def _last(point: Point) -> str:
    """The file of a result that is written last: where that is, the rest is."""
    return f"{point.address}.json"


def store(folder: Path, point: Point, files: dict[str, bytes]) -> None:
    """Puts the files of a point into `folder`."""
    for name in sorted(files, key=lambda name: name == _last(point)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.part{os.getpid()}")
        try:
            beside.write_bytes(files[name])
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise WeirError(f"{path}: {error.strerror}; what is there stays: the same command goes on") from error
