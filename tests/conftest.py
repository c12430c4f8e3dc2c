# SPDX-License-Identifier: BSD-3-Clause
"""Give all tests the paths of the checkout and of the built C programs."""

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis
import pytest
from chromium import Chromium, chromium_or_skip
from dut_node import LCORES, Node, running_node
from gen_node import Generator, running_generator
from run_helpers import Cli
from ssh_host import SshHost, running_sshd

from pollscope.cli import GARBAGE_EVERY
from pollscope.host.eal_folders import runtime_folder
from pollscope.host.lock import HostLock

CHECKOUT = Path(__file__).resolve().parent.parent
BUILD_VARIABLE = "POLLSCOPE_BUILD"  # another folder than build/, for instance while `make run` uses that one

# A developer's run tries a few new examples; CI many, the same ones for the same code: it judges the change, not the
# draw. How long an example takes is the machine's business.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=200)
hypothesis.settings.register_profile("developer", deadline=None, max_examples=10)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "developer")

# The cache of make: most files that tests compile were compiled before.
os.environ["CCACHE_DIR"] = str(CHECKOUT / ".cache/ccache")


def pytest_runtest_setup() -> None:
    """Restore SIGINT: background processes of a script and ended commands ignore it, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most cases of a sweep thorough, and run measuring tests again after a failure.

    A busy host may fail one or two of these, so only three failures count.
    """
    cases: Counter[str] = Counter()
    for item in items:
        if sweep := item.get_closest_marker("one_in"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % sweep.args[0]:
                item.add_marker(pytest.mark.thorough)
            cases[test] += 1
        if item.get_closest_marker("measure"):
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection: they stay to the end and need no thousand searches."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_EVERY)


def pytest_sessionfinish() -> None:
    """Remove the folders of EAL that this process's tests left behind."""
    for path in runtime_folder().glob(f"*-{os.getpid()}"):
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a measuring test wait for runs and benchmarks on this host, and keep them away meanwhile.

    What the test starts itself has a state folder, and so a lock, of its own.
    """
    if request.node.get_closest_marker("measure") is None:
        yield
        return
    with HostLock(f"test {request.node.name}").wait(lambda text: print(text, file=sys.stderr)):
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options of single tests."""
    parser.addoption("--crossings", type=int, default=0, help="test_crossings: drawn faults for each row instead")
    parser.addoption("--sequences", type=int, default=20_000, help="test_reordering: generated sequences to compare")


def _build(folder: Path, options: Sequence[str] = (), targets: Sequence[str] = ()) -> Path:
    """Configure (once) and build the C side, or targets of it; up to date when this returns.

    Parallel test processes take turns.
    """
    (CHECKOUT / ".cache").mkdir(exist_ok=True)
    with (CHECKOUT / f".cache/{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "build.ninja").exists():
            _tell("meson", "setup", str(folder), str(CHECKOUT / "apps"), *options)
        _tell("ninja", "-C", str(folder), *targets)
    return folder


def _tell(*command: str) -> None:
    done = subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}"


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Return the top folder of the project."""
    return CHECKOUT


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """Return the folder with pollscope-node, librte_net_crossover.so and the C tests, up to date."""
    return _build(Path(os.environ.get(BUILD_VARIABLE, CHECKOUT / "build")))


@pytest.fixture(scope="session")
def asan_build_dir() -> Path:
    """Build only the driver's suite under sanitizers (address, undefined behaviour): the node's loops take minutes."""
    options = ("-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1")
    return _build(CHECKOUT / "build-asan", options, ("tests-driver",))


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Return a node whose DUT and generator two virtual NIC pairs join, on the module's LCORES if it has any."""
    lcores = getattr(request.module, "LCORES", LCORES)
    with running_node(build_dir, tmp_path_factory.mktemp("node") / "log", lcores=lcores) as running:
        yield running


@pytest.fixture(scope="module")
def generator(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    """Return a node whose generator sends from one end of a virtual NIC pair to the other."""
    with running_generator(build_dir, tmp_path_factory.mktemp("gen") / "node.log") as one:
        yield one


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Chromium:
    """Return a browser, or skip the test where there is none."""
    return chromium_or_skip(tmp_path_factory.mktemp("chromium"))


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    """Return a host behind SSH, which is this one."""
    with running_sshd(tmp_path_factory.mktemp("sshd")) as host:
        yield host


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return a command line in a folder of its own."""
    (tmp_path / "cli").mkdir()
    return Cli(tmp_path / "cli")
