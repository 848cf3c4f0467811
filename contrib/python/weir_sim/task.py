"""What a Ray worker does. It is sent to workers by value, so they need Python and `weir`, but not this package."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def pack(files: Sequence[Path]) -> tuple[str, dict[str, bytes]]:
    """The plan, which is the first of `files`, and the contents of all, by their paths from the folder that holds them all."""
    paths = [os.path.abspath(file) for file in files]
    root = os.path.commonpath([os.path.dirname(path) for path in paths])
    contents = {os.path.relpath(path, root): Path(path).read_bytes() for path in paths}
    return os.path.relpath(paths[0], root), contents


def play(packed: tuple[str, Mapping[str, bytes]], weir: str, keep: str, index: int, points: int) -> tuple[str, dict[str, bytes]]:
    """Plays point `index` of `points`: the name of this machine, and the files of the result by their paths.

    A point that `weir` refuses has a result, too: the reason. Raises RuntimeError: `weir` cannot be run, or refused the plan.
    """
    plan, contents = packed
    with tempfile.TemporaryDirectory(prefix="weir-sim-") as folder:
        for name, content in contents.items():
            path = Path(folder, "plan", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        out = Path(folder, "out")
        command = [weir, "sim", "sweep", "--plan", str(Path(folder, "plan", plan)), "--out", str(out), "--keep", keep]
        command += ["--shard", f"{index + 1}/{points}", "--jobs", "1"]
        # A worker that is killed leaves no run behind.
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "KILL", *command]
        here = socket.gethostname()
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise RuntimeError(f"{here}: {error.filename} cannot be run: {error.strerror}") from error
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{here}: {done.stderr.strip()}")
        return here, {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
