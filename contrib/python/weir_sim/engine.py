"""A sweep on a Ray cluster: one task for each point; results come to one folder, as one machine would have left them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle

from weir_sim import task
from weir_sim.plan import Plan, Point, WeirError, call

#: Tasks for each processor of the cluster that are handed out at once: enough that none is ever idle.
AHEAD = 2


@dataclass(frozen=True)
class Merged:
    """What `weir sim merge` says of the folder."""

    #: The same as after a sweep on one machine.
    digest: str
    #: Whether every point has a result, and none was refused.
    whole: bool
    #: All it says.
    text: str


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

    Raises WeirError: what `weir` says of the plan or of `out`, on this machine or on a worker, or a worker that has another
    version of it; ray.exceptions.RayError: a point whose worker was lost more often than `retries`.
    """
    folder = Path(out)
    known = Plan.read(plan, folder, weir=weir, keep=keep)
    # Functions of Ray without types.
    by_value: Any = cloudpickle.register_pickle_by_value
    resources: Any = ray.cluster_resources
    by_value(task)
    remote: Any = ray.remote(num_cpus=1, max_retries=retries)(task.play)
    packed = ray.put(task.pack(known.files))
    waiting = [known.points[index] for index in known.open]
    waiting.reverse()
    of, over = len(known.points), len(known.points) - len(waiting)
    ahead = max(1, int(AHEAD * resources().get("CPU", 1)))
    flying: dict[Any, Point] = {}
    progress(over, of)
    try:
        while waiting or flying:
            while waiting and len(flying) < ahead:
                point = waiting.pop()
                flying[remote.remote(packed, weir, keep, point.index, of)] = point
            for done in ray.wait(list(flying))[0]:
                store(folder, known, flying.pop(done), _result(done))
                over += 1
                progress(over, of)
    finally:
        for lost in flying:
            ray.cancel(lost, force=True)
    return merge([folder], weir=weir)


def _result(done: Any) -> tuple[str, dict[str, bytes]]:
    try:
        result: tuple[str, dict[str, bytes]] = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise WeirError(str(error.cause)) from error
    return result


def store(folder: Path, plan: Plan, point: Point, result: tuple[str, dict[str, bytes]]) -> None:
    """Puts the files of a point into `folder`, its result last: where that is, the rest is."""
    host, files = result
    last = f"{point.address}.json"
    if last not in files:
        raise WeirError(f"{host} has another version of weir than {plan.weir}: install the same everywhere")
    for name in sorted(files, key=lambda name: name == last):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.part{os.getpid()}")
        beside.write_bytes(files[name])
        beside.replace(path)
