# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of state that more than one role changes (see pollscope_journal)."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.pollscope.base.errors import HostError
from ansible.module_utils.pollscope.host.files import write_through
from ansible.module_utils.pollscope.host.restore import Setting

TOOL_LIMIT_S = 300
MOST_CPUS = 8191  # CONFIG_NR_CPUS of the distributions

# Runs a program and returns its standard output; raises HostError. Tests give the kinds another one.
Run = Callable[[Sequence[str]], str]


def run(command: Sequence[str]) -> str:
    """Run a program and return its standard output.

    Raises:
        HostError: the program is not installed, failed (the message is the last line that it wrote) or took too long.
    """
    if shutil.which(command[0]) is None:
        raise HostError(f"{command[0]} is not installed on this host")
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TOOL_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{' '.join(command)}: no end after {TOOL_LIMIT_S} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise HostError(f"{' '.join(command)}: {said}")
    return done.stdout


def word_of(value: Any) -> str:
    """Return a value in the notation of tools; YAML 1.1 reads on and off as booleans."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


class Text(Setting):
    """A file of sysfs or procfs that holds one value; its state is the value without the line break."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def read(self, target: str) -> str:
        path = self._path(target)
        try:
            return path.read_text().strip()
        except FileNotFoundError as error:
            raise HostError(f"this kernel has no {target}") from error

    def write(self, target: str, state: str) -> None:
        try:
            descriptor = os.open(self._path(target), os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(descriptor, f"{state}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise HostError(f"{target}: the kernel refused {state}: {error.strerror}") from error

    def same(self, found: str, wanted: str) -> bool:
        return found == str(wanted)

    def _path(self, target: str) -> Path:
        return self.root / target.lstrip("/")


class CpuList(Text):
    """A file of sysfs or procfs that holds a list of CPUs; two notations of one set are equal."""

    def same(self, found: str, wanted: str) -> bool:
        return cpus_of(found) == cpus_of(wanted)


def cpus_of(text: str) -> set[int]:
    """Return the CPUs of a list such as `2-3,6`.

    Raises:
        HostError: the text is no such list.
    """
    found: set[int] = set()
    for part in filter(None, str(text).strip().split(",")):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= MOST_CPUS):
            raise HostError(f"{text!r} is not a list of CPUs", remedy="write it like 2-3,6")
        found.update(range(int(first), int(last) + 1))
    return found


class CStateSwitches(Setting):
    """The idle states that the kernel may use: `{CPU/STATE: disable}`. Wanted is the longest exit latency in us.

    This kind uses the switches in sysfs, because they hold without a process; the knob `c_states` needs one.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.folder = root / "sys/devices/system/cpu"

    def read(self, target: str) -> dict[str, str]:
        states = {
            f"{path.parent.parent.name}/{path.name}": path for path in self.folder.glob("cpu[0-9]*/cpuidle/state*")
        }
        if not states:
            raise HostError("this host shows no idle states (a virtual machine, or no cpuidle driver)")
        return {name: (path / "disable").read_text().strip() for name, path in sorted(states.items())}

    def write(self, target: str, state: Any) -> None:
        wanted = state if isinstance(state, dict) else self._switches(int(state))
        for name, value in wanted.items():
            (self._path(name) / "disable").write_text(f"{value}\n")

    def same(self, found: dict[str, str], wanted: Any) -> bool:
        return found == self._switches(int(wanted))

    def show(self, state: Any) -> str:
        if isinstance(state, dict):
            return f"{sum(value != '0' for value in state.values())} of {len(state)} off"
        return f"at most {state} us"

    def _switches(self, longest_us: int) -> dict[str, str]:
        names = self.read("")
        return {name: str(int(int((self._path(name) / "latency").read_text()) > longest_us)) for name in names}

    def _path(self, name: str) -> Path:
        cpu, _, state = name.partition("/")
        return self.folder / cpu / "cpuidle" / state


class File(Setting):
    """A file; its state is `{"text", "mode"}` or None."""

    holder = "disk"

    def read(self, target: str) -> dict[str, Any] | None:
        path = Path(target)
        if not path.exists():
            return None
        return {"text": path.read_text(errors="surrogateescape"), "mode": path.stat().st_mode & 0o7777}

    def write(self, target: str, state: Mapping[str, Any] | None) -> None:
        if state is None:
            Path(target).unlink(missing_ok=True)
        else:
            write_through(Path(target), state["text"], state["mode"])

    def show(self, state: Any) -> str:
        return "absent" if state is None else f"{len(state['text'])} characters"


class Folder(Setting):
    """A folder that exists (True) or not (False). A folder that holds files of others is not removed."""

    holder = "disk"

    def read(self, target: str) -> bool:
        return Path(target).is_dir()

    def write(self, target: str, state: bool) -> None:
        if state:
            Path(target).mkdir(mode=0o755)
        elif not any(Path(target).iterdir()):
            Path(target).rmdir()

    def restored(self, found: bool, old: bool) -> bool:
        return True

    def show(self, state: bool) -> str:
        return "there" if state else "not there"


class Link(Setting):
    """A symbolic link; its state is its target, or None."""

    holder = "disk"

    def read(self, target: str) -> str | None:
        path = Path(target)
        if path.exists() and not path.is_symlink():
            raise HostError("is there, and is not a link", target, "move it away")
        return str(path.readlink()) if path.is_symlink() else None

    def write(self, target: str, state: str | None) -> None:
        path = Path(target)
        if state is None:
            path.unlink(missing_ok=True)
            return
        fresh = path.with_name(path.name + ".pollscope-new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(state)
        fresh.replace(path)


class Release(Setting):
    """A folder with the files of an archive: it exists (True) or not (False).

    Args:
        fill: writes the files into a new folder.
    """

    holder = "disk"

    def __init__(self, fill: Callable[[Path], None]) -> None:
        self.fill = fill

    def read(self, target: str) -> bool:
        return (Path(target) / "RELEASE").is_file()

    def write(self, target: str, state: bool) -> None:
        path = Path(target)
        fresh = path.with_name(path.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        if not state:
            shutil.rmtree(path)
            return
        try:
            self.fill(fresh)
            fresh.rename(path)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def show(self, state: bool) -> str:
        return "there" if state else "not there"


class KernelModule(Setting):
    """A module of the kernel that is loaded or built in (True), or not (False)."""

    def __init__(self, tool: Run = run, root: Path = Path("/")) -> None:
        self.run, self.root = tool, root

    def read(self, target: str) -> bool:
        name = target.replace("-", "_")
        return (self.root / "sys/module" / name).is_dir() or name in self._built_in()

    def write(self, target: str, state: bool) -> None:
        try:
            self.run(["modprobe", target] if state else ["modprobe", "-r", target])
        except HostError:
            # modprobe -r first removes vfio's soft dependencies, and vfio with them; then it misses vfio and fails.
            if self.read(target) != state:
                raise

    def show(self, state: bool) -> str:
        return "loaded" if state else "not loaded"

    def _built_in(self) -> set[str]:
        path = self.root / "lib/modules" / os.uname().release / "modules.builtin"
        lines = path.read_text().splitlines() if path.exists() else []
        return {Path(line).stem.replace("-", "_") for line in lines}


class Mount(Setting):
    """A file system that is mounted on a folder; its state is `{"type", "options"}` as for mount(8), or None."""

    def __init__(self, tool: Run = run, root: Path = Path("/")) -> None:
        self.run, self.root = tool, root

    def read(self, target: str) -> dict[str, str] | None:
        lines = [line.split() for line in (self.root / "proc/mounts").read_text().splitlines()]
        found = [(kind, options) for _, place, kind, options, *_ in lines if place == target]
        return {"type": found[-1][0], "options": found[-1][1]} if found else None

    def write(self, target: str, state: Mapping[str, str] | None) -> None:
        if state is None:
            self.run(["umount", target])
        else:
            self.run(["mount", "-t", state["type"], "-o", state["options"], "pollscope", target])

    def same(self, found: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
        if found is None or found["type"] != wanted["type"]:
            return False
        return set(wanted["options"].split(",")) <= set(found["options"].split(","))


def common_kinds() -> dict[str, Setting]:
    """Return the kinds by the names that journals use."""
    return {
        "text": Text(),
        "cpus": CpuList(),
        "c_states": CStateSwitches(),
        "file": File(),
        "folder": Folder(),
        "link": Link(),
        "module": KernelModule(),
        "mount": Mount(),
    }
