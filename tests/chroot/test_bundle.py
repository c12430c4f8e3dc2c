# SPDX-License-Identifier: BSD-3-Clause
"""Run a bundle on bare systems: no Python, no DPDK, no network, and a user without rights."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import debian
import pytest
from test_pack import bundle_of

pytestmark = [pytest.mark.chroot, pytest.mark.timeout(1800)]
USER = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/tmp"]
BARE = "! command -v python3 && ! ls /usr/lib/*/dpdk && ! ls /lib/*/librte_* && ! grep eth /proc/net/dev"
COMMANDS = """set -e
cd /bundle && sha256sum --check --quiet SHA256SUMS && cd /tmp
/bundle/pollscope run S-F16 --quick
/bundle/pollscope report latest
/bundle/pollscope claims latest
/bundle/pollscope query 'SELECT count(*) FROM trials'
/bundle/pollscope pack --runs runs.tar.gz
"""


@pytest.fixture(scope="module")
def bundle(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(checkout, tmp_path_factory.mktemp("bundle"))


@pytest.fixture(params=["bookworm", "trixie", "noble"])
def bare(request: pytest.FixtureRequest, make_system: debian.MakeSystem) -> Iterator[debian.System]:
    """Yield a minimal system in a network namespace of its own."""
    with make_system(request.param, []) as system:
        yield replace(system, inside=("unshare", "--net"))


def test_a_bundle_runs_on_a_bare_system(bare: debian.System, bundle: Path) -> None:
    for command in (["sh", "-c", BARE], [*USER, "sh", "-c", COMMANDS]):
        done = bare.run(command, binds={bundle: "/bundle"})
        assert done.returncode == 0, done.stdout[-4000:]
