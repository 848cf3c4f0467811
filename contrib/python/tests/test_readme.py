"""Commands and Python of the README, one after the other in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent


def test_what_the_readme_shows_works(weir: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(HERE / "examples")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/weir").symlink_to(weir)
    (tmp_path / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin/python").chmod(0o755)
    package = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    there = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": package}
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", (HERE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "python", "sh", "sh"]
    said = ""
    for kind, text in blocks:
        command = ["sh", "-ec", text] if kind == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=there, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}{done.stdout}{done.stderr}"
        said += done.stdout
    # The sweep of the first block, and what the second says of it.
    digests = re.findall(r"^digest (\w+)$", said, re.MULTILINE)
    assert len(digests) == 2 and f"{digests[1]} True" in said
    for name in ["flows.parquet", "collectives.csv", "slowdown.png", "queue.png", "pause.png", "busbw.png"]:
        assert (tmp_path / name).stat().st_size > 500, name
