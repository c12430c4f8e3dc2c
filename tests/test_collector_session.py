# SPDX-License-Identifier: BSD-3-Clause
"""Test collectors at work: tools that behave, die, hang, print garbage or do not end; recordings and replay."""

import errno
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from collector_samples import ROOT, Parse
from probed_program import running_program

from pollscope.base.errors import HostError, UsageError
from pollscope.base.names import COLLECTORS
from pollscope.collectors import polling, recording, tool
from pollscope.collectors.interface import Collector, CollectorOutcome, ProbeResult, Status
from pollscope.collectors.parsers.host import sysfs
from pollscope.collectors.parsers.pcm import iio
from pollscope.collectors.parsing import Problems
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.recording import Recording
from pollscope.collectors.registry import create, probe_all
from pollscope.collectors.replay import Replay
from pollscope.collectors.sample import SourceSample
from pollscope.collectors.session import CollectorSession, overhead_share
from pollscope.collectors.sources.dpdk_telemetry import DpdkTelemetry
from pollscope.collectors.sources.ethtool import Ethtool
from pollscope.collectors.sources.host import KernelLoad
from pollscope.collectors.tool import ToolCollector
from pollscope.host.disk_folder import filesystem_of, folder_on_disk

MakeTool = Callable[..., ToolCollector]

INTERVAL_NS = 50_000_000
SAMPLE = (
    "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"
    "Socket0,IIO Stack 1 - PCIe1,Part0,{n},2,3,4,50,6\n"
)
GOOD = f"""
    import time
    for n in range(1000):
        print({SAMPLE!r}.format(n=n), end="", flush=True)
        time.sleep(0.05)
"""


@pytest.fixture
def make_tool(tmp_path: Path) -> MakeTool:
    """Return a collector whose tool is a small Python program."""

    def make(name: str, source: str, parse: Parse = iio.parse) -> ToolCollector:
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\n{textwrap.dedent(source)}", encoding="utf-8")
        program.chmod(0o755)

        class Fake(ToolCollector):
            summary = "a program of the test"
            parser = staticmethod(parse)

            def arguments(self, interval_ns: int) -> list[str]:
                return []

        Fake.name, Fake.binary = name, str(program)
        return Fake()

    return make


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "_GRACE_S", 0.3)
    monkeypatch.setattr(tool, "_LEAST_SILENCE_NS", 300_000_000)
    monkeypatch.setattr(polling, "_PATIENCE_S", 0.3)


def times_ns(samples: Iterable[SourceSample]) -> list[int]:
    times = [sample.t_ns for sample in samples]
    assert None not in times
    return [t_ns for t_ns in times if t_ns is not None]


def run(
    collectors: Sequence[Collector], folder: Path, seconds: float, required: Sequence[str] = ()
) -> tuple[CollectorSession, list[SourceSample]]:
    session = CollectorSession(collectors, folder, INTERVAL_NS, required)
    session.start()
    session.mark("warmup")
    time.sleep(seconds / 2)
    session.mark("window")
    time.sleep(seconds / 2)
    session.stop()
    return session, list(session.samples())


ENDLESS = """
    import os, signal
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    while True:
        os.write(1, b"x" * 4096)
"""


@pytest.mark.thorough
def test_a_tool_that_prints_without_end_fills_no_disk(
    tmp_path: Path, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_BYTES", 3 << 20)
    endless, good = make_tool("endless", ENDLESS), make_tool("good", GOOD)
    session = CollectorSession([endless, good], tmp_path / "raw", INTERVAL_NS)
    session.start()
    path = tmp_path / "raw" / "endless.raw"
    while path.stat().st_size < (3 << 20) - (1 << 17):
        time.sleep(0.01)
    time.sleep(0.3)
    outcomes = session.stop()
    assert path.stat().st_size <= 3 << 20
    assert outcomes["endless"].status is Status.FAILED
    assert outcomes["endless"].reason.startswith("the recording was ended at 3 MiB")
    assert outcomes["good"].status is Status.OK


FLOOD = """
    import sys, time
    while True:
        print("x" * 65536, flush=True)
        time.sleep(0.01)
"""


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4096", "tmpfs", folder], check=True)
    (folder / "filler").write_bytes(bytes(4096))
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.one_in(3)
@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which needs root")
@pytest.mark.parametrize("source", [FLOOD, GOOD], ids=["while it records", "when it is closed"])
@pytest.mark.parametrize("file", ["raw", "pace"])
def test_a_disk_that_is_full_for_one_harms_no_other(
    make_tool: MakeTool, tmp_path: Path, full_disk: Path, source: str, file: str
) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / f"unlucky.{file}").symlink_to(full_disk / file)
    collectors = [make_tool("before", GOOD), make_tool("unlucky", source), KernelLoad(), make_tool("after", GOOD)]
    session = CollectorSession(collectors, folder, INTERVAL_NS)
    session.start()
    time.sleep(0.4)
    said = {name: (outcome.status, outcome.reason) for name, outcome in session.stop().items()}
    unlucky = said.pop("unlucky")
    assert unlucky == (Status.FAILED, "the recording cannot be written: No space left on device")
    assert said == dict.fromkeys(("before", "kernel-load", "after"), (Status.OK, ""))
    assert {sample.source for sample in session.samples()} >= {"before", "after"}


MOUNTS = """\
/dev/vda1 / ext4 rw 0 0
tmpfs {tmp} tmpfs rw 0 0
/dev/vdb1 {tmp}/on\\040disk xfs rw 0 0
ramfs {tmp}/ram ramfs rw 0 0
"""


def test_recordings_are_not_kept_in_the_hosts_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts, disk, ram = tmp_path / "mounts", tmp_path / "on disk", tmp_path / "ram"
    for folder in (disk, ram):
        folder.mkdir()
    mounts.write_text(MOUNTS.format(tmp=tmp_path))
    assert [filesystem_of(each, mounts) for each in (Path("/"), tmp_path, disk / "a", ram)] == [
        "ext4",
        "tmpfs",
        "xfs",
        "ramfs",
    ]
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert folder_on_disk(mounts, (str(ram), str(disk))) == disk
    assert folder_on_disk(mounts, (str(ram),)) == tmp_path
    assert folder_on_disk(tmp_path / "no-mounts", (str(disk),)) == tmp_path
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert folder_on_disk(mounts, (str(disk),)) == tmp_path


def test_samples_of_several_collectors_are_on_one_clock(make_tool: MakeTool, tmp_path: Path) -> None:
    began = time.monotonic_ns()
    session, samples = run([make_tool("iio", GOOD), KernelLoad()], tmp_path / "run", 0.8)
    assert {name: outcome.status for name, outcome in session.outcomes.items()} == {"iio": "ok", "kernel-load": "ok"}
    for source in ("iio", "kernel-load"):
        times = times_ns(sample for sample in samples if sample.source == source)
        assert times == sorted(times)
        assert began < times[0] <= times[-1] < time.monotonic_ns()
    assert {session.phase_of(sample.t_ns) for sample in samples} >= {"warmup", "window"}
    writes = [sample.value for sample in samples if sample.metric == "dma_write"]
    assert writes == list(range(len(writes)))
    assert writes
    assert any(sample.metric == "iotlb.hits" and sample.value == 44 for sample in samples)


def test_cpu_use_is_measured(make_tool: MakeTool, tmp_path: Path) -> None:
    burner = make_tool("burner", "import time\nprint('x', flush=True)\nwhile time.process_time() < 30: pass\n")
    session, _ = run([burner, KernelLoad()], tmp_path / "run", 0.6)
    burnt, read = (overhead_share(session.outcomes[name]) for name in ("burner", "kernel-load"))
    assert burnt is not None and burnt > 0.2
    assert read is not None and 0 < read < 0.5


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("source", "status", "reason"),
    [
        (f"print({SAMPLE!r}.format(n=1), flush=True)\nraise SystemExit('MSR gone')", Status.FAILED, "MSR gone"),
        (
            "import sys\nprint('Unsupported processor model (167).', file=sys.stderr)\nsys.exit(1)",
            Status.FAILED,
            "does not know this processor",
        ),
        (f"import time\nprint({SAMPLE!r}.format(n=1), flush=True)\ntime.sleep(60)", Status.HUNG, "gave nothing for"),
        ("import time\ntime.sleep(60)", Status.HUNG, "gave nothing for"),
        (
            "import os, time\nwhile True: os.write(1, os.urandom(999)), time.sleep(0.05)",
            Status.FAILED,
            "no pcm-iio header",
        ),
    ],
    ids=["dies", "unsupported", "hangs", "silent", "rubbish"],
)
def test_a_failing_tool_is_reported_and_harms_no_other_collector(
    make_tool: MakeTool, tmp_path: Path, impatient: None, source: str, status: Status, reason: str
) -> None:
    session, samples = run([make_tool("bad", source), KernelLoad()], tmp_path / "run", 0.7, required=["bad"])
    assert session.outcomes["bad"].status == status
    assert reason in session.outcomes["bad"].reason
    assert session.outcomes["kernel-load"].status == Status.OK
    assert any(sample.source == "kernel-load" for sample in samples)
    assert [outcome.collector for outcome in session.failed_required()] == ["bad"]


def test_a_tool_that_does_not_want_to_end_is_killed(make_tool: MakeTool, tmp_path: Path, impatient: None) -> None:
    stubborn = make_tool(
        "stubborn",
        "import os, signal, time\nfor n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True)\ntime.sleep(60)\n",
    )
    session, _ = run([stubborn], tmp_path / "run", 0.6)
    pid = int((tmp_path / "run" / "stubborn.raw").read_text())
    assert not Path(f"/proc/{pid}").exists()
    assert session.outcomes["stubborn"].cpu_ns is not None


def test_no_tool_is_left_behind_when_we_are_killed(make_tool: MakeTool, tmp_path: Path) -> None:
    program = make_tool("lasting", "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n").binary
    code = f"""
        import time
        from pathlib import Path
        from pollscope.collectors.tool import ToolCollector
        class Lasting(ToolCollector):
            name, summary, binary = "lasting", "", {program!r}
            def arguments(self, interval_ns):
                return ()
        Lasting().start(Path({str(tmp_path)!r}), 1)
        time.sleep(60)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT)
    raw = tmp_path / "lasting.raw"
    deadline = time.monotonic() + 20
    while not (raw.exists() and raw.read_text().strip()) and time.monotonic() < deadline:
        # the recorder keeps the first piece in its buffer: find the tool as a child instead
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        if children:
            break
        time.sleep(0.05)
    child = int(children[0])
    time.sleep(0.3)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()


class Failing(PollingCollector):
    name, summary = "failing", "reads what is not there"
    parser = staticmethod(sysfs.parse)

    def probe(self) -> ProbeResult:
        return ProbeResult(True, "")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", Path("/nonexistent/file").read_bytes()


class Stuck(Failing):
    name = "stuck"

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        time.sleep(5)
        yield "", b"/a=1\n"


class Unstoppable(Failing):
    name = "unstoppable"

    def stop(self) -> CollectorOutcome:
        super().stop()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Absent(Failing):
    name = "absent"

    def probe(self) -> ProbeResult:
        return ProbeResult(False, "no such hardware")


def test_collectors_that_fail_hang_are_absent_or_cannot_be_stopped_say_so(tmp_path: Path, impatient: None) -> None:
    session, samples = run([Failing(), Stuck(), KernelLoad(), Unstoppable(), Absent()], tmp_path / "run", 1.5)
    said = {name: (outcome.status, outcome.reason) for name, outcome in session.outcomes.items()}
    gave_up = "gave up after 3 failures: [Errno 2] No such file or directory: '/nonexistent/file'"
    assert said == {
        "failing": (Status.FAILED, gave_up),
        "stuck": (Status.HUNG, "a read has not returned for 0 s"),
        "kernel-load": (Status.OK, ""),
        "unstoppable": (Status.FAILED, "[Errno 28] No space left on device"),
        "absent": (Status.ABSENT, "no such hardware"),
    }
    times = times_ns(sample for sample in samples if sample.source == "kernel-load")
    assert max(times) - min(times) > 0.7e9, "it went on without the one that hangs"


def test_a_recording_replays_with_its_values_and_its_pace(make_tool: MakeTool, tmp_path: Path) -> None:
    first = make_tool("iio", GOOD)
    _, recorded = run([first], tmp_path / "first", 0.6)
    replay = Replay(make_tool("iio", GOOD), tmp_path / "first" / "iio.raw")
    session, replayed = run([replay], tmp_path / "second", 1.2)
    assert session.outcomes["iio"].status == Status.OK
    assert [(s.metric, s.value) for s in replayed] == [(s.metric, s.value) for s in recorded]
    gaps = [[b - a for a, b in itertools.pairwise(sorted(set(times_ns(samples))))] for samples in (recorded, replayed)]
    assert sum(gaps[1]) == pytest.approx(sum(gaps[0]), rel=0.2)


def test_a_bare_output_replays_one_sample_per_interval(make_tool: MakeTool, tmp_path: Path) -> None:
    output = tmp_path / "output.csv"
    output.write_text("".join(SAMPLE.format(n=n) for n in range(4)), encoding="utf-8")
    session, samples = run([Replay(make_tool("iio", GOOD), output)], tmp_path / "run", 0.6)
    times = times_ns(sample for sample in samples if sample.metric == "dma_write")
    assert len(times) == 4
    began_ns = session.outcomes["iio"].started_ns
    assert all(at_ns - began_ns >= number * INTERVAL_NS for number, at_ns in enumerate(times))


def test_a_recording_cut_by_a_crash_is_read_as_far_as_it_goes(make_tool: MakeTool, tmp_path: Path) -> None:
    collector = make_tool("iio", GOOD)
    _, samples = run([collector], tmp_path / "run", 1.0)  # also on a busy machine several samples come
    raw = tmp_path / "run" / "iio.raw"
    raw.write_bytes(raw.read_bytes()[:-20])
    again = list(collector.parse_recording(Recording.open(raw), Problems()))
    writes = [reading.get("dma_write") for reading in again if reading.get("dma_write") is not None]
    assert writes == list(range(len(writes)))
    assert 0 < len(writes) < len([s for s in samples if s.metric == "dma_write"])


@pytest.mark.parametrize("head", ['{"format": 2, "source": "x", "kind": "stream"}', "rubbish", ""])
def test_a_recording_of_another_format_is_refused(tmp_path: Path, head: str) -> None:
    (tmp_path / "x.raw").write_bytes(b"data")
    (tmp_path / "x.pace").write_text(head + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"format 2|no pace"):
        Recording.open(tmp_path / "x.raw")


class Dpdk:
    """Answer as DPDK 22.11 does; `ipackets` grows with each request."""

    def __init__(self) -> None:
        self._packets = itertools.count(1000, 1000)

    def reply(self, request: str) -> object:
        return {
            "/ethdev/list": [0],
            "/ethdev/stats": {"ipackets": next(self._packets), "imissed": 3, "q_ipackets": [0] * 16},
            "/ethdev/xstats": {"rx_q0_packets": 7},
        }.get(request.partition(",")[0])


def test_dpdk_telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with running_program(tmp_path, Dpdk()):
        collector = DpdkTelemetry()
        assert collector.probe().available
        session, samples = run([collector], tmp_path / "run", 0.4)
    assert session.outcomes["dpdk-telemetry"].status == Status.OK
    received = [s.value for s in samples if (s.unit_path, s.metric) == ("port0", "ipackets")]
    assert received == sorted({value for value in received if isinstance(value, int)})
    assert len(received) >= 2  # at start and at stop; how often in between is the machine's affair
    assert {s.value for s in samples if s.metric == "nic.rx_no_descriptor"} == {3}
    assert {s.value for s in samples if s.unit_path == "port0/rx_queue0"} == {7}
    assert not [s for s in samples if "q_ipackets" in s.metric]
    usage = [s for s in samples if s.metric == "eal.lcore.usage"]
    assert usage
    assert all(s.value is None and "null" in s.reason for s in usage)


def test_dpdk_telemetry_without_an_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dpdk" / "rte").mkdir(parents=True)
    left_behind = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    left_behind.bind(str(tmp_path / "dpdk" / "rte" / "dpdk_telemetry.v2"))
    left_behind.close()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    collector = DpdkTelemetry()
    assert "no DPDK application" in collector.probe().reason
    with pytest.raises(HostError, match="no DPDK application"):
        collector.start(tmp_path, INTERVAL_NS)


def test_every_collector_is_available_or_says_precisely_why_not() -> None:
    found = probe_all()
    assert set(found) == set(COLLECTORS)
    assert all(availability.reason and "\n" not in availability.reason for availability in found.values())
    assert found["kernel-load"].available


def test_ethtool_reads_what_the_kernel_has(tmp_path: Path) -> None:
    if not Ethtool().probe().available:
        pytest.skip(Ethtool().probe().reason)
    session, samples = run([Ethtool()], tmp_path / "run", 0.2)
    assert session.outcomes["ethtool"].status == Status.OK
    assert all(sample.unit_path.startswith("port:") for sample in samples)


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(UsageError, match="no collector 'pcm-ioi'"):
        create("pcm-ioi")
    with pytest.raises(UsageError, match="has no option colour"):
        create("ethtool", colour="red")
