# SPDX-License-Identifier: BSD-3-Clause
"""Attack with hosts of a pair that send without bound, leave the protocol, or write to the user's terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pair_hosts import pair_config, written
from run_helpers import Cli
from ssh_host import running_sshd

from pollscope import __version__
from pollscope.base.errors import HostError
from pollscope.collectors.interface import Status
from pollscope.testbeds.pair import build, remote_host
from pollscope.testbeds.pair.config import PairHost
from pollscope.testbeds.pair.remote_collector import RemoteCollector
from pollscope.testbeds.pair.remote_host import RemoteHost

# Answers each request by the object that its argument has for it, and writes its pid to a file.
AGENT = """
import json, os, sys
answers, pid, version = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
open(pid, "w").write(str(os.getpid()))
print(json.dumps({"event": "hello", "protocol": 3, "pollscope": version}), flush=True)
for line in sys.stdin:
    if line.strip():
        request = json.loads(line)
        reply = {"id": request["id"], "ok": True, "t_ns": 1, **answers.get(request["cmd"], {})}
        print(json.dumps(reply), flush=True)
        if request["cmd"] == "quit":
            break
"""
WHOLE = {"ports": {"rx": "net_fake0", "tx": "net_fake0"}, "main_cpu": 0, "cpus": [1], "pollscope": "/opt/pollscope"}
HOST = PairHost.model_validate({"ssh": {"host": "dut1"}, **WHOLE})
STOPPED = {"recorded": True, "status": "ok", "problems": {}, "reason": "", "cpu_ns": 0}


def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> RemoteHost:
    command = [sys.executable, "-c", AGENT, json.dumps(answers), str(tmp_path / "pid"), __version__]
    monkeypatch.setattr(remote_host, "root_command", lambda _remote, _words: command)
    return RemoteHost("dut", HOST, "prefix")


@pytest.mark.parametrize(
    "reply",
    [
        {"ok": False, "error": "no such CPU"},
        {"failed": {"exit_code": 3, "what": "no such CPU", "where": "", "remedy": ""}},
        {"failed": {"exit_code": 3, "what": ["no such CPU"], "where": "", "remedy": 7}},
        {"failed": "no such CPU"},
        {"failed": {"what": "no such CPU"}},
    ],
)
def test_an_agent_that_cannot_move_its_cpu_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: dict[str, Any]
) -> None:
    host = agent(tmp_path, monkeypatch, aside=reply)
    with pytest.raises(HostError, match="no such CPU"):
        host.ask("clock")
    host.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_replies_of_another_form_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = agent(tmp_path, monkeypatch, clock={"t_ns": "x"}, activity={"waits_ns": [], "activity": {}})
    for question in (host.read_clock, lambda: host.activity([0], 1, [0])):
        with pytest.raises(HostError, match="wrong reply"):
            question()
    host.close()


def test_a_recording_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_host, "RECORDING_LIMIT_BYTES", 1 << 20, raising=False)
    stopped = {**STOPPED, "started_ns": 1, "stopped_ns": 2}
    host = agent(tmp_path, monkeypatch, stop=stopped, read={"data": "A" * (1 << 16)})
    collector = RemoteCollector(host, "kernel-load")
    collector.start(tmp_path, 1_000_000)
    outcome = collector.stop()
    host.close()
    assert outcome.status is Status.FAILED
    assert "sent more than 1 MiB for one recording" in outcome.reason
    assert (tmp_path / "kernel-load.raw").stat().st_size <= 1 << 20


def test_a_reply_of_another_form_fails_the_collector_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = agent(tmp_path, monkeypatch, stop={"recorded": False, "status": "splendid"})
    collector = RemoteCollector(host, "kernel-load")
    collector.start(tmp_path, 1_000_000)
    outcome = collector.stop()
    host.close()
    assert outcome.status is Status.FAILED
    assert "wrong reply" in outcome.reason


def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> Path:
    archive = tmp_path / "sources.tar"
    archive.write_bytes(b"")
    done = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(build, "run_ssh", lambda *_words: done)
    return build.build_on("dut", HOST, archive, driver=False)


@pytest.mark.parametrize("said", ["", "\n", "/opt/release\nwelcome\n", "/opt/\x1b[2Jrelease\n"])
def test_an_answer_without_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    with pytest.raises(HostError, match="the build printed no folder") as refused:
        built(tmp_path, monkeypatch, said)
    assert "\x1b" not in str(refused.value)


def test_the_last_line_of_an_answer_is_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert built(tmp_path, monkeypatch, "welcome\n/opt/release\n") == Path("/opt/release")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("head -c 40000000 /dev/zero", "sent more than 16 MiB"),
        ("head -c 40000000 /dev/zero >&2", "sent more than 16 MiB"),
        ("yes '[' | head -c 200000", "the answer is no JSON object"),
    ],
)
def test_the_check_survives_unrequested_output_of_a_host(cli: Cli, tmp_path: Path, command: str, said: str) -> None:
    with running_sshd(tmp_path, settings=f"ForceCommand {command}\n") as host:
        done = cli("testbed", "check", written(tmp_path / "two.yaml", pair_config(host, tmp_path)), "--json")
    assert done.returncode == 3
    assert {each["state"] for each in json.loads(done.stdout)} == {"no"}
    assert said in done.stdout
    assert not done.stderr


ESCAPE, OVERRIDE = "\x1b", "\u202e"


def test_text_of_a_host_cannot_command_the_terminal(cli: Cli, tmp_path: Path) -> None:
    r"""A title, a hidden text, an 8-bit CSI (\302\233) and a right-to-left override (\342\200\256)."""
    text = r"\033]0;owned\007\033[8mhidden\302\233\0622J\342\200\256"
    with running_sshd(tmp_path, settings=f"ForceCommand printf '{text}' >&2; exit 1\n") as host:
        done = cli("testbed", "check", written(tmp_path / "two.yaml", pair_config(host, tmp_path)))
    assert done.returncode == 3
    for sign in (ESCAPE, "\x07", "\x9b", OVERRIDE):
        assert sign not in done.said, repr(sign)
    assert "hidden" in done.stdout


SPEC = """\
format: 1
name: esc
title: "t\\e]0;owned\\a"
testbeds: [loopback]
parameters: {workload: io}
factors: {"load_pps\\e[8m": [0 pps]}
"""


def test_text_of_a_spec_or_an_answer_cannot_command_the_terminal(cli: Cli, checkout: Path) -> None:
    sql, run = "SELECT chr(27) || '[8m' || chr(155) AS text", min((checkout / "data/runs").rglob("run.json")).parent
    for done in (cli("plan", cli.spec(SPEC)), cli("query", sql, run)):
        assert ESCAPE not in done.said
        assert "\x9b" not in done.said
    assert "x9b" in done.stdout
