# SPDX-License-Identifier: BSD-3-Clause
"""Make hosts whose nodes play back a real record (played_node.py), one or several pairs, and a command line.

Commands run in processes that are forked from one that has the package loaded, so that many runs take little time.
Pairs are reached by a stand-in for ssh that starts the command here: what ssh does is not what is tested.
"""

import json
import multiprocessing
import os
import shlex
import signal
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recorded_trials import host_state, record
from ssh_host import agent_program

from pollscope.store.run_folder import RunFolder, read_run

TESTS = Path(__file__).parent
LIMIT_S = 300.0  # a command on two pairs takes minutes on a busy machine
CORES = 4
# Imports take longer than a played run.
LOADED = ["run", "report", "claims"]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["pollscope.analysis.report", "pollscope.plan.mlrsearch", *(f"pollscope.cli.{name}" for name in LOADED)]
)


@dataclass(frozen=True)
class Done:
    """How a command ended; the code is negative when a signal ended it."""

    code: int
    out: str
    err: str


def _run(arguments: list[str], folder: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from pollscope.cli import main
    from pollscope.host import activity, cpus
    from pollscope.testbeds import loopback

    # Played nodes spin on nothing: every host has room for a generator, a DUT and a co-runner.
    cpus.allowed_cpus = lambda *_: [cpus.Cpu(0, 0, core, core) for core in range(CORES)]
    vars(loopback)["read_activity"] = lambda _: activity.read_activity([0])
    with out.open("w") as stdout, err.open("w") as stderr, redirect_stdout(stdout), redirect_stderr(stderr):
        main(arguments)


def command(folder: Path, environment: Mapping[str, str], *arguments: str | Path) -> Done:
    """Run `pollscope ARGUMENTS` in a folder."""
    out, err = folder / "stdout", folder / "stderr"
    words = [str(each) for each in arguments]
    process = _FORKS.Process(target=_run, args=(words, folder, dict(environment), out, err))
    process.start()
    process.join(LIMIT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError(f"pollscope {shlex.join(words)} does not end: {err.read_text()}")
    return Done(process.exitcode, out.read_text(), err.read_text())


@dataclass
class PlayedHosts:
    """A folder with nodes that play, and the command line.

    Attributes:
        folder: for everything.
        faults: number of a start -> what happens (played_node.py).
        capacity_pps: what the DUT forwards, for searches; None: what was recorded.
    """

    folder: Path
    faults: dict[str, str] = field(default_factory=dict)
    capacity_pps: int | None = None

    def __post_init__(self) -> None:
        self.played.mkdir(parents=True, exist_ok=True)
        (self.played / "record.json").write_text(json.dumps(record(0.5)))
        self._tell()
        ssh = self.folder / "bin/ssh"
        ssh.parent.mkdir(exist_ok=True)
        ssh.write_text('#!/bin/sh\nfor last; do :; done; exec sh -c "exec $last"\n')
        ssh.chmod(0o755)

    @property
    def played(self) -> Path:
        return self.folder / "played"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PLAYED": str(self.played),
            "POLLSCOPE_NODE": str(TESTS / "played_node.py"),
            "POLLSCOPE_CORUNNER": str(TESTS / "played_node.py"),
            "POLLSCOPE_STATE_DIR": str(self.folder / "state"),
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
        }

    def __call__(self, *arguments: str | Path) -> Done:
        self._tell()
        done = command(self.folder, self.environment, *arguments)
        assert "Traceback" not in done.err, done.err
        assert "Traceback" not in done.out, done.out
        return done

    def resume(self, *options: str) -> Done:
        """Resume the only run, and confirm its testbed's file."""
        run = self.run()
        return self("run", "--resume", run.path, "--testbed", run.meta["testbed"]["file"], *options)

    def _tell(self) -> None:
        limited = {} if self.capacity_pps is None else {"capacity_pps": self.capacity_pps}
        settings = {"faults": self.faults, "host_state": host_state(), **limited}
        (self.played / "settings.json").write_text(json.dumps(settings))

    def spec(self, text: str) -> Path:
        path = self.folder / "spec.yaml"
        path.write_text(text)
        return path

    def loopback(self, **more: Any) -> Path:
        """Write the file of a loopback testbed."""
        return self._written("here.yaml", {"kind": "loopback", **more})

    def pairs(self, *names: str, dut: Mapping[str, Mapping[str, Any]] = {}) -> Path:
        """Write the file of several pairs; `dut`: a pair's name -> what is added to its DUT's host."""
        pairs = {
            name: {"dut": self._host(name, "dut") | dict(dut.get(name, {})), "generator": self._host(name, "generator")}
            for name in names
        }
        return self._written("pairs.yaml", {"kind": "pairs", "pairs": pairs})

    def _host(self, pair: str, role: str) -> dict[str, Any]:
        state = self.folder / "hosts" / pair / role
        state.mkdir(parents=True, exist_ok=True)
        agent = agent_program(self.folder / "bin" / f"pollscope-{pair}-{role}", state)
        whole = {"ssh": {"host": f"{pair}-{role}"}, "ports": {"rx": "net_a", "tx": "net_a", "queues": 8}}
        node = {"program": str(TESTS / "played_node.py"), "pollscope": str(agent)}
        return {**whole, **node, "main_cpu": 0, "cpus": [1, 2], "memory_mib": 1024}

    def _written(self, name: str, config: Mapping[str, Any]) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(config))
        return path

    def run_folder(self) -> Path:
        (folder,) = self.folder.glob("results/*/*")
        return folder

    def run(self) -> RunFolder:
        """Return the only run."""
        return read_run(self.run_folder())

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests to the nodes, in order."""
        log = self.played / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def started(self) -> list[str]:
        """Return the arguments of each started node and co-runner."""
        return [line.partition(" ")[2] for line in (self.played / "pids").read_text().splitlines()]

    def alive(self) -> list[int]:
        """Return nodes that have not ended."""
        pids = [int(line.split()[0]) for line in (self.played / "pids").read_text().splitlines()]
        return [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
