"""Plans to play, and the program. WEIR: where it is (default: weir in PATH)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

BASE = """
name = "base"
stop_time = "2ms"
[topology]
kind = "star"
hosts = 4
[[workload]]
kind = "all_reduce"
bytes = "100KB"
"""

PLAN = """
name = "small"
base = "fabrics/base.toml"
[[axis]]
key = "seed"
values = [1, 2]
[[axis]]
key = "link.rate"
values = ["100G", "0", "25G"]
[[axis]]
key = "workload.0.bytes"
values = ["40KB", "200KB"]
"""


@pytest.fixture(scope="session")
def weir() -> str:
    program = os.environ.get("WEIR") or shutil.which("weir")
    assert program, "set WEIR to the program, e.g. target/debug/weir"
    return os.path.abspath(program)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "fabrics").mkdir()
    (tmp_path / "fabrics/base.toml").write_text(BASE)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def sweep(weir: str, plan: Path, out: Path, *more: str) -> str:
    """The digest of the sweep, played by one process."""
    subprocess.run([weir, "sim", "sweep", "--plan", plan, "--out", out, *more], check=False, capture_output=True)
    merged = subprocess.run([weir, "sim", "merge", out], check=False, capture_output=True, text=True)
    return merged.stdout.splitlines()[-1].removeprefix("digest ")
