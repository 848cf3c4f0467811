"""Plans to play, and the program. WEIR: where it is (default: weir in PATH)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

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
def bin_of_one(weir: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with `weir-of-one`, which the first machine of the cluster alone has in PATH."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "weir-of-one").symlink_to(weir)
    return str(folder)


@pytest.fixture(scope="session")
def cluster(bin_of_one: str) -> Iterator[None]:
    """Two machines with a worker each, both of them this one."""
    machines = Cluster()
    machines.add_node(num_cpus=1, include_dashboard=False, env_vars={"PATH": f"{bin_of_one}:{os.environ['PATH']}"})
    machines.add_node(num_cpus=1)
    ray.init(address=machines.address, log_to_driver=False)
    yield
    ray.shutdown()
    machines.shutdown()


def sweep(weir: str, plan: Path, out: Path, *more: str) -> str:
    """The digest of the sweep, played by one process."""
    subprocess.run([weir, "sim", "sweep", "--plan", plan, "--out", out, *more], check=False, capture_output=True)
    merged = subprocess.run([weir, "sim", "merge", out], check=False, capture_output=True, text=True)
    return merged.stdout.splitlines()[-1].removeprefix("digest ")
