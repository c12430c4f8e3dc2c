# SPDX-License-Identifier: BSD-3-Clause
"""Set knobs on the hosts of a pair through their agents, with the journal and the lock of each host."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pollscope.base.errors import HostError, UsageError
from pollscope.host.boot_note import author, author_lives
from pollscope.host.lock import HostLock
from pollscope.knobs import Holding, LeftBehind, RestoreResult
from pollscope.testbeds.base import HostAway
from pollscope.testbeds.pair import boot_mode
from pollscope.testbeds.pair.boot_mode import BootMode
from pollscope.testbeds.pair.config import require_each_agent_once
from pollscope.testbeds.pair.remote_host import RemoteHost

# The agent of a lost connection needs a moment to restore and to release the lock; if only the network failed, its
# heartbeat timeout has to pass first.
REOPEN_LIMIT_S, REOPEN_PAUSE_S = 16.0, 2.0


class PairKnobs(Holding):
    """Hold both hosts from entering to leaving, and set knobs on those that the testbed's file names.

    A host without an agent is not locked and has no knobs. After a lost connection, the agent there restores the
    knobs, or the next run does from its journal; the next `apply` locks the host again and sets the same values. For a
    change of the IOMMU mode the host is released, because the play takes its lock and reboots it; a note there informs
    the next run.

    Args:
        what: the name of this work in the message to another run.
        lock: of the pair, on this host.
        hosts: both hosts.
        turned: names of those whose knobs are set.
        restore_first: see KnobSession.
        modes: name of a host -> how the mode of its IOMMU is set; without one it is a knob that can only be read.
    """

    remedy = "pollscope knob restore, on that host"

    def __init__(
        self,
        what: str,
        lock: HostLock,
        hosts: Sequence[RemoteHost],
        turned: Sequence[str],
        restore_first: bool,
        modes: Mapping[str, BootMode],
    ) -> None:
        self._what, self.lock, self._hosts, self._restore_first = what, lock, list(hosts), restore_first
        self._turned, self._modes = [host for host in hosts if host.name in turned], modes
        self._wanted: dict[str, object] = {}
        self._open: dict[str, int] = {}  # host -> number of the connection that holds it
        self.restored_first: list[RestoreResult] = []

    def begin(self) -> None:
        """Take both hosts, then restore leftovers of an ended run; a run that is still running holds one of them.

        Between the reboots of a sweep of IOMMU modes the other host is free, and its note looks like a dead run's.
        """
        try:
            taken = [host for host in self._hosts if host.has_agent()]
            try:
                require_each_agent_once({host.name: host.config for host in taken})
            except ValueError as error:
                raise UsageError(str(error)) from error
            for host in taken:
                self.restored_first += self._take(host, self._restore_first)
            for host in taken:
                self.restored_first += self._restore_left_mode(host)
        except BaseException:
            self._close()
            raise

    def end(self, error: BaseException | None) -> list[RestoreResult]:
        try:
            return self.restore()
        finally:
            self._close()

    def _restore_left_mode(self, host: RemoteHost) -> list[RestoreResult]:
        """Restore the mode of the IOMMU that an ended run left, or refuse to start."""
        left = host.ask("boot_note")["note"]
        if not left:
            return []
        what = f"{left} did not restore: {boot_mode.KNOB}"
        if host.name not in self._modes:
            raise LeftBehind(what, str(host), "start with --restore-first and a testbed file that names the inventory")
        if author_lives(left):  # it released the host only for its play
            raise LeftBehind(what, str(host), "wait for it: it is still running")
        if not self._restore_first:
            raise LeftBehind(what, str(host), "wait if it is still running; else start with --restore-first")
        result = self._restore_mode(host)
        if not result.restored:
            raise LeftBehind(str(result), str(host))
        return [result]

    def _take(self, host: RemoteHost, restore_first: bool) -> list[RestoreResult]:
        reply = host.ask("knobs_open", what=self._what, restore_first=restore_first, **host.config.knob_place())
        self._open[host.name] = host.connection
        return _results(host, reply["restored"])

    def _close(self) -> None:
        for host in self._hosts:
            host.close()
            host.holds_knobs = False
        self._open.clear()

    def apply(self, settings: Mapping[str, object]) -> list[object]:
        """Set knobs on the hosts that the testbed's file names; take a host again whose connection was lost.

        Raises:
            UsageError: no such knob or value. HostError: a host refuses it. HostAway: a host does not answer.
        """
        for host in self._hosts:
            if self._lost(host):
                self._retake(host)
        played = {key: value for key, value in settings.items() if self._modes and key == boot_mode.KNOB}
        others = {key: value for key, value in settings.items() if key not in played}
        for value in played.values():
            self._set_modes(str(value))
        self._wanted |= others
        for host in self._turned if others else []:
            self._require_agent(host)
            host.holds_knobs = True
            host.ask("knobs_apply", settings=others)
        return []

    def _require_agent(self, host: RemoteHost) -> None:
        if reason := host.absence():
            raise HostError(f"its knobs cannot be set: {reason}")

    def _set_modes(self, value: str) -> None:
        """Restore the mode of the IOMMU on each host that has another one."""
        for host in self._turned:
            mode = self._modes[host.name]
            if not mode.needs_play(value):
                continue
            self._require_agent(host)
            host.ask("write_boot_note", what=f"{self._what}, {author()},")
            mode.changed = True
            try:
                self._play(host, partial(mode.set, value))
            except HostAway:
                raise
            except HostError as error:
                mode.refuse(value, error)
                raise

    def _play(self, host: RemoteHost, play: Callable[[], None]) -> None:
        """Release a host for a play that reboots it, and take it again.

        Raises:
            HostAway: it does not answer any more. HostError: the play failed, but the host answers.
        """
        failed: HostError | None = None
        self._release(host)
        try:
            play()
        except HostError as error:
            failed = error
        try:
            self._retake(host)
        except HostAway as away:
            raise HostAway(str(failed), str(host), away.what) if failed else away from failed
        if failed:
            raise failed

    def _release(self, host: RemoteHost) -> None:
        problems = [str(each) for each in self._restored(host) if not each.restored]
        if problems:
            raise HostError(f"not rebooted: {'; '.join(problems)}", str(host))
        host.close()
        host.holds_knobs = False
        del self._open[host.name]

    def _lost(self, host: RemoteHost) -> bool:
        return host.name in self._open and host.connection != self._open[host.name]

    def _retake(self, host: RemoteHost) -> list[RestoreResult]:
        deadline = time.monotonic() + host.config.ssh.heartbeat_timeout_s + REOPEN_LIMIT_S
        while True:
            try:
                results = self._take(host, restore_first=True)
                break
            except HostError as error:
                if time.monotonic() > deadline:
                    self._open.pop(host.name, None)
                    raise HostAway(error.what, error.where, error.remedy) from error
            time.sleep(REOPEN_PAUSE_S)
        if self._wanted and host in self._turned:
            host.holds_knobs = True
            host.ask("knobs_apply", settings=self._wanted)
        return results

    def restore(self) -> list[RestoreResult]:
        self._wanted = {}
        for host in self._hosts:
            host.holds_knobs = False
        results = [each for host in self._hosts if host.name in self._open for each in self._restored(host)]
        changed = [host for host in self._turned if host.name in self._modes and self._modes[host.name].changed]
        return results + [self._restore_mode(host) for host in changed]

    def _restore_mode(self, host: RemoteHost) -> RestoreResult:
        try:
            if host.name not in self._open:  # it did not answer, or the play was interrupted
                self._take(host, restore_first=True)
            self._play(host, self._modes[host.name].restore)
            host.ask("remove_boot_note")
        except HostError as error:
            left = f"not restored; the next run restores it with --restore-first: {error}"
            return RestoreResult(boot_mode.KNOB, host.name, False, left)
        return RestoreResult(boot_mode.KNOB, host.name, True, "restored to the inventory's mode")

    def _restored(self, host: RemoteHost) -> list[RestoreResult]:
        try:
            if self._lost(host):
                return self._retake(host)
            return _results(host, host.ask("knobs_restore")["results"])
        except HostError as error:
            return [RestoreResult("all", host.name, False, f"not known to be restored: {error}")]

    def snapshot(self) -> dict[str, dict[str, str]]:
        """Return knob -> HOST/TARGET -> value, of the hosts whose knobs are set."""
        found: dict[str, dict[str, str]] = {}
        for host in self._turned:
            if host.name not in self._open or self._lost(host):
                found.setdefault("all", {})[host.name] = f"absent: {host.absence() or 'the connection was lost'}"
                continue
            for knob, values in host.ask("knobs_snapshot")["knobs"].items():
                found.setdefault(knob, {}).update({f"{host.name}/{target}": value for target, value in values.items()})
        return found


def _results(host: RemoteHost, found: Sequence[Mapping[str, object]]) -> list[RestoreResult]:
    return [
        RestoreResult(str(each["knob"]), f"{host.name}/{each['target']}", bool(each["restored"]), str(each["text"]))
        for each in found
    ]
