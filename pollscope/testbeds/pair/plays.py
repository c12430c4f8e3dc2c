# SPDX-License-Identifier: BSD-3-Clause
"""Run a play of playbooks/ on the hosts of an inventory; report one line per change and one per failed host."""

import getpass
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError, UsageError, one_line
from pollscope.base.paths import BUILD_COMMAND, INSTALLED, cache_folder, kept_folder
from pollscope.base.source_tree import source_tree
from pollscope.host.files import read_text
from pollscope.host.lock import HostLock, conductor_lock_path
from pollscope.testbeds.pair.inventory import Inventory

PLAYS = ("provision", "verify", "restore", "iommu", "ddio")
# Required variables: play -> variable -> its values.
_REQUIRED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "iommu": {"mode": ("off", "passthrough", "lazy", "strict", "default")},
    "ddio": {"state": ("on", "off")},
}
# Variables of Ansible that stay as the user has set them. The others are dropped: they can switch the check of host
# keys off, add options to ssh, or name programs and plug-ins to run.
_KEPT = {
    f"ANSIBLE_{name}"
    for name in (
        *("FORKS", "HOME", "LOCAL_TEMP", "PRIVATE_KEY_FILE", "REMOTE_TEMP", "REMOTE_TMP", "REMOTE_USER"),
        *("SSH_RETRIES", "SSH_TIMEOUT", "TIMEOUT", "VAULT_PASSWORD_FILE", "VERBOSITY"),
    )
}
_REMEDIES = (
    ("Permission denied", "check the key, and put it into the host's authorized_keys"),
    ("Host key verification failed", "put the host's key into known_hosts"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "compare the host's key"),
    ("Missing sudo password", "give --ask-become-pass, or let the user use sudo without a password"),
    ("a password is required", "give --ask-become-pass, or let the user use sudo without a password"),
    ("sudo: not found", "install sudo there, or give ansible_user: root"),
)


@dataclass(frozen=True)
class PlayResult:
    """The changes of a play.

    Attributes:
        changes: lines `HOST: TASK: what changed`.
        changed: host -> number of tasks that changed something.
    """

    changes: tuple[str, ...]
    changed: Mapping[str, int]


class PlayFailed(HostError):
    """A play failed on some hosts.

    Attributes:
        reasons: host -> one line.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        host, reason = next(iter(reasons.items()))
        others = f" (and {len(reasons) - 1} other hosts)" if len(reasons) > 1 else ""
        super().__init__(reason + others, host)
        self.reasons = reasons


def run_play(
    name: str,
    inventory: Inventory,
    variables: Mapping[str, str] | None = None,
    *,
    options: Sequence[str] = (),
    become_password: str | None = None,
    log: Path | None = None,
) -> PlayResult:
    """Run a play to its end.

    Args:
        name: one of PLAYS.
        inventory: of `load_inventory`.
        variables: extra variables (`mode` of iommu, `state` of ddio).
        options: more options of ansible-playbook.
        become_password: for sudo on the hosts. Every host gets it; Ansible reads it from a pipe.
        log: file for the output of Ansible; default: plays/NAME.log in the user's folder of logs.

    Raises:
        UsageError: there is no such play, or a variable that it needs is missing or wrong.
        HostError: another play of this user is on one of the hosts.
        PlayFailed: it failed on at least one host. The changes of a failed role are restored there.
    """
    given = dict(variables or {})
    _check(name, given)
    log = log or kept_folder() / "plays" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with _alone(name, inventory, options) as held, _work_folder() as folder:
        events = folder / "events"
        if become_password is not None:
            options = [*options, "--become-password-file", "-"]
        code = _ansible(name, inventory, given, options, become_password, folder, log, held)
        records = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
    return _result(name, code, records, log, "would be done" if "--check" in options else "done")


@contextmanager
def _work_folder() -> Iterator[Path]:
    """Make a folder for the events and the SSH connections of one play; close the connections at the end.

    A connection that another program opened, perhaps without a check of the host's key, is not used.
    """
    # Not in $TMPDIR: the path of a socket holds 108 characters at most (unix(7)).
    with tempfile.TemporaryDirectory(prefix="pollscope-play-", dir="/tmp") as name:
        folder = Path(name)
        try:
            yield folder
        finally:
            for socket_path in (folder / "ssh").glob("*"):
                command = ["ssh", "-F", "none", "-O", "exit", "-o", f"ControlPath={socket_path}", "there"]
                subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


@contextmanager
def _alone(name: str, inventory: Inventory, options: Sequence[str]) -> Iterator[list[int]]:
    """Keep other plays of this user off the hosts; yield the descriptors that Ansible keeps open.

    If pollscope is killed, its play thus keeps others away until it has ended.

    Raises:
        HostError: another play of this user is on one of them.
    """
    limit = options[options.index("--limit") + 1] if "--limit" in options else ""
    hosts = {limit: inventory.hosts[limit]} if limit in inventory.hosts else inventory.hosts
    addresses = {f"{each.get('ansible_host') or host}-{each.get('ansible_port') or 22}" for host, each in hosts.items()}
    with ExitStack() as stack:
        held = list[int]()
        for address in sorted(addresses) if name != "verify" else ():
            path = conductor_lock_path(f"play-{re.sub('[^A-Za-z0-9.-]', '_', address)}")
            held.append(stack.enter_context(HostLock(f"play {name} of {inventory.path}", path)).descriptor)
        yield held


def conductor() -> str:
    """Return the name of this user and of this host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container the user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def player() -> str:
    """Return `conductor()` with a part of the machine's identifier, because several hosts may have one name."""
    machine = read_text(Path("/etc/machine-id")) or "no machine-id"
    return f"{conductor()} ({machine[:12]})"


def _check(name: str, variables: Mapping[str, str]) -> None:
    if name not in PLAYS:
        raise UsageError(f"there is no play {name!r}", remedy=f"there are {', '.join(PLAYS)}")
    for key, values in _REQUIRED.get(name, {}).items():
        if variables.get(key) not in values:
            given = f"{variables[key]!r} is not a value of {key}" if key in variables else f"{key} is missing"
            raise UsageError(f"play {name}: {given}", remedy=f"-e {key}=VALUE, one of {', '.join(values)}")


def _ansible(
    name: str,
    inventory: Inventory,
    variables: Mapping[str, str],
    options: Sequence[str],
    typed: str | None,
    folder: Path,
    log: Path,
    held: Sequence[int],
) -> int:
    program = Path(sys.executable).with_name("ansible-playbook")
    if not program.exists():
        remedy = "pip install ansible-core; a bundle takes none along" if INSTALLED else BUILD_COMMAND
        raise HostError("ansible-core is not installed", str(program), remedy)
    tree = source_tree()
    command = [str(program), "-i", str(inventory.path.resolve()), "-e", json.dumps(dict(variables)), *options]
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith("ANSIBLE_")}
    environment = kept | {
        "ANSIBLE_CONFIG": str(tree / "ansible.cfg"),
        "ANSIBLE_CALLBACKS_ENABLED": "pollscope_events",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "ssh"),
        "POLLSCOPE_CACHE": str(cache_folder()),
        "POLLSCOPE_EVENTS": str(folder / "events"),
        "POLLSCOPE_PLAYER": player(),
        "LC_ALL": "C.UTF-8",
    }
    with log.open("w") as stream:
        done = subprocess.run(
            [*command, str(tree / "playbooks" / f"{name}.yml")],
            cwd=tree,
            env=environment,
            input=typed or "",
            text=True,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
            pass_fds=held,
        )
    return done.returncode


def _result(name: str, code: int, records: Sequence[Mapping[str, Any]], log: Path, done: str = "done") -> PlayResult:
    if code != 0:
        raise _failure(name, records, log)
    changes = [record for record in records if record["event"] == "changed"]
    lines = tuple(f"{each['host']}: {each['task']}: {_one_line(each['message'], done)}" for each in changes)
    return PlayResult(lines, {each["host"]: each["changed"] for each in records if each["event"] == "stats"})


def _failure(name: str, records: Sequence[Mapping[str, Any]], log: Path) -> HostError:
    """Return the error of a failed play: per failed host its last message, and before it those that did not help."""
    lost = {each["host"] for each in records if each["event"] == "stats" and each["failures"] + each["unreachable"]}
    reasons: dict[str, str] = {}
    for record in records:
        if record["event"] in ("failed", "unreachable") and record["host"] in lost:
            said = _one_line(record["message"])
            before = reasons.get(record["host"], "")
            reasons[record["host"]] = before if said in before else f"{before}; {said}" if before else said
    if reasons:
        return PlayFailed({host: _with_remedy(reason) for host, reason in reasons.items()})
    errors = [line for line in log.read_text(errors="replace").splitlines() if "ERROR" in line]
    what = re.sub(r"^\[?ERROR\]?!?:? *", "", errors[-1]) if errors else "ansible-playbook failed"
    return HostError(what, f"play {name}", f"the log is {log}")


def _one_line(message: str, empty: str = "failed without a message") -> str:
    """Return the part of Ansible's message that names the problem."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.startswith("Warning:")]
    if not lines:
        return empty
    text = lines[-1] if message.startswith(("Failed to connect", "Task failed: Failed to connect")) else " ".join(lines)
    text = re.sub(r"^(Task failed: |Module failed: |Failed to connect to the host via ssh: )+", "", text)
    return one_line(text)  # a host wrote it, and a terminal must not obey it


def _with_remedy(reason: str) -> str:
    remedy = next((remedy for sign, remedy in _REMEDIES if sign in reason), "")
    return f"{reason} ({remedy})" if remedy else reason
