# SPDX-License-Identifier: BSD-3-Clause
"""Test a DPDK with fewer than 1024 queues per port (RTE_MAX_QUEUES_PER_PORT): programs build, plans keep the limit."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from run_helpers import FAKE_NODE, SPEC, Cli

from pollscope.node.build import queues_per_port, queues_refusal

FEW = 256


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Return a node program of such a build."""
    (tmp_path / "build").mkdir()
    program = Path(shutil.copy(FAKE_NODE, tmp_path / "build/pollscope-node"))
    program.with_name("limits.json").write_text(json.dumps({"queues_per_port": FEW}))
    return program


@pytest.mark.thorough
def test_driver_and_node_build_with_a_lower_limit(checkout: Path, tmp_path: Path) -> None:
    """The driver's tables, the node's arrays by queue, and what their static assertions say of both."""
    build = tmp_path / "build"
    options = [f"-Dc_args=-include {checkout}/tests/few_queues.h", "-Dbuildtype=debug"]
    compile_it = ["ninja", "-C", str(build), "pollscope-node"]
    for command in (["meson", "setup", str(build), str(checkout / "apps"), *options], compile_it):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:]
    assert queues_per_port(build / "pollscope-node") == FEW


def test_the_build_records_its_limit(build_dir: Path) -> None:
    assert queues_per_port(build_dir / "pollscope-node") == 1024
    assert queues_refusal(build_dir / "pollscope-node", 1024) is None


def test_without_a_record_nothing_is_refused(tmp_path: Path) -> None:
    assert queues_per_port(tmp_path / "pollscope-node") is None
    assert queues_refusal(tmp_path / "pollscope-node", 1024) is None
    (tmp_path / "limits.json").write_text("[]")
    assert queues_per_port(tmp_path / "pollscope-node") is None


def test_points_above_the_limit_are_left_out(cli: Cli, few: Path) -> None:
    cli.node = few
    text = SPEC.replace("queues: [1, 2]", f"queues: [1, {FEW}, {FEW + 1}]").replace("[0 %, 50 %]", "[0 %]")
    done = cli("plan", cli.spec(text), "--json")
    assert done.returncode == 0, done.stderr
    (left,) = json.loads(done.stdout)["left_out"]
    assert left["point"].startswith(f"queues={FEW + 1}")
    assert left["reason"] == "needs 257 RX queues; this DPDK was built for 256 a port (RTE_MAX_QUEUES_PER_PORT)"
