"""Which points a sweep has: `weir sim sweep --list` says so, and nothing here reads a plan by itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: What of a point can be kept beside its figures (`weir sim sweep --keep`).
KEEP = ("figures", "tables", "report")


class WeirError(Exception):
    """What `weir` said when it refused, or why a result cannot be used."""


@dataclass(frozen=True)
class Point:
    """A combination of values."""

    #: Its number in the plan, from 0.
    index: int
    #: What its result is called.
    address: str
    #: Values of the axes, as in TOML.
    values: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """A plan, as `weir` reads it."""

    path: Path
    name: str
    #: Version of the `weir` that read it. Another version gives points other addresses.
    weir: str
    #: Keys that vary.
    axes: tuple[str, ...]
    points: tuple[Point, ...]
    #: Files it was read from: itself, its base, and those that points name.
    files: tuple[Path, ...]
    #: Numbers of the points that have no whole result yet.
    open: tuple[int, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str], out: Path | None = None, *, weir: str = "weir", keep: str = "tables") -> Plan:
        """Has `weir` read the plan at `path`; points with a result in `out`, and what is to be kept of it, are not open.

        Raises WeirError: what `weir` says of the plan or of `out`.
        """
        command = ["sim", "sweep", "--list", "--plan", os.fspath(path), "--keep", keep]
        if out is not None:
            command += ["--out", os.fspath(out)]
        said = json.loads(call(weir, command))
        listed = enumerate(said["points"])
        return cls(
            path=Path(path),
            name=said["name"],
            weir=said["weir"],
            axes=tuple(said["axes"]),
            points=tuple(Point(index, p["address"], tuple(p["values"])) for index, p in listed),
            files=tuple(Path(file) for file in said["files"]),
            open=tuple(said["open"]),
        )


def call(weir: str, arguments: Sequence[str], good: Sequence[int] = (0,)) -> str:
    """What `weir` prints. Raises WeirError if it does not end with a code that is `good`."""
    try:
        done = subprocess.run([weir, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise WeirError(f"{weir} cannot be run ({error.strerror}): install weir, or say where it is (--weir)") from error
    if done.returncode not in good:
        said = (done.stderr.strip() or done.stdout.strip()).removeprefix("weir: ")
        raise WeirError(said or f"{weir} ended with {done.returncode}")
    return done.stdout
