"""What a Ray worker does. It is sent to workers by value, so they need Python and `weir`, but not this package."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


#: Folders of workers begin with this,
PREFIX = "weir-sim-"
#: and hold a file that is locked as long as the worker lives.
LOCK = "worker.lock"


#: The folder that holds all files of a plan, the path of the plan from there, and the contents of all by such paths.
Packed = tuple[str, str, Mapping[str, bytes]]


#: A string of TOML that is an absolute path.
ABSOLUTE = re.compile(rb"""(?<=["'])/[^"'\n]*(?=["'])""")


def pack(files: Sequence[Path]) -> Packed:
    """The plan, which is the first of `files`, with its base, the second, and all others: none is named by an absolute path any more."""
    paths = [os.path.abspath(file) for file in files]
    root = os.path.commonpath([os.path.dirname(path) for path in paths])
    plan, base = paths[:2]
    folders = {os.path.dirname(path) for path in paths}

    def relative(name: re.Match[bytes]) -> bytes:
        path = os.path.normpath(os.fsdecode(name[0]))
        # Of files of ranks, which share a name, the folder alone is known.
        if os.path.dirname(path) not in folders:
            return name[0]
        # A base is looked for beside the plan, all others beside the base.
        return os.fsencode(os.path.relpath(path, os.path.dirname(plan if path == base else base)))

    contents = {path: Path(path).read_bytes() for path in paths}
    contents |= {path: ABSOLUTE.sub(relative, contents[path]) for path in (plan, base)}
    return root, os.path.relpath(plan, root), {os.path.relpath(path, root): content for path, content in contents.items()}


def sweep_folders() -> None:
    """Removes the folders of this user's workers that were killed: nobody holds their lock. What another one removes is gone, too."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            # A folder without one has just been made, or is not ours.
            with open(folder / LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs `weir`, which is killed with this worker where there is `setpriv`. Raises OSError: it cannot be run."""
    setpriv = shutil.which("setpriv")
    killed = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    try:
        done = subprocess.run([*killed, *command], capture_output=True, text=True, check=False)
        # Where setpriv itself complains it has not begun weir; without it the reason is that of weir.
        if setpriv and done.stderr.startswith(("setpriv: ", f"{setpriv}: ")):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise _missing(command[0], error.strerror or str(error)) from error
    if done.returncode == 127:
        # The loader: a library is not there.
        raise _missing(command[0], done.stderr.strip())
    return done


def _missing(weir: str, why: str) -> OSError:
    return OSError(f"{weir} cannot be run ({why}): install weir there, or say where it is on all machines (--weir)")


def attempt(packed: Packed, weir: str, keep: str, index: int, points: int) -> tuple[str, str, dict[str, bytes]]:
    """Ray's name of this machine, and what `play` returns. Without files: why this machine can play no point, instead of its name."""
    import ray

    # A function of Ray without types.
    context: Any = ray.get_runtime_context
    machine = str(context().get_node_id())
    try:
        return machine, *play(packed, weir, keep, index, points)
    except OSError as error:
        return machine, f"{socket.gethostname()}: {error}", {}


def play(packed: Packed, weir: str, keep: str, index: int, points: int) -> tuple[str, dict[str, bytes]]:
    """Plays point `index` of `points`: the name of this machine, and the files of the result by their paths.

    A point that `weir` refuses has a result, too: the reason. Raises OSError: `weir` or the folder of this worker cannot be used
    on this machine; RuntimeError: `weir` refused the plan.
    """
    root, plan, contents = packed
    sweep_folders()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, open(Path(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Path(lock.name).rename(Path(folder, LOCK))
        for name, content in contents.items():
            path = Path(folder, "plan", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        out = Path(folder, "out")
        command = [weir, "sim", "sweep", "--plan", str(Path(folder, "plan", plan)), "--out", str(out), "--keep", keep]
        command += ["--shard", f"{index + 1}/{points}", "--jobs", "1"]
        here, done = socket.gethostname(), _run(command)
        if done.returncode not in (0, 1):
            # The plan as its owner knows it: the folder here is gone by the time this is read.
            said = done.stderr.strip().replace(str(Path(folder, "plan")), root)
            raise RuntimeError(f"{here}: {said}")
        return here, {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
