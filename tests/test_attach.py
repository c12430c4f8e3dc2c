# SPDX-License-Identifier: BSD-3-Clause
"""Attach to a program whose tax is known by construction: list, table, JSON, Prometheus' file, run folder."""

import errno
import io
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import pollscope
from polling_thread import PollingThread
from probed_program import ProbedProgram, running_program

from pollscope.analysis.run_section import run_section
from pollscope.attach import openmetrics, programs
from pollscope.attach.programs import find_program, look_at, running_programs
from pollscope.attach.recording import AttachedRun
from pollscope.attach.table import HEADER, WIDTH, lines
from pollscope.base.errors import DiskError, HostError, UsageError
from pollscope.host.telemetry_socket import SOCKET_NAME, TelemetrySocket
from pollscope.metrics.probed import ProbedClasses
from pollscope.node.observation import CounterReading, Observer, shares
from pollscope.node.probe import Probe
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run
from pollscope.store.writer import RESERVE_FILE, RunWriter

PPS, QUEUES, LOADED = 5e6, 8, 2
in_containers = programs._in_containers  # fixture `program` replaces it
Cli = Callable[..., str]


def truth() -> PollingThread:
    """Return the same thread after a long time at its own pace."""
    thread = PollingThread(pps=PPS, queues=QUEUES, loaded=LOADED)
    thread.observe(4, 1e4, 2e6)
    return thread


@pytest.fixture(scope="module")
def own_pace() -> PollingThread:
    return truth()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProbedProgram]:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    monkeypatch.setattr("pollscope.attach.programs._in_containers", list)  # programs of other tests
    monkeypatch.chdir(tmp_path)
    it = ProbedProgram(PollingThread(pps=PPS, queues=QUEUES, loaded=LOADED))
    with running_program(tmp_path, it):
        yield it


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def run(*words: str, code: int = 0) -> str:
        done = pollscope("attach", *words, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_list_names_lcores_ports_and_what_a_probe_cannot_see(program: ProbedProgram, cli: Cli) -> None:
    said = cli("--list")
    assert f"pid {os.getpid()}, file prefix rte, DPDK 22.11.11" in said
    assert "worker lcores 1, 2" in said
    assert "port 0 net_crossover0_a, driver net_crossover, RX queues 8, TX queues 1" in said
    assert "probe: in it" in said
    assert "not seen by a probe: 1 crypto device; 1 ring" in said
    (listed,) = json.loads(cli("--list", "--json"))
    assert listed["probe"] is True and listed["unseen"] == ["1 crypto device", "1 ring", "kernel work"]


def test_program_without_probe_is_refused_with_what_to_do(program: ProbedProgram, cli: Cli) -> None:
    program.probe = False
    assert "not in it" in cli("--list")
    said = cli("rte", "--seconds", "1", code=3)
    assert "no probe plug-in is in this program" in said
    assert not program.sessions


def test_program_is_found_by_prefix_name_pid_and_path(program: ProbedProgram, tmp_path: Path) -> None:
    path = tmp_path / "dpdk/rte/dpdk_telemetry.v2"
    name = Path("/proc/self/comm").read_text().strip()
    assert {find_program(word) for word in ("rte", name, str(os.getpid()), str(path))} == {path}
    with pytest.raises(UsageError, match=r"no DPDK program is called 'ovs' \(running: .*rte"):
        find_program("ovs")
    with pytest.raises(HostError, match="no DPDK program answers"):
        find_program(str(tmp_path / "none"))


@pytest.mark.thorough
def test_several_programs_of_one_name_are_told_apart_by_prefix(program: ProbedProgram, tmp_path: Path) -> None:
    with running_program(tmp_path / "other", program):
        shutil.move(tmp_path / "other/dpdk/rte", tmp_path / "dpdk/second")
        name = Path("/proc/self/comm").read_text().strip()
        with pytest.raises(UsageError, match="several DPDK programs"):
            find_program(name)
        assert find_program("second").parent.name == "second"


def test_program_that_other_mount_namespaces_see_too_is_listed_once(
    program: ProbedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dpdk/rte/dpdk_telemetry.v2"
    again = Path("/proc/self/root", *path.parts[1:])
    monkeypatch.setattr("pollscope.attach.programs._in_containers", lambda: [again, again])
    assert find_program("rte") == path
    assert len(running_programs()) == 1


@pytest.mark.parametrize("reply", [{"x": 0}, [{}], "x", 7, [math.inf]], ids=str)
def test_program_with_odd_replies_does_not_hide_the_others(program: ProbedProgram, tmp_path: Path, reply: Any) -> None:
    class Odd(ProbedProgram):
        def reply(self, request: str) -> object:
            return reply if request.startswith(("/ethdev/list", "/eal/lcore/list")) else super().reply(request)

    with running_program(tmp_path / "other", Odd(program.thread)):
        shutil.move(tmp_path / "other/dpdk/rte", tmp_path / "dpdk/odd")
        assert [each.prefix for each in running_programs()] == ["rte"]


def test_program_with_an_odd_greeting_does_not_hide_the_others(program: ProbedProgram, tmp_path: Path) -> None:
    with running_program(tmp_path / "other", program, most_bytes=math.inf):
        shutil.move(tmp_path / "other/dpdk/rte", tmp_path / "dpdk/odd")
        assert [each.prefix for each in running_programs()] == ["rte"]


def test_silent_sockets_do_not_block_the_search(
    program: ProbedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "SEARCH_LIMIT_S", 1.0, raising=False)
    monkeypatch.setattr(programs, "_in_containers", lambda: sorted(tmp_path.glob("silent*")))
    said: list[str] = []
    with ExitStack() as stack:
        for number in range(5):
            silent = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            silent.bind(str(tmp_path / f"silent{number}"))
            silent.listen()
        begin_s = time.monotonic()
        assert [each.prefix for each in running_programs((), said.append)] == ["rte"]
    assert time.monotonic() - begin_s < 5
    assert said == ["4 telemetry sockets not asked: the search took 1 s"]


def test_sockets_in_other_user_namespaces_are_left_out(tmp_path: Path) -> None:
    """The attack: a user fills mount namespaces of his own with silent sockets."""
    proc = tmp_path / "proc"
    for pid, mount, user in (("self", 1, 1), ("10", 1, 1), ("20", 2, 1), ("30", 3, 2)):
        (proc / pid / "ns").mkdir(parents=True)
        for name, number in (("mnt", mount), ("user", user)):
            (tmp_path / f"{name}{number}").touch()
            (proc / pid / "ns" / name).symlink_to(tmp_path / f"{name}{number}")
        (proc / pid / "root/run/dpdk/rte").mkdir(parents=True)
        (proc / pid / "root/run/dpdk/rte" / SOCKET_NAME).touch()
    assert in_containers(proc) == [proc / "20/root/run/dpdk/rte" / SOCKET_NAME]


def test_name_that_is_not_utf8_is_shown_with_a_mark(
    program: ProbedProgram, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_threads", lambda: {"0": {"tid": 1, "name": "Fäden", "lcore": -1, "cpu": 0}})
    (thread,) = json.loads(cli("rte", "--seconds", "1.5", "--json"))["threads"]
    assert thread["name"] == "F\ufffdden"


def test_json_holds_the_tax_of_the_thread(program: ProbedProgram, own_pace: PollingThread, cli: Cli) -> None:
    found = json.loads(cli("rte", "--seconds", "1.5", "--json"))
    (thread,) = found["threads"]
    tax = 1 - own_pace.true_useful_share
    assert thread["tax_share"]["value"] == pytest.approx(tax, abs=0.02)
    assert abs(thread["tax_share"]["value"] - tax) <= thread["tax_share"]["error"] + 0.01
    assert thread["saturation_pps"]["value"] == pytest.approx(own_pace.true_saturation_pps, rel=0.05)
    assert thread["rx_pps"] == pytest.approx(PPS, rel=0.02)
    assert [queue["rx_pps"] > 0 for queue in thread["queues"]] == [True] * LOADED + [False] * (QUEUES - LOADED)
    assert thread["lcore"] == 1
    assert not program.sessions, "the session was stopped"


@pytest.mark.thorough
def test_table_fits_80_columns_and_names_what_is_not_seen(program: ProbedProgram, cli: Cli) -> None:
    said = cli("rte", "--seconds", "1.5").splitlines()
    assert HEADER in said
    assert max(map(len, said)) <= WIDTH
    assert any(
        re.fullmatch(r" +1 +0 +\d+ ±\d+ % +0 % +[\d.]+ M +\d+ % +[\d.]+ +[\d.]+ Mpps +[\d.]+ Mpps .*", line)
        for line in said
    )
    assert sum("port 0 queue" in line for line in said) == QUEUES
    text = " ".join(said)
    assert "not seen: lcore 2 without an RX poll; 1 crypto device; 1 ring; kernel work" in text
    assert re.search(r"lcore 1: empty poll 40(\.\d)? ±[\d.]+ cycles; busy poll [\d.]+ ±[\d.]+ cycles", text)


def test_history_grows_by_one_bar_per_second(program: ProbedProgram, tmp_path: Path) -> None:
    with TelemetrySocket(find_program("rte")) as connection, Probe(connection) as probe:
        observer = Observer(connection, probe)
        threads = shares([observer.read() for _ in range(6)], observer.info)
        (found,) = running_programs()
        index = threads[0].counts.index
        line = lines(found, threads, {index: [0.0, 0.5, 0.99]})[2]
        assert line.endswith("▁▅█")
        assert len(lines(found, threads, {index: [0.5] * 99})[2]) <= WIDTH


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_live_table_replaces_the_one_before_and_names_cannot(
    program: ProbedProgram, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("command_line.io", SimpleNamespace(StringIO=Terminal))
    monkeypatch.setattr(program, "_threads", lambda: {"0": {"tid": 1, "name": "\033[2Jx", "lcore": -1, "cpu": 0}})
    said = cli("rte", "--seconds", "1.5")
    assert said.count("\033[H\033[J") >= 2
    assert "\033[2J" not in said and "\\x1b[2Jx: empty poll" in said


def test_prometheus_file_is_whole_and_in_the_text_format(program: ProbedProgram, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "pollscope.prom"
    cli("rte", "--seconds", "1.5", "--openmetrics", str(file))
    text = file.read_text()
    assert text.endswith("# EOF\n")
    gauges = dict(re.findall(r"^(pollscope_\w+)\{[^}]*lcore=\"1\"[^}]*\} ([\d.e+-]+)$", text, re.MULTILINE))
    assert 0 < float(gauges["pollscope_tax_share"]) < 1
    assert float(gauges["pollscope_rx_packets_per_second"]) == pytest.approx(PPS, rel=0.05)
    for name in gauges:
        assert text.count(f"# TYPE {name} gauge\n") == 1
    assert list(tmp_path.glob(".*pollscope*")) == []


def test_run_folder_holds_the_tax_and_all_commands_read_it(
    program: ProbedProgram, own_pace: PollingThread, cli: Cli, tmp_path: Path
) -> None:
    folder = Path(cli("rte", "--seconds", "4", "--out", str(tmp_path / "results")).splitlines()[-1])
    run = read_run(folder)
    assert (run.meta["status"], len(run.trials), run.meta["testbed"]["kind"]) == ("complete", 2, "attach")
    assert run.meta["warnings"] and "crypto device" in run.meta["warnings"][0]
    table = current_table(run)
    assert list(table["status"]) == ["ok", "ok"]
    tax = table["metric.tax_share"]
    assert tax.tolist() == pytest.approx([1 - own_pace.true_useful_share] * 2, abs=0.02)
    assert (table["metric.tax_share_error"] < 0.03).all()
    assert table["metric.saturation_pps"].tolist() == pytest.approx([own_pace.true_saturation_pps] * 2, rel=0.05)
    assert table["metric.rx_pps"].tolist() == pytest.approx([PPS] * 2, rel=0.02)
    assert table["metric.tx_pps"].tolist() == pytest.approx([PPS] * 2, rel=0.02)
    assert table["metric.empty_poll_fraction"].between(0, 1).all()
    assert list(table["metric.imissed_share"]) == [0, 0]
    shares_of = table[["metric.useful_share", "metric.empty_poll_share", "metric.instrumentation_share"]].sum(axis=1)
    assert shares_of.tolist() == pytest.approx([1, 1], abs=0.001)
    assert "plug-in" in str(table["absent.interaction_share"].iloc[0])
    other = tmp_path / "compared"
    shutil.copytree(folder, other)
    for words in (
        ["report", str(folder), "--out", str(tmp_path / "report.html")],
        ["figures", str(folder), "--out", str(tmp_path / "figures/ATTACH.svg")],
        ["compare", str(folder), str(other), "--out", str(tmp_path / "compared.svg")],
        ["explain", str(folder)],
        ["query", 'SELECT "metric.tax_share" FROM trials', str(tmp_path / "results")],
        ["claims", str(folder)],
    ):
        done = pollscope(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    (explained,) = json.loads(pollscope("explain", str(folder), "--json", cwd=tmp_path).stdout)
    (core,) = [each for each in explained["points"][0]["findings"] if each["stage"] == "core cycles"]
    assert "% of its time is left" in str(core)
    assert (tmp_path / "figures/ATTACH.csv").read_text().count("useful_share") == 1
    page = (tmp_path / "report.html").read_text()
    assert "Cycles of a running program" in page
    assert f"<code>pollscope attach {run.meta['program']['name']} --seconds 4 --out results</code>" in page
    (rates,) = [table for table in run_section(run, 0).tables if table.title == "Rates by point"]
    assert "saturation_pps" in rates.metrics
    refused = pollscope("figures", str(folder), "--y", "saturation_pps", cwd=tmp_path)
    assert refused.returncode == 2
    assert "the recording of one thread has one point" in refused.stderr
    assert "pollscope query 'FROM trials'" in refused.stderr


def spread(reading: CounterReading, threads: int) -> CounterReading:
    """Return a reading in which several threads without an lcore share a name and divide the queues."""
    first = reading.threads[0]
    several = {
        index: replace(first, index=index, tid=100 + index, name="worker", lcore=None) for index in range(threads)
    }
    queues = {key: replace(each, thread=key[1] % threads) for key, each in reading.queues.items()}
    return replace(reading, threads=several, queues=queues)


def test_threads_of_one_name_have_trials_and_gauges_of_their_own(program: ProbedProgram, tmp_path: Path) -> None:
    """Two of the three begin to poll after the first part."""
    with TelemetrySocket(find_program("rte")) as connection, Probe(connection) as probe:
        observer, found = Observer(connection, probe), look_at(connection)
        recording = AttachedRun(tmp_path / "results", found, observer.info, 2, 4.0)
        for repeat, threads in enumerate((1, 3)):
            several = recording.append(repeat, [spread(observer.read(), threads) for _ in range(6)], {})
        recording.finish("complete")
    table = current_table(read_run(recording.folder))
    assert list(table["repeat"]) == [0, 1, 1, 1]
    assert table.groupby("point")["repeat"].nunique().tolist() == [2, 1, 1]
    samples = [line.split("}")[0] for line in openmetrics.text(found, several).splitlines() if "tax_share{" in line]
    assert len(set(samples)) == 3


def test_packets_of_a_shared_queue_are_given_to_no_single_thread(program: ProbedProgram) -> None:
    """Both threads poll all queues; the second one was the last at each reading."""
    with TelemetrySocket(find_program("rte")) as connection, Probe(connection) as probe:
        observer = Observer(connection, probe)
        readings = [observer.read() for _ in range(12)]
    for moves, each in enumerate(readings):
        both = {index: replace(each.threads[0], index=index, lcore=index) for index in (0, 1)}
        queues = {key: replace(queue, thread=1, moves=moves) for key, queue in each.queues.items()}
        readings[moves] = replace(each, threads=both, queues=queues)
    threads = shares(readings, observer.info)
    assert [thread.counts.lcore for thread in threads] == [0, 1]
    for thread in threads:
        assert thread.probed.rx_pps is None
        assert isinstance(thread.classes, ProbedClasses)
    (found,) = running_programs()
    assert any(line.strip().startswith("port 0 queue 7, shared") for line in lines(found, threads, {}))


def test_packets_of_a_queue_of_another_process_are_not_those_of_the_thread(program: ProbedProgram) -> None:
    """The port counts twice as many packets as the thread receives: a secondary process polls queue 8."""
    with TelemetrySocket(find_program("rte")) as connection, Probe(connection) as probe:
        observer = Observer(connection, probe)
        readings = [observer.read() for _ in range(12)]
    own = shares(readings, observer.info)[0].classes
    for number, each in enumerate(readings):
        other = replace(each.queues[0, 0], queue=8, thread=-1, polls=0, full=0, packets=0, sizes=[0] * 10)
        ports = {0: {name: 2 * count for name, count in each.ports[0].items()}}
        readings[number] = replace(each, queues={**each.queues, (0, 8): other}, ports=ports)
    found = shares(readings, observer.info)[0].classes
    assert isinstance(own, ProbedClasses) and isinstance(found, ProbedClasses)
    assert found.tax.value == pytest.approx(own.tax.value, abs=0.03)
    assert found.rx_pps == pytest.approx(PPS, rel=0.05)


@pytest.mark.thorough
def test_collectors_record_beside_the_program(
    program: ProbedProgram, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))  # a lock of its own
    words = ["rte", "--seconds", "2", "--out", str(tmp_path / "results"), "--collect", "kernel-load"]
    run = read_run(Path(cli(*words).splitlines()[-1]))
    (trial,) = run.trials
    assert trial["collectors"]["kernel-load"]["status"] == "ok"
    assert (run.path / trial["samples"]).is_file()


def test_telemetry_is_that_of_the_program(
    program: ProbedProgram, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a container, whose program has the default prefix as well."""
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))  # a lock of its own
    contained = ProbedProgram(PollingThread(pps=PPS))
    with running_program(tmp_path / "c", contained) as socket:
        words = ["--socket", str(socket), "--seconds", "2", "--out", str(tmp_path / "results")]
        cli(*words, "--collect", "dpdk-telemetry")
    assert "/ethdev/xstats,0" in contained.requests
    assert "/ethdev/xstats,0" not in program.requests


def test_full_disk_ends_the_run_and_keeps_its_trials(
    program: ProbedProgram, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RunWriter.append

    def append(writer: RunWriter, record: dict[str, Any]) -> None:
        if record["repeat"] > 0:
            raise DiskError("cannot be written: No space left on device", "trials.jsonl", "pollscope run --resume")
        whole(writer, record)

    monkeypatch.setattr(RunWriter, "append", append)
    said = cli("rte", "--seconds", "4", "--out", str(tmp_path / "results"), code=3)
    assert "No space left on device (free disk space and attach again" in said and "--resume" not in said
    (folder,) = (tmp_path / "results").glob("*/*")
    run = read_run(folder)
    assert (run.meta["status"], len(run.trials)) == ("failed", 1)
    assert not (folder / RESERVE_FILE).exists()


def test_file_for_prometheus_that_cannot_be_written_is_a_warning(program: ProbedProgram, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = pollscope("attach", "rte", "--seconds", "2.5", "--json", "--openmetrics", "folder", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["threads"]
    assert done.stderr.count("folder: cannot be written: Is a directory") == 1


@pytest.mark.parametrize(
    ("number", "code", "message"), [(errno.EPIPE, 1, ""), (errno.EIO, 3, "Input/output error")], ids=["EPIPE", "EIO"]
)
def test_error_of_the_output_is_not_one_of_the_program(
    program: ProbedProgram, cli: Cli, monkeypatch: pytest.MonkeyPatch, number: int, code: int, message: str
) -> None:
    def broken(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("pollscope.cli.attach._live", broken)
    said = cli("rte", "--seconds", "1", code=code)
    assert message in said and "does not answer" not in said


@pytest.mark.thorough
def test_end_of_the_program_fails_its_trial_and_keeps_the_run(program: ProbedProgram, tmp_path: Path, cli: Cli) -> None:
    answered = program.reply

    def mortal(request: str) -> object:
        if len(program.requests) > 80:
            raise OSError("ended")
        return answered(request)

    program.reply = mortal  # type: ignore[method-assign]
    said = cli("rte", "--seconds", "6", "--out", str(tmp_path / "results"), code=1)
    assert "ended early" in said
    (folder,) = (tmp_path / "results").glob("*/*")
    run = read_run(folder)
    assert run.meta["status"] == "failed"
    assert run.trials[-1]["status"] == "failed" and "gone" in run.trials[-1]["reason"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["rte", "--out", "results"], "needs an end"),
        (["rte", "--seconds", "1", "--collect", "kernel-load"], "run folder"),
        (["rte", "--seconds", "1", "--out", "r", "--collect", "none"], "no collector 'none'"),
        (["--list", "--out", "results"], "only lists"),
    ],
)
def test_options_that_do_not_fit_are_refused(program: ProbedProgram, cli: Cli, words: list[str], reason: str) -> None:
    assert reason in cli(*words, code=2)
    assert not any("start" in request for request in program.requests)


def test_what_the_plugin_lacks_is_said_at_the_end(program: ProbedProgram, cli: Cli) -> None:
    program.lacking["lost_threads"] = 2
    found = cli("rte", "--seconds", "1")
    assert "Not counted: 2 polling threads" in found
    assert "Skipped" not in found


def test_error_of_the_plugin_is_shown_as_it_is(program: ProbedProgram) -> None:
    with TelemetrySocket(find_program("rte")) as connection, Probe(connection) as probe:
        program.refusal = "windows: no memory (add hugepages)"
        with pytest.raises(HostError, match=r"windows: no memory \(add hugepages\)"):
            probe.threads()


def test_session_that_ended_by_its_heartbeat_is_begun_again(program: ProbedProgram) -> None:
    """A busy host may delay the observer; counters continue from their last values."""
    with TelemetrySocket(find_program("rte")) as connection, Probe(connection) as probe:
        first = probe.threads()
        program.sessions.clear()
        assert probe.threads()[0].counts["ee"] > first[0].counts["ee"]
        program.sessions.clear()
    assert not program.sessions, "leaving does not need a session"


@pytest.mark.thorough
def test_program_in_another_mount_namespace_is_found(tmp_path: Path, own_pace: PollingThread) -> None:
    """As in a container: its /run is its own, and the host sees the socket below /proc/PID/root."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a mount namespace needs root and unshare")
    code = (
        "import sys, time; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path\n"
        "from polling_thread import PollingThread\n"
        "from probed_program import ProbedProgram, running_program\n"
        f"thread = PollingThread(pps={PPS}, queues={QUEUES}, loaded={LOADED})\n"
        "with running_program(Path('/run'), ProbedProgram(thread)):\n"
        "    print('up', flush=True); sys.stdin.read()\n"
    )
    tests = Path(__file__).resolve().parent
    mounted = 'mount -t tmpfs none /run && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounted, "sh"]
    command += [sys.executable, "-c", code, str(tests), str(tests.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "up\n"
            path = Path(f"/proc/{process.pid}/root/run/dpdk/rte/dpdk_telemetry.v2")
            (found,) = [each for each in running_programs() if each.pid == process.pid]
            assert found.socket.samefile(path)
            with TelemetrySocket(find_program("", path)) as connection, Probe(connection) as probe:
                observer = Observer(connection, probe)
                (thread,) = shares([observer.read() for _ in range(12)], observer.info)
            assert isinstance(thread.classes, ProbedClasses)
            assert thread.classes.tax.value == pytest.approx(1 - own_pace.true_useful_share, abs=0.03)
        finally:
            process.stdin.close()
            process.wait(10)
