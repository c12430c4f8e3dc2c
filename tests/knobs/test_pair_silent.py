# SPDX-License-Identifier: BSD-3-Clause
"""Test a network or a controller that falls silent without closing a connection: the hosts are restored."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from knob_tree import Tree, wait_until
from pair_hosts import SPEC, pair_config, written
from run_helpers import Cli, assert_complete
from silent_network import THERE, SilentNetwork, silent_network
from ssh_host import SshHost, running_sshd
from test_pair_remote_hosts import ENDLESS, KNOBS, SWEEP, agents_of

from pollscope.host.lock import HostLock
from pollscope.testbeds.pair.ssh import Remote

GIVEN_BACK_S = 60.0  # docs/two-servers.md
ROLES = ("dut", "generator")
# A window in which the network falls silent and heals.
SLOW = (SWEEP + KNOBS).replace("window: 100 ms", "window: 3 s")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


@pytest.fixture
def network() -> Iterator[SilentNetwork]:
    with silent_network() as made:
        yield made


@pytest.fixture
def far(network: SilentNetwork, tmp_path: Path) -> Iterator[SshHost]:
    """Return a host at the other end of a cable, whose sshd sends no keep-alive."""
    folder = tmp_path / "far"
    folder.mkdir()
    inside, reached_from = network.inside_there(), network.inside_here()
    with running_sshd(folder, inside=inside, address=THERE, reached_from=reached_from) as host:
        yield host


def test_a_host_is_restored_within_a_minute() -> None:
    assert Remote(host="far").heartbeat_timeout_s <= GIVEN_BACK_S / 2, "the rest is for what restoring takes"


@pytest.mark.thorough  # see test_remote_lines.py and test_pair_remote_hosts.py as well
def test_knobs_are_restored_while_packets_are_dropped(
    cli: Cli, network: SilentNetwork, far: SshHost, tmp_path: Path, tree: Tree
) -> None:
    before = tree.picture()
    testbed = written(tmp_path / "two.yaml", pair_config(far, tmp_path, {"knob_root": str(tree.root)}))
    cli.inside = network.inside_here()
    process = cli.start("run", cli.spec(SLOW), "--testbed", testbed)
    wait_until(lambda: tree.picture() != before and len(far.connections()) >= 4)
    cut_s = time.monotonic()
    network.fall_silent()
    wait_until(lambda: tree.picture() == before, GIVEN_BACK_S)
    wait_until(lambda: not any(agents_of(tmp_path / role / "state") for role in ROLES), GIVEN_BACK_S)
    for role in ROLES:
        with HostLock("the next run", tmp_path / role / "state/host.lock"):
            pass
    assert time.monotonic() - cut_s < GIVEN_BACK_S
    network.heal()
    _, err = process.communicate(timeout=250)
    assert "Traceback" not in err
    assert tree.picture() == before
    resumed = cli.start("run", "--resume", cli.run_folders()[0], "--testbed", testbed)
    out, err = resumed.communicate(timeout=250)
    assert resumed.returncode == 0, out + err
    assert_complete(cli.only_run())
    assert tree.picture() == before


@pytest.mark.thorough
def test_a_stopped_controller_keeps_no_host(cli: Cli, sshd: SshHost, tmp_path: Path, tree: Tree) -> None:
    """Its connections stay open, because the kernel acknowledges packets; the next controller finds the hosts free."""
    before = tree.picture()
    testbed = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path, {"knob_root": str(tree.root)}))
    process = cli.start("run", cli.spec(ENDLESS), "--testbed", testbed)
    wait_until(lambda: tree.picture() != before and len(sshd.connections()) >= 4)
    stopped = [process.pid, *_children(process.pid)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: tree.picture() == before)
        assert len(sshd.connections()) >= 4
        (tmp_path / "other").mkdir()
        other = Cli(tmp_path / "other")
        done = other("run", other.spec(SPEC), "--testbed", testbed)
        assert done.returncode == 0, done.stderr
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
