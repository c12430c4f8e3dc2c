# SPDX-License-Identifier: BSD-3-Clause
"""Makes the programs on this host from the sources of the checkout or of the installed wheel."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ruamel.yaml import YAML

from pollscope.base.errors import HostError
from pollscope.base.paths import INSTALLED, build_folder, cache_folder, carried, level_folder
from pollscope.base.source_tree import source_tree
from pollscope.base.units import human_time
from pollscope.host.lock import HostLock

PROGRAMS = ("pollscope-node", "pollscope-corunner", "tcp-path", "librte_net_crossover.so", "librte_pollscope_probe.so")
_SDK_VARIABLE = "DPDK_DRIVER_SDK"
# Ninja's status before a step, and the time between two lines about them.
_STEP = re.compile(r"\[([1-9]\d*)/(\d+)\] ")
_LINE_EVERY_S = 10.0
_TOOLS = ("cc", "meson", "ninja", "pkg-config")
# The roles whose packages a build needs.
_ROLES = ("build_tools", "dpdk")


def build_programs(say: Callable[[str], None], level: str | None = None) -> Path:
    """Build missing programs; return their folder.

    Args:
        say: gets a line before each long step.
        level: of the processors for which a bundle needs them; None: this host's.

    Raises:
        HostError: this host lacks something (the message names all of it, with the packages), or the build fails.
    """
    folder = build_folder() if level is None else level_folder(level)
    if INSTALLED and _is_complete(folder):  # the sources of a wheel do not change
        return folder
    lacking = _lacking()
    if lacking:
        what = f"the programs cannot be built here: there is no {', no '.join(lacking)}"
        raise HostError(what, remedy=f"apt-get install {' '.join(packages())}")
    options = () if level is None else (f"-Dmarch={level}", "-Dbundle=true")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with HostLock("pollscope build", folder.with_name(f"{folder.name}.lock")).wait(say):
        if INSTALLED:
            _build_once(folder, options, say)
        else:
            _ninja(folder, _configured(folder, _driver_sdk(say), options), say)
    return folder


def packages() -> list[str]:
    """Return the distribution's packages that a build needs, as the roles name them."""
    files = (carried("playbooks/roles") / role / "defaults/main.yml" for role in _ROLES)
    found = (YAML(typ="safe").load(file)[f"{role}_packages"] for role, file in zip(_ROLES, files, strict=True))
    return [name for names in found for name in names]


def _lacking() -> list[str]:
    lacking = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if "pkg-config" not in lacking and subprocess.run(["pkg-config", "--exists", "libdpdk"], check=False).returncode:
        lacking.append("DPDK")
    return lacking


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in PROGRAMS)


def _build_once(folder: Path, options: Sequence[str], say: Callable[[str], None]) -> None:
    if _is_complete(folder):  # another process was first
        return
    sdk = _driver_sdk(say)
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as work:
        made = _configured(Path(work) / "build", sdk, options)
        _ninja(folder, made, say)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def _configured(folder: Path, sdk: Path, options: Sequence[str]) -> Path:
    if not (folder / "build.ninja").exists():
        every = (f"-Ddriver_sdk={sdk / 'include'}", *options)
        _run(["meson", "setup", str(folder), str(source_tree() / "apps"), *every], "they cannot be configured")
    return folder


def _ninja(wanted: Path, folder: Path, say: Callable[[str], None]) -> None:
    say(f"building {', '.join(PROGRAMS)} in {wanted}")
    _run(["ninja", "-C", str(folder), *PROGRAMS], "they cannot be built", say)


def _driver_sdk(say: Callable[[str], None]) -> Path:
    """Return the headers that net_crossover needs and Debian's packages lack."""
    if named := os.environ.get(_SDK_VARIABLE):
        return Path(named)
    folder = cache_folder() / "driver-sdk"
    say("looking for the headers of DPDK's driver SDK")
    _run(["sh", str(carried("apps/pmd/fetch-driver-sdk")), str(folder)], "no headers of the driver SDK")
    return folder


def _run(command: Sequence[str], failure: str, say: Callable[[str], None] = lambda _line: None) -> None:
    log = cache_folder() / "build.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    began = spoke = time.monotonic()
    with (
        log.open("w") as stream,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                stream.write(line)
                now = time.monotonic()
                if (step := _STEP.match(line)) and now - spoke >= _LINE_EVERY_S:
                    spoke, done, total = now, int(step[1]), int(step[2])
                    say(f"built {done} of {total} files, {human_time((now - began) * (total - done) / done)} left")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        message = next((line for line in said if "ERROR" in line or "error:" in line), said[-1] if said else "")
        raise HostError(f"{failure}: {message or command[0]}", remedy=f"the log is {log}")


def queues_per_port(program: Path) -> int | None:
    """Return RTE_MAX_QUEUES_PER_PORT (1024 in distributions' builds); None if the build left no record."""
    try:
        return int(json.loads(program.with_name("limits.json").read_text())["queues_per_port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def queues_refusal(program: Path, queues: int) -> str | None:
    """Return why this build's ports cannot have so many RX queues; None if they can, or if that is unknown."""
    most = queues_per_port(program)
    if most is None or queues <= most:
        return None
    return f"needs {queues} RX queues; this DPDK was built for {most} a port (RTE_MAX_QUEUES_PER_PORT)"
