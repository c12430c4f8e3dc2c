# SPDX-License-Identifier: BSD-3-Clause
"""Run each command that docs/your-program.md shows, and check that both ends of the pair count the same.

The programs are the distribution's: testpmd and Open vSwitch from packages, the examples from DPDK's source.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testpmd import remove_leftovers, require_testpmd, totals

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = CHECKOUT / "docs/your-program.md"
BLOCK = re.compile(r"^```console (programs|ovs)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = ["l2fwd", "l3fwd", "l3fwd-power"]
OVS_DAEMON = Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
NOT_TO_BE_HAD = 3  # exit code of fetch-driver-sdk
START_LIMIT_S, END_LIMIT_S, RUN_LIMIT_S, COUNT_LIMIT_S = 60, 20, 60, 20
SENT_A, SENT_B = 20_000, 10_000  # destinations of the page's two senders: routed to port 0, to port 1
BURST = 32

pytestmark = [pytest.mark.measure, pytest.mark.timeout(600)]


def section(title: str) -> list[str]:
    """Return the commands under a heading, without `$ `."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, title
    lines = [line for _, block in BLOCK.findall(found[1]) for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


def telemetry(prefix: str, command: str) -> dict[str, object]:
    """Return the answer of a running DPDK program; empty while it has no socket or no such port."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(END_LIMIT_S)
        try:
            connection.connect(f"/var/run/dpdk/{prefix}/dpdk_telemetry.v2")
        except OSError:
            return {}
        connection.recv(16384)
        connection.send(command.encode())
        answer = json.loads(connection.recv(1 << 20))[command.split(",")[0]]
    return answer if isinstance(answer, dict) else {}


def wait_for(what: Callable[[], bool], limit_s: float, failed: Callable[[], str]) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, failed()
        time.sleep(0.1)


class Session:
    """Commands of the page, run as a shell would: `&` and `kill -INT %N`. Only an EAL file prefix is added."""

    def __init__(self, build_dir: Path, folder: Path) -> None:
        self.build_dir, self.folder = build_dir, folder
        self.prefix = f"tests-{os.getpid()}"
        self.jobs: list[subprocess.Popen[bytes]] = []

    def words(self, line: str) -> list[str]:
        words = shlex.split(line.replace("$PWD/build", str(self.build_dir)))
        words[0] = re.sub(r"^build/", f"{self.build_dir}/", words[0])
        return [words[0], f"--file-prefix={self.prefix}", *words[1:]] if "--no-pci" in words else words

    def run(self, line: str) -> None:
        if line.endswith(" &"):
            self.start(line.removesuffix(" &"))
        elif line.startswith("kill -INT %"):
            self.end(int(line.rpartition("%")[2]))
        else:
            done = subprocess.run(
                self.words(line), cwd=CHECKOUT, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
            )
            if done.returncode == NOT_TO_BE_HAD and "fetch-driver-sdk" in line:
                pytest.skip(done.stderr.strip())
            assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def start(self, line: str) -> None:
        """Start it and wait until it forwards: the ports have carrier, and a secondary process has come up."""
        with (self.folder / f"job{len(self.jobs) + 1}").open("wb") as said:
            self.jobs.append(
                subprocess.Popen(
                    ["stdbuf", "-oL", *self.words(line)],
                    cwd=CHECKOUT,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                )
            )
        number = len(self.jobs)
        wait_for(lambda: self.is_up(number), START_LIMIT_S, lambda: f"{line}\n{self.said(number)[-3000:]}")

    def is_up(self, number: int) -> bool:
        assert self.jobs[number - 1].poll() is None, self.said(number)[-3000:]
        if number > 1:
            return "Port statistics" in self.said(number)
        return telemetry(self.prefix, "/ethdev/link_status,0").get("status") == "UP"

    def end(self, number: int) -> None:
        self.jobs[number - 1].send_signal(signal.SIGINT)
        assert self.jobs[number - 1].wait(END_LIMIT_S) == 0, self.said(number)[-3000:]

    def said(self, number: int) -> str:
        return (self.folder / f"job{number}").read_text(errors="replace")

    def counts(self, port: int) -> dict[str, int]:
        return {name: int(str(value)) for name, value in telemetry(self.prefix, f"/ethdev/xstats,{port}").items()}

    def await_count(self, port: int, name: str, wanted: int) -> None:
        wait_for(lambda: self.counts(port)[name] >= wanted, COUNT_LIMIT_S, lambda: f"port {port}: {self.counts(port)}")


@pytest.fixture
def session(build_dir: Path, tmp_path: Path) -> Iterator[Session]:
    require_testpmd()
    it = Session(build_dir, tmp_path)
    try:
        yield it
    finally:
        for job in it.jobs:
            job.kill()
            job.wait()
        remove_leftovers(it.prefix)


@pytest.fixture(scope="module")
def built(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Build as the page says, from the distribution's source; skip the tests if that is not available."""
    require_testpmd()
    session = Session(build_dir, tmp_path_factory.mktemp("examples"))
    for line in section("The examples of DPDK"):
        session.run(line)


@pytest.fixture
def examples(session: Session, built: None) -> Session:
    return session


def assert_accounts(sender: dict[str, int], receiver: dict[str, int]) -> None:
    """Check that every frame that one port sent is accounted for once at the other."""
    taken = ("rx_good_packets", "rx_missed_errors", "rx_errors", "rx_filtered_packets")
    assert sender["tx_good_packets"] == sum(receiver[name] for name in taken)


def test_every_command_of_the_page_has_a_test() -> None:
    tested = {"testpmd", "The examples of DPDK", *EXAMPLES, "Open vSwitch", "A secondary process"}
    shown = {title for title in re.findall(r"^##+ (.*)$", PAGE.read_text(), re.MULTILINE) if section(title)}
    assert shown == tested


@pytest.mark.thorough
def test_testpmd_sends_frames_round(session: Session) -> None:
    (line,) = section("testpmd")
    session.start(line)
    session.await_count(0, "rx_good_packets", 100_000)
    session.end(1)
    said = session.said(1)
    assert totals(said)["RX-packets"] > 100_000
    ports = [
        {name: int(value) for name, value in re.findall(r"([RT]X-\w+): *(\d+)", part)}
        for part in re.findall(r"Forward statistics for port \d(.*?)-----------------------\n", said, re.DOTALL)
    ]
    assert ports[0]["TX-packets"] == ports[1]["RX-packets"] + ports[1]["RX-dropped"]
    assert ports[1]["TX-packets"] == ports[0]["RX-packets"] + ports[0]["RX-dropped"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("program", ["l3fwd", "l3fwd-power"])
def test_routers_forward_what_a_sender_sends(examples: Session, program: str) -> None:
    """By its routes: without packet types l3fwd-power forwards nothing, and l3fwd all to the port it came from."""
    *lines, last = section(program)
    for line in lines:
        examples.run(line)
    examples.await_count(1, "rx_filtered_packets", SENT_A)
    examples.await_count(0, "rx_filtered_packets", SENT_B)
    a, b = examples.counts(0), examples.counts(1)
    assert a["rx_good_packets"] == b["tx_q0_packets"] == SENT_A + SENT_B
    assert (a["tx_good_packets"], a["rx_missed_errors"]) == (a["tx_q1_packets"], 0) == (SENT_A, 0)
    assert b["tx_q1_packets"] == a["rx_filtered_packets"] == SENT_B
    assert_accounts(a, b)
    assert_accounts(b, a)
    examples.run(last)
    assert "RX offload" not in examples.said(1) and "ptype" not in examples.said(1)


def l2fwd_counts(said: str) -> list[list[int]]:
    """Return packets sent, received and dropped by port of its last whole table."""
    tables = re.findall(r"Statistics for port 0(.*?)Aggregate statistics", said, re.DOTALL)
    numbers = [int(value) for value in re.findall(r"Packets \w+: *(\d+)", tables[-1])] if tables else [0] * 6
    return [numbers[:3], numbers[3:]]


def test_l2fwd_forwards_what_the_ports_feed(examples: Session) -> None:
    start, end = section("l2fwd")
    examples.run(start)
    examples.await_count(0, "tx_good_packets", 100_000)
    before = [examples.counts(port) for port in (0, 1)]
    reached = [counts["tx_good_packets"] for counts in before]

    def shows_more() -> bool:
        return all(shown[0] > sent for shown, sent in zip(l2fwd_counts(examples.said(1)), reached, strict=True))

    wait_for(shows_more, COUNT_LIMIT_S, lambda: examples.said(1)[-3000:])
    shown = l2fwd_counts(examples.said(1))
    after = [examples.counts(port) for port in (0, 1)]
    for port, (sent, received, dropped) in enumerate(shown):
        assert before[port]["tx_good_packets"] <= sent <= after[port]["tx_good_packets"] + BURST
        assert before[port]["rx_good_packets"] - BURST <= received <= after[port]["rx_good_packets"]
        assert 0 <= shown[1 - port][1] - sent - dropped <= 2 * BURST  # one burst in processing, one in its TX buffer
    examples.run(end)


@pytest.mark.thorough
def test_secondary_process_sends_to_the_primary(session: Session) -> None:
    primary, secondary, end_secondary, end_primary = section("A secondary process")
    session.run(primary)
    session.run(secondary)
    session.await_count(0, "tx_q1_packets", 10_000)
    session.run(end_secondary)
    sent = totals(session.said(2))["TX-packets"]
    a, b = session.counts(0), session.counts(1)
    assert sent == a["tx_q1_packets"] + b["tx_q1_packets"] == a["tx_good_packets"] + b["tx_good_packets"]
    assert_accounts(a, b)
    assert_accounts(b, a)
    session.run(end_primary)
    assert totals(session.said(1))["RX-packets"] > 10_000


class OpenVswitch:
    """The page's Open vSwitch in a folder of its own; the wire instead of `feed=infinite` if asked."""

    def __init__(self, build_dir: Path, folder: Path, feed: str) -> None:
        self.folder = folder
        *self.up, self.cycles, self.statistics, self.down = [
            line.replace("$PWD/build", str(build_dir)).replace("feed=infinite", f"feed={feed}")
            for line in section("Open vSwitch")
        ]
        self.exports = [line for line in self.up if line.startswith("export ")]

    def sh(self, *lines: str) -> str:
        """Return the output of these lines of the page or the test in a shell in that folder."""
        done = subprocess.run(
            ["bash", "-ec", "\n".join([*self.exports, *lines])],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=(said := (self.folder / "said").open("w+")),
            stderr=subprocess.STDOUT,
            timeout=RUN_LIMIT_S,
            check=False,
        )
        said.seek(0)
        text = said.read()
        said.close()
        assert done.returncode == 0, text[-3000:]
        return text

    def counts(self, port: str) -> dict[str, int]:
        """Return the driver's counters from Open vSwitch, which reads them every 5 s or on request."""
        said = self.sh(self.statistics.replace("Interface a", f"Interface {port}"))
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", said)}

    def received(self) -> int:
        """Return the packets that its PMD thread counted."""
        return int(re.findall(r"packets received: (\d+)", self.sh(self.cycles))[0])


@pytest.fixture(params=["infinite", "wire"])
def vswitch(request: pytest.FixtureRequest, build_dir: Path, tmp_path: Path) -> Iterator[OpenVswitch]:
    require_testpmd()
    if not OVS_DAEMON.exists() or shutil.which("ovsdb-server") is None:
        pytest.skip("openvswitch-switch-dpdk is not installed")
    it = OpenVswitch(build_dir, tmp_path, request.param)
    try:
        it.sh(*it.up)
        yield it
    finally:
        pids = [int(file.read_text()) for file in tmp_path.glob("ovs/*.pid")]
        it.sh(it.down)
        wait_for(lambda: not any(is_alive(pid) for pid in pids), END_LIMIT_S, lambda: "Open vSwitch does not end")
        remove_leftovers("ovs")


def is_alive(pid: int) -> bool:
    """Return whether it runs; an ended daemon may stay a zombie if no process reaps it."""
    status = Path(f"/proc/{pid}/status")
    return status.exists() and not re.search(r"^State:\s+Z", status.read_text(), re.MULTILINE)


ROUND = "ff" * 6 + "0200000000ff" + "88b5" + "00" * 46  # broadcast, a local experimental EtherType (IEEE 802)


def test_open_vswitch_finds_the_ports_by_mac_and_forwards(vswitch: OpenVswitch, request: pytest.FixtureRequest) -> None:
    wired = request.node.callspec.params["vswitch"] == "wire"
    if wired:  # one frame that leaves by b comes to a, and so on
        vswitch.sh(f"ovs-ofctl packet-out br0 in_port=controller,packet={ROUND},actions=b")
    wait_for(lambda: vswitch.received() > 100_000, COUNT_LIMIT_S, lambda: vswitch.sh(vswitch.cycles))
    if not wired:
        before, counted = vswitch.received(), vswitch.received()
        assert counted > before
        wait_for(
            lambda: vswitch.counts("a")["rx_packets"] + vswitch.counts("b")["rx_packets"] >= counted,
            COUNT_LIMIT_S,
            lambda: str(vswitch.counts("a")),
        )
        return
    vswitch.sh("ovs-ofctl add-flow br0 priority=40000,in_port=a,actions=drop")
    wait_for(lambda: vswitch.received() == vswitch.received(), COUNT_LIMIT_S, lambda: vswitch.sh(vswitch.cycles))
    time.sleep(6)  # until it has read the ports' counters again
    a, b = vswitch.counts("a"), vswitch.counts("b")
    assert (a["tx_packets"], b["rx_packets"]) == (0, 0)
    assert a["rx_packets"] == b["tx_packets"] == vswitch.received() > 100_000
