# SPDX-License-Identifier: BSD-3-Clause
"""Programs as the DUT of a spec: which specs are refused, how programs fail, and a run of testpmd from end to end."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from run_helpers import Cli, last_attempts
from testpmd import require_testpmd

from pollscope.analysis.point_values import levels_text
from pollscope.base.errors import UsageError
from pollscope.base.paths import cache_folder
from pollscope.host import cpus as processors
from pollscope.host.eal_folders import runtime_folder
from pollscope.host.placement import Roles, Wanted, place
from pollscope.metrics.derive import derive_trial
from pollscope.spec.load import load_text
from pollscope.spec.model import Parameters
from pollscope.spec.points import all_points
from pollscope.testbeds import program
from pollscope.testbeds.program import DutProgram, ProgramFailed
from pollscope.testbeds.session import TrialRequest

SPEC = """\
format: 1
name: programs
title: t
dut:
  io: [dpdk-testpmd, "{eal}", --, --forward-mode=io, --total-num-mbufs=8192, "--rxq={queues}", "--txq={queues}"]
  mac: [dpdk-testpmd, "{eal}", --, --forward-mode=mac, --total-num-mbufs=8192, "--rxq={queues}", "--txq={queues}"]
parameters: {saturate: true}
factors: {program: [io, mac], queues: [1, 2]}
"""
TESTPMD = ["dpdk-testpmd", "{eal}", "--", "--total-num-mbufs=8192", "--rxq={queues}", "--txq={queues}"]


def params_of(text: str) -> list[Parameters]:
    return [point.params for point in all_points(load_text(text, "s.yaml").spec)]


def test_each_point_has_the_arguments_of_its_program_and_levels() -> None:
    commands = [params.command for params in params_of(SPEC)]
    assert [(command[3], command[-1]) for command in commands] == [
        (f"--forward-mode={mode}", f"--txq={queues}") for mode in ("io", "mac") for queues in (1, 2)
    ]
    assert all(command[1] == "{eal}" for command in commands)


def test_a_text_is_repeated_for_each_queue_and_the_only_program_needs_no_name() -> None:
    (params,) = params_of(
        'format: 1\nname: a\ntitle: t\ndut: {l3fwd: [l3fwd, "{eal}", --, -p, 1, "--config={queues:(0,#,1)}"]}\n'
        "parameters: {queues: 3, saturate: true}\n"
    )
    assert params.command == ("l3fwd", "{eal}", "--", "-p", "1", "--config=(0,0,1),(0,1,1),(0,2,1)")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("--rxq={queues}", "--rxq={queue}", "'--rxq={queue}': 'queue' is not a parameter; did you mean 'queues'"),
        ("--rxq={queues}", "--rxq={load_pps}", "'load_pps' is not a parameter"),
        ("--rxq={queues}", "{shape:a#}", "a text is repeated for a number such as queues, not for shape"),
        ('io: [dpdk-testpmd, "{eal}"', "io: [dpdk-testpmd", "dut.io: needs {eal} once, as an argument"),
        ("program: [io, mac]", "program: [io, mca]", "factors.program: 'mca' is not under dut; did you mean 'mac'?"),
        ("program: [io, mac], ", "", "dut: has 2 programs: name one in parameters.program"),
        ("saturate: true", "saturate: true, burst: 8", "parameters.burst: no program under dut uses it: put {burst}"),
        ("saturate: true", "saturate: true, feed: infinite", "parameters.feed: no program under dut uses it"),
        ("saturate: true", "saturate: true, shape: PC", "parameters.shape: PC needs the polls of pollscope's own node"),
        ("title: t", "title: t\ntestbeds: [pair]", "testbeds: a program under dut runs on loopback only, not on pair"),
        ("dut:\n", "dut:\n  Io: [a, b]\n", "dut.Io"),
        ("mac: [dpdk-testpmd", "mac: [[dpdk-testpmd]", "dut.mac"),
    ],
)
def test_a_bad_spec_is_refused_by_key(old: str, new: str, said: str) -> None:
    assert old in SPEC
    with pytest.raises(UsageError) as refused:
        load_text(SPEC.replace(old, new), "s.yaml")
    assert said in str(refused.value)


def test_the_example_of_the_page_loads(checkout: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (checkout / "docs/your-program.md").read_text(), re.DOTALL)
    assert len({params.command for params in params_of(block)}) == 2


def test_a_program_in_the_cache_folder_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (params,) = params_of(
        'format: 1\nname: a\ntitle: t\ndut: {own: ["{cache}/own/program", "{eal}"]}\nparameters: {saturate: true}\n'
    )
    assert params.command[0] == f"{cache_folder()}/own/program"
    said = program.program_refusal(params)
    assert said is not None and said.startswith(f"there is no program {cache_folder()}/own/program on this host")


def test_a_program_is_named_without_the_word() -> None:
    assert levels_text({"program": "io", "queues": 2}) == "io, queues 2"


def test_a_program_needs_a_dut() -> None:
    with pytest.raises(UsageError, match=r"parameters\.program: is for a spec with programs under `dut`"):
        load_text("format: 1\nname: a\ntitle: t\nparameters: {program: io, saturate: true}\n", "s.yaml")


def test_a_missing_program_is_left_out_with_the_reason(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    spec = cli.spec(SPEC.replace("io: [dpdk-testpmd", "io: [no-such-testpmd"))
    planned = json.loads(cli("plan", spec, "--set", "factors.queues=[1]", "--json").stdout)
    (left_out,) = planned["left_out"]
    assert left_out["point"] == "program=io,queues=1"
    assert "there is no program no-such-testpmd on this host" in left_out["reason"]


def test_without_hugepages_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "hugepages", list)
    monkeypatch.setattr("shutil.which", str)
    said = program.program_refusal(params_of(SPEC)[0])
    assert said is not None and said.startswith("program and generator share hugepages: none is free")


@pytest.fixture
def roles() -> Roles:
    return place(processors.allowed_cpus(), Wanted(1))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_START_LIMIT_S", 0.3)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no cards; exit 3", "the program ended with status 3; its last lines: no cards"),
        ("echo no cards; kill -SEGV $$", "the program was ended by SIGSEGV; its last lines: no cards"),
        ("echo thinking; exec sleep 60", "the program hangs: after 0 s it offers no telemetry socket, as DPDK does"),
    ],
)
@pytest.mark.usefixtures("short")
def test_a_program_that_is_not_dpdks_fails_with_its_last_lines(
    script: str, said: str, tmp_path: Path, roles: Roles
) -> None:
    (tmp_path / "log").write_text("of the program before\n")
    with pytest.raises(ProgramFailed) as failed:
        DutProgram(["sh", "-c", script, "{eal}"], roles, tmp_path / "log")
    assert str(failed.value).startswith(said) and "before" not in str(failed.value)


def test_a_program_does_not_outlive_a_runner_that_is_killed(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\nfrom pollscope.host.placement import Roles\n"
        "from pollscope.testbeds.program import DutProgram\n"
        f"DutProgram(['sh', '-c', 'echo $$ >{tmp_path}/pid; exec sleep 60', '{{eal}}'], Roles(0, (0,), (0,)), "
        f"Path('{tmp_path}/log'))"
    )
    runner = subprocess.Popen([sys.executable, "-c", script])
    try:
        poll_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    finally:
        runner.kill()
        runner.wait()
    pid = int((tmp_path / "pid").read_text())
    poll_until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


def poll_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def testpmd(tmp_path: Path, roles: Roles, build_dir: Path) -> Iterator[DutProgram]:
    assert build_dir
    require_testpmd()
    (params,) = params_of("format: 1\nname: a\ntitle: t\nparameters: {load_pps: 100 kpps}\n")
    command = [each.replace("{queues}", "1") for each in TESTPMD]
    running = DutProgram(command, roles, tmp_path / "log")
    running.configure(params)
    yield running
    running.close()
    assert running.ended
    assert not (runtime_folder() / running.prefix).exists()
    assert not list(Path("/dev/hugepages").glob(f"{running.prefix}*"))


def request(window_s: float = 0.5) -> TrialRequest:
    return TrialRequest("t1", 50_000_000, round(window_s * 1e9), 50_000_000, {"pps": 1e5})


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--forward-mode=nonsense"], "the program printed an error: Invalid nonsense packet forwarding mode"),
        (["--rxq=x"], "the program ended with status"),
        (["--rxq=1", "--nonsense"], "the program ended with status"),
    ],
)
def test_arguments_that_testpmd_refuses_fail_the_trial(
    arguments: list[str], said: str, tmp_path: Path, roles: Roles, build_dir: Path
) -> None:
    assert build_dir
    require_testpmd()
    with pytest.raises(ProgramFailed) as failed:
        DutProgram(["dpdk-testpmd", "{eal}", "--", "--total-num-mbufs=8192", *arguments], roles, tmp_path / "log")
    assert str(failed.value).startswith(said)


def test_a_program_that_dies_in_a_trial_fails_it(testpmd: DutProgram) -> None:
    threading.Timer(0.3, testpmd.kill).start()
    with pytest.raises(ProgramFailed, match=r"the program was ended by SIGKILL"):
        testpmd.measure(request(2.0))


def test_a_program_that_hangs_in_a_trial_fails_it(testpmd: DutProgram) -> None:
    threading.Timer(0.3, testpmd.pause).start()
    with pytest.raises(ProgramFailed, match=r"the program does not answer"):
        testpmd.measure(request(2.0))


def test_an_error_that_a_program_prints_fails_the_trial(testpmd: DutProgram, tmp_path: Path) -> None:
    with (tmp_path / "log").open("a") as log:
        log.write("RX-errors: 0 TX-errors: 0\nport 0: error: the queue is gone\n")
    with pytest.raises(ProgramFailed, match=r"printed an error: port 0: error: the queue is gone"):
        testpmd.measure(request())


def test_a_port_with_other_queues_than_the_point_is_refused(testpmd: DutProgram) -> None:
    (params,) = params_of("format: 1\nname: a\ntitle: t\nparameters: {load_pps: 0, queues: 2}\n")
    with pytest.raises(ProgramFailed, match=r"has 1 RX queues, the point has queues=2"):
        testpmd.configure(params)


REPORTING = SPEC.replace("--forward-mode=mac", "-i, --auto-start, --record-core-cycles, --forward-mode=mac")
END_TO_END = REPORTING.replace("{saturate: true}", "{arrivals: poisson}").replace(
    "queues: [1, 2]}",
    "queues: [1, 2], load_pps: [10 kpps, 1 Mpps]}\nzip: [[program, queues]]\n"
    "trial: {warmup: 50 ms, window: 2 s, drain: 100 ms}\nrepeats: {count: 1}\nnoise: {extra_blocks: 0}\n"
    "show: {x: load_pps, y: tax_share, by: [program, queues]}\n"
    "claims:\n  - {id: falls, statement: s, metric: tax_share, predicate: "
    "{kind: trend, factor: load_pps, direction: falls}}",
)

IN_RINGS = 4096  # packets in the RX and TX rings of both ports, at most


@pytest.mark.measure
def test_a_run_measures_testpmd_under_a_paced_load(tmp_path: Path, build_dir: Path) -> None:
    require_testpmd()
    cli = Cli(tmp_path, build_dir / "pollscope-node")
    run = cli.ran(cli.spec(END_TO_END))
    for record in last_attempts(run).values():
        metrics, absent = derive_trial(record)
        pps = record["params"]["load_pps"]
        assert metrics["intended_pps"] == pytest.approx(pps, rel=0.05)
        near, far = (record["result"]["ports"][name]["stats"] for name in ("net_crossover0_a", "net_crossover0_b"))
        total = record["result"]["gen"]["lcores"][0]["total"]
        assert total["sent"] == far["opackets"] == near["ipackets"] + near["imissed"] > 0
        assert near["opackets"] == far["ipackets"] + far["imissed"]
        missed = near["imissed"] + far["imissed"]
        late = near["ipackets"] - far["imissed"] - total["rx_packets"]  # in rings when the generator stopped reading
        assert 0 <= late <= IN_RINGS
        assert metrics["loss_share"] == pytest.approx((missed + late) / total["sent"], abs=1e-3)
        assert "tax_share" in metrics, absent["tax_share"]
        assert 0.2 < metrics["tax_share"] <= 1
        assert metrics["latency_p50_ns"] > 0
        assert absent["ipc"] and absent["interaction_share"]
        if record["params"]["program"] == "mac":
            assert 0 < metrics["tax_share_reported"] < 1
        else:
            assert absent["tax_share_reported"] == "the program does not report how busy it is"
        assert f"--rxq={record['params']['queues']}" in record["config"]["dut"]["program"]
    said = cli("claims", run.path, "--all").stdout
    assert "falls" in said
    cli.ends(0, "report", run.path, "--out", tmp_path / "report.html")
    assert "tax_share" in (tmp_path / "report.html").read_text()
