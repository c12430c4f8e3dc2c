# SPDX-License-Identifier: BSD-3-Clause
"""Make systems of other releases with mmdebstrap: Debian from this host's own mirror, and Ubuntu."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

ENTER = Path(__file__).with_name("enter")
UBUNTU = "http://archive.ubuntu.com/ubuntu"
UBUNTU_SUITES = ("noble",)
# Packages that a minimal Debian system has anyway.
UBUNTU_PACKAGES = ("apt", "ubuntu-keyring")
# Debian 12 has no package of Ubuntu's keys.
UBUNTU_KEYS = f"{UBUNTU}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
UBUNTU_KEYS_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
# The site's way to the network belongs to a machine as much as its cable: names, settings of pip, certificates (in the
# place from which the package ca-certificates takes them when it is installed, and in the place where they end).
SITE_FILES = (
    ("/etc/resolv.conf", "etc/resolv.conf"),
    ("/etc/hosts", "etc/hosts"),
    ("/etc/pip.conf", "etc/pip.conf"),
    ("/etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt"),
    ("/etc/ssl/certs/ca-certificates.crt", "usr/local/share/ca-certificates/site.crt"),
)


class NoChroot(Exception):
    """This host cannot make a Debian system; the message is the reason to skip with."""


@dataclass(frozen=True)
class System:
    """A Debian system to run commands in; its changes are lost at the end.

    Attributes:
        base: the root folder, shared and read only.
        layer: the folder that holds what commands write.
        inside: starts a command in another place, for instance a network namespace; empty: in this one.
    """

    base: Path
    layer: Path
    inside: tuple[str, ...] = ()

    def run(
        self,
        command: Sequence[str],
        *,
        binds: Mapping[Path, str] | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there as root; standard error is merged into `stdout`.

        Raises:
            subprocess.TimeoutExpired: with everything in there ended.
        """
        return subprocess.run(
            self.words(command, binds),
            env=clean_environment() | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def words(self, command: Sequence[str], binds: Mapping[Path, str] | None = None) -> list[str]:
        """Return the arguments that run a command there. Run one at a time: commands share what they write."""
        options = [word for folder, inside in (binds or {}).items() for word in ("--bind", str(folder), inside)]
        return [*self.inside, str(ENTER), str(self.base), str(self.layer), *options, "--", *command]

    def written(self, path: str) -> Path:
        """Return the path outside of a file that a command wrote at absolute `path`."""
        return self.layer / "changes" / path.lstrip("/")


def clean_environment() -> dict[str, str]:
    """Return the environment of a bare machine."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "dumb"}


def require_tools() -> None:
    """Skip the test if this host cannot make systems.

    Raises:
        NoChroot: not root, no mmdebstrap, or no mount namespaces.
    """
    if os.geteuid() != 0:
        raise NoChroot("a chroot needs root")
    if shutil.which("mmdebstrap") is None:
        raise NoChroot("mmdebstrap is not installed")
    probe = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "mount",
        "-t",
        "tmpfs",
        "tmpfs",
        "/mnt",
    ]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoChroot(f"no mount namespaces here: {done.stderr.strip()}")


def mirror() -> str:
    """Return the address of the Debian archive that this host uses.

    Raises:
        NoChroot: its sources name none (another distribution, for instance).
    """
    form = "--format=$(ORIGIN)|$(COMPONENT)|$(LABEL)|$(REPO_URI)"
    done = subprocess.run(
        ["apt-get", "indextargets", form, "Created-By: Packages"], capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        origin, component, label, address = line.split("|")
        if (origin, component, label) == ("Debian", "main", "Debian"):
            return address
    raise NoChroot("this host's APT sources name no Debian archive (or its lists are empty: apt-get update)")


def base_system(suite: str, packages: Sequence[str], cache: Path) -> Path:
    """Return the root folder of a minimal Debian `suite` with `packages`; make it once and keep it in `cache`.

    Raises:
        NoChroot: this host cannot make it.
        RuntimeError: mmdebstrap failed; the message ends with its last lines.
    """
    root = cache / suite
    stamp = cache / f"{suite}.packages"
    if stamp.exists() and stamp.read_text() == " ".join(packages):
        return root
    require_tools()
    cache.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    _debootstrap(suite, packages, root)
    for file, inside in SITE_FILES:
        if Path(file).exists():
            (root / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, root / inside)
    stamp.write_text(" ".join(packages))
    return root


def _debootstrap(suite: str, packages: Sequence[str], root: Path) -> None:
    ubuntu = suite in UBUNTU_SUITES
    wanted = [*packages, *(UBUNTU_PACKAGES if ubuntu else [])]
    source = _ubuntu(root) if ubuntu else _debian(suite, root)
    include = [f"--include={','.join(wanted)}"] if wanted else []  # mmdebstrap refuses an empty list
    command = ["mmdebstrap", "--variant=minbase", "--quiet", *include, *source]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(root, ignore_errors=True)
        raise RuntimeError(f"mmdebstrap {suite}: {' | '.join(done.stderr.splitlines()[-5:])}")
    if ubuntu:  # inside, the keys are where the package puts them
        (root / "etc/apt/sources.list").write_text("\n".join(_ubuntu_lines(suite, "")))


def _debian(suite: str, root: Path) -> list[str]:
    # unstable's index is good for a week only, and a mirror that stands still for longer serves as well for a test.
    validity = ['--aptopt=Acquire::Check-Valid-Until "false"'] if suite == "sid" else []
    return [*validity, suite, str(root), mirror()]


def _ubuntu(root: Path) -> list[str]:
    return [root.name, str(root), *_ubuntu_lines(root.name, f"[signed-by={_ubuntu_keys(root.parent)}] ")]


def _ubuntu_lines(suite: str, options: str) -> list[str]:
    return [f"deb {options}{UBUNTU} {pocket} main universe" for pocket in (suite, f"{suite}-updates")]


def _ubuntu_keys(cache: Path) -> Path:
    """Return the keys that sign Ubuntu's archive.

    Raises:
        NoChroot: this host does not reach Ubuntu's archive.
    """
    package = cache / UBUNTU_KEYS.rpartition("/")[2]
    fetch = ["/usr/lib/apt/apt-helper", "download-file", UBUNTU_KEYS, str(package), f"SHA256:{UBUNTU_KEYS_SHA256}"]
    for command in (fetch, ["dpkg-deb", "-x", str(package), str(cache / "keys")]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoChroot(f"Ubuntu's archive cannot be reached from here: {done.stderr.strip()}")
    return cache / "keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"


@contextmanager
def system(base: Path, cache: Path) -> Iterator[System]:
    """Yield a fresh system on top of `base` and remove it afterwards. It holds no mounts, see `enter`."""
    layer = Path(tempfile.mkdtemp(prefix="layer-", dir=cache))
    try:
        yield System(base, layer)
    finally:
        shutil.rmtree(layer)


MakeSystem = Callable[..., AbstractContextManager[System]]
