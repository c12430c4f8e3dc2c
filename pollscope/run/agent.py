# SPDX-License-Identifier: BSD-3-Clause
"""Serve a remote runner on a host of a pair: collectors, knobs and metadata of that host.

`pollscope agent` reads one JSON request per line and answers each with one line, as the node does. It ends when its
input does, or when its runner is silent for longer than the heartbeat timeout, and then restores what it changed:
collectors are stopped, knobs restored by the journal of this host, its lock released.
"""

import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pollscope import __version__
from pollscope.base.errors import ExitCode, HostError, PollscopeError, UsageError
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.base.paths import corunner_program
from pollscope.collectors.interface import Collector, CollectorOutcome
from pollscope.collectors.registry import create
from pollscope.host.activity import read_activity
from pollscope.host.boot_note import boot_note, remove_boot_note, write_boot_note
from pollscope.host.corunner_placement import place_corunners
from pollscope.host.cpus import Cpu, online_cpus
from pollscope.host.disk_folder import folder_on_disk
from pollscope.host.eal_folders import remove_stale_folders
from pollscope.host.lock import InUse
from pollscope.host.metadata import build_metadata, host_metadata
from pollscope.host.placement import Wanted, place, room_beside
from pollscope.host.restore import signals_put_off
from pollscope.host.topology import nics
from pollscope.host.waiting import lcore_waits_ns
from pollscope.knobs import KnobHost, KnobSession
from pollscope.knobs.points import knob_refusal
from pollscope.node.client import PROTOCOL
from pollscope.run.remote_lines import Lapsed, RemoteLines
from pollscope.store.own_folder import belongs_to_this_user

# Of a recording in one reply.
_PIECE_BYTES = 4 << 20
_Reply = dict[str, Any]


class Agent:
    """Answers requests; a context manager that ends and restores what it holds.

    Args:
        folder: for the recordings of collectors.

    Attributes:
        heartbeat_timeout_s: how long the runner may be silent, in s; None: forever.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._collectors: dict[str, Collector] = {}
        self._raw: dict[str, Path | None] = {}
        self._knobs: KnobSession | None = None
        self._held = ExitStack()
        self.heartbeat_timeout_s: float | None = None
        self._allowed = os.sched_getaffinity(0)

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_error: object) -> None:
        with signals_put_off():
            for collector in self._collectors.values():
                self._held.callback(collector.stop)  # whatever one of them raises, the knobs are restored after it
            self._held.close()

    def answer(self, request: Mapping[str, Any]) -> _Reply:
        """Return the reply to a request; an error with a message for people is a reply, too."""
        fields = {key: value for key, value in request.items() if key not in ("cmd", "id")}
        handler: Callable[..., _Reply] | None = _REQUESTS.get(str(request.get("cmd")))
        try:
            if handler is None:
                raise UsageError(f"unknown request {request.get('cmd')!r}")
            reply = handler(self, **fields)
        except PollscopeError as error:
            failed = {"exit_code": error.exit_code, "what": error.what, "where": error.where, "remedy": error.remedy}
            reply = {"failed": failed | {"in_use": isinstance(error, InUse)}}
        except (OSError, TypeError, LookupError) as error:
            reply = {"failed": {"exit_code": ExitCode.HOST, "what": str(error), "where": "", "remedy": ""}}
        return {"id": request.get("id"), "ok": True, **reply}

    def metadata(self, program: str) -> _Reply:
        """Return metadata of this host and of the node program's build."""
        return {"host": host_metadata(), "build": build_metadata(Path(program))}

    def heartbeat_timeout(self, silent_s: float) -> _Reply:
        """Expect at least an empty line from the runner every `silent_s` seconds; otherwise treat it as gone."""
        if not silent_s > 0:
            raise UsageError("silent_s is a time above 0")
        self.heartbeat_timeout_s = silent_s
        return {}

    def clock(self) -> _Reply:
        """Return the clock that stamps recordings on this host."""
        return {"t_ns": time.monotonic_ns()}

    def aside(self, cpus: Sequence[int]) -> _Reply:
        """Leave these CPUs to the measured programs (pollscope.host.placement)."""
        os.sched_setaffinity(0, room_beside(self._allowed, cpus))
        return {"cpus": sorted(os.sched_getaffinity(0))}

    def corunners(self, params: Mapping[str, Any], dut: Sequence[int]) -> _Reply:
        """Return the CPUs and the program of a point's co-runners beside a DUT on these CPUs, or why there are none."""
        # Loading the models of specs takes longer than all else that an agent does at its start.
        from pollscope.spec.model import Parameters
        from pollscope.testbeds.corunner import corunner_refusal

        wishes = Parameters.model_construct(**params)  # checked where the spec was read
        cpus = _cpus_with(dut)
        if reason := corunner_refusal(wishes, lambda: place_corunners(cpus, wishes, dut, ())):
            return {"refusal": reason}
        found = place_corunners(cpus, wishes, dut, ())
        return {"refusal": None, "cpus": asdict(found), "program": str(corunner_program())}

    def placement(self, policy: str, workers: int, dispatchers: int, cpus: Sequence[int], nic: str) -> _Reply:
        """Return the CPUs, workers first, that a placement policy gives to a DUT here, or why there are none."""
        every = _cpus_with(cpus)
        node = next((each.numa_node for each in nics() if each.address == nic), None)
        wanted = Wanted(workers, dispatchers, generator=False, placement=policy, nic_node=node)
        try:
            roles = place([cpu for cpu in every if cpu.cpu in set(cpus)], wanted)
        except HostError as error:
            return {"refusal": f"{error.what} (of the {len(cpus)} CPUs that the testbed's file names)"}
        return {"refusal": None, "cpus": [*roles.dut, *roles.dispatchers]}

    def activity(self, cpus: Sequence[int], pid: int, lcores: Sequence[int]) -> _Reply:
        """Return activity on some CPUs since boot, and how long a node's lcores had to wait."""
        return {"activity": asdict(read_activity(cpus)), "waits_ns": lcore_waits_ns(pid, lcores)}

    def probe(self, name: str, options: Mapping[str, object]) -> _Reply:
        """Return whether a collector can work here."""
        available, reason = create(name, **options).probe()
        return {"available": available, "reason": reason}

    def start(self, name: str, options: Mapping[str, object], interval_ns: int) -> _Reply:
        """Start a collector."""
        collector = create(name, **options)
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        collector.start(folder, interval_ns)
        self._collectors[name] = collector
        return {}

    def stop(self, name: str) -> _Reply:
        """Stop a collector; its recording stays until its next start."""
        outcome: CollectorOutcome = self._collectors.pop(name).stop()
        self._raw[name] = outcome.raw
        same = ("reason", "cpu_ns", "started_ns", "stopped_ns")
        recorded = outcome.raw is not None and outcome.raw.exists()
        problems = asdict(outcome.problems)
        kept = {key: getattr(outcome, key) for key in same}
        return {"status": str(outcome.status), "recorded": recorded, "problems": problems, **kept}

    def read(self, name: str, ending: str, offset: int) -> _Reply:
        """Return a piece of a recording (`.raw`) or of its pace (`.pace`) from `offset`; empty at the end."""
        path = self._raw.get(name)
        if path is None or ending not in (".raw", ".pace"):
            raise UsageError(f"there is no recording {name}{ending}")
        with path.with_suffix(ending).open("rb") as file:
            file.seek(offset)
            return {"data": base64.b64encode(file.read(_PIECE_BYTES)).decode()}

    def knobs_open(self, what: str, restore_first: bool, root: str | None, emulated: bool) -> _Reply:
        """Take this host's lock, and restore the knobs of an ended run."""
        session = KnobSession(what, _knob_host(root, emulated), restore_first, caller="runner")
        self._knobs = self._held.enter_context(session)
        return {"restored": [asdict(result) for result in session.restored_first]}

    def knobs_apply(self, settings: Mapping[str, object]) -> _Reply:
        """Set knobs; write each old value to the journal of this host first."""
        self._session().apply(settings)
        return {}

    def knobs_restore(self) -> _Reply:
        """Restore the knobs that were set."""
        return {"results": [asdict(result) for result in self._session().restore()]}

    def knobs_snapshot(self) -> _Reply:
        """Return the present values of each knob."""
        return {"knobs": self._session().snapshot()}

    def boot_note(self) -> _Reply:
        """Return the note of an ended run that left this host's boot parameters changed."""
        return {"note": boot_note(self._session().host.state_dir)}

    def write_boot_note(self, what: str) -> _Reply:
        """Note that the boot parameters are about to be changed from elsewhere."""
        write_boot_note(self._session().host.state_dir, what)
        return {}

    def remove_boot_note(self) -> _Reply:
        """Remove the note."""
        remove_boot_note(self._session().host.state_dir)
        return {}

    def knobs_refusal(self, settings: Mapping[str, object], root: str | None, emulated: bool) -> _Reply:
        """Return why this host cannot set these values; write nothing."""
        factors = {f"{KNOB_PREFIX}{key}": value for key, value in settings.items()}
        return {"refusal": knob_refusal(_knob_host(root, emulated), factors)}

    def _session(self) -> KnobSession:
        if self._knobs is None:
            raise UsageError("knobs_open comes first")
        return self._knobs


_REQUESTS: Mapping[str, Callable[..., _Reply]] = {
    name: method for name, method in vars(Agent).items() if not name.startswith("_") and name != "answer"
}


def _cpus_with(named: Sequence[int]) -> list[Cpu]:
    """Return all CPUs of this host, also those barred to this process; raise HostError if a named one is missing."""
    every = online_cpus()
    if missing := sorted(set(named) - {cpu.cpu for cpu in every}):
        raise HostError(f"there is no CPU {missing[0]} here, which the testbed's file names")
    return every


def _knob_host(root: str | None, emulated: bool) -> KnobHost:
    if root and not belongs_to_this_user(Path(root)):
        raise UsageError("is a tree of knobs into which other users may write", root)
    return replace(KnobHost.measuring(root), emulated=emulated)


def serve(lines: RemoteLines) -> None:
    """Answer until the input ends, `quit` is asked, or the runner's heartbeat timeout has passed."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="pollscope-agent-", dir=folder_on_disk()) as folder,
            Agent(Path(folder)) as agent,
            suppress(BrokenPipeError),  # the runner does not listen any more
        ):
            remove_stale_folders()
            hello = {"event": "hello", "protocol": PROTOCOL, "pollscope": __version__, "pid": os.getpid()}
            lines.say(json.dumps(hello))
            _answer(lines, agent)
    except Lapsed as lapsed:  # restore before writing the message: a silent runner may not read it
        print(f"pollscope agent: {lapsed}: what it set is restored", file=sys.stderr)


def _answer(lines: RemoteLines, agent: Agent) -> None:
    for line in lines:
        request = _parsed(line)
        if request.get("cmd") == "quit":
            lines.say(json.dumps({"id": request.get("id"), "ok": True}))
            return
        reply = agent.answer(request)
        lines.heartbeat_timeout_s = agent.heartbeat_timeout_s
        lines.say(json.dumps(reply))


def _parsed(line: str) -> Mapping[str, Any]:
    with suppress(ValueError):
        if isinstance(request := json.loads(line), dict):
            return request
    return {"cmd": line.strip()[:40]}


def main() -> None:
    """Serve requests on standard input and output; the output of collectors goes to standard error."""
    replies = os.dup(1)
    os.dup2(2, 1)
    serve(RemoteLines(0, replies))
