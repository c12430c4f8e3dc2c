# SPDX-License-Identifier: BSD-3-Clause
"""Build the programs on a host of a pair from the sources here, into the user's cache there."""

import hashlib
import subprocess
from pathlib import Path

from pollscope.base.errors import HostError, one_line
from pollscope.base.source_tree import source_tree
from pollscope.testbeds.pair.config import PairHost
from pollscope.testbeds.pair.ssh import LOST_STATUS, run_ssh

# Gets the sources as an archive and the name of the release; prints its folder. An incomplete build is removed.
_SCRIPT = """\
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pollscope/releases
mkdir -p "$cache"
release=$cache/$1
if [ ! -x "$release/bin/pollscope" ]; then
    work=$(mktemp -d /var/tmp/pollscope-build.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM HUP
    mkdir "$work/sources" "$work/release"
    tar -C "$work/sources" -xf -
    "$work/sources/playbooks/build-release" "$work/release.tar.gz" >&2
    tar -C "$work/release" -xf "$work/release.tar.gz"
    rm -rf "$release"
    mv "$work/release" "$release"
fi
echo "$release"
"""
# Enough for an old machine with few cores.
BUILD_LIMIT_S = 1800.0


def pack_sources(folder: Path) -> Path:
    """Return the sources as one archive in a folder.

    Raises:
        HostError: they cannot be packed.
    """
    archive = folder / "sources.tar"
    command = [str(source_tree() / "playbooks/build-release"), "--sources", str(archive)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(_last(done.stderr), "the sources")
    return archive


def build_on(role: str, host: PairHost, archive: Path, driver: bool) -> Path:
    """Build a release on a host, unless these sources were built there before; return its folder there.

    Args:
        role: dut or generator, for the message.
        host: as the testbed's file has it.
        archive: of `pack_sources`.
        driver: with net_crossover, which needs headers that no distribution packages.

    Raises:
        HostError: no login, or the build fails there and is removed.
    """
    kind = "driver" if driver else "none"
    name = f"{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}-{kind}"
    words = [] if driver else ["env", "DRIVER=none"]
    command = [*words, "sh", "-c", _SCRIPT, "pollscope-build", name]
    try:
        with archive.open("rb") as stream:
            done = run_ssh(host.ssh, command, BUILD_LIMIT_S, stream)
    except HostError as error:
        raise HostError(error.what, role, error.remedy) from error
    if done.returncode != 0:
        lost = done.returncode == LOST_STATUS
        remedy = "pollscope testbed check" if lost else "pollscope play provision installs what the build needs"
        raise HostError(_last(done.stderr) or f"ended with {done.returncode}", role, remedy)
    folder = next(reversed(done.stdout.splitlines()), "")
    if not (folder.startswith("/") and folder.isprintable()):
        what = f"the build printed no folder, but {one_line(folder[:80])!r}"
        raise HostError(what, role, "check what its login scripts print")
    return Path(folder)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("build-release: ") if lines else ""
