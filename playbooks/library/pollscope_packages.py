#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: install packages of the distribution, with a journal of those that came, and purge these again.

- `present` installs the missing packages. The journal also lists what came with them. Nothing is upgraded or removed,
  and nothing is changed if no package is missing. If an archive with packages was unpacked (pollscope_release), APT
  reads these and nothing else.
- `absent` purges exactly what the journal lists, unless something else needs it by now.
- `names`: Names of the packages. `a|b` asks for one of both; if neither is installed, the first one is.
- `start_services`: Whether the services of new packages are started.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError
from ansible.module_utils.pollscope.host.journal import Journal, load
from ansible.module_utils.pollscope.host.lock import HostLock
from ansible.module_utils.pollscope_journal import (
    STATE_ARGUMENTS,
    Item,
    Ledger,
    boot_id,
    header,
    is_undone,
    journal_path,
    marked,
    offline_folder,
    report,
)
from ansible.module_utils.pollscope_kinds import common_kinds

KEY = ("packages", "apt")
POLICY = Path("/usr/sbin/policy-rc.d")
LISTS_GOOD_FOR_S = 3600
# APT waits for the lock of another package manager, and keeps configuration files that exist.
APT = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"]


def offline_sources() -> list[str]:
    """Return options for APT on a host whose packages came in an archive; none on another host.

    APT then neither reads nor writes its own sources and lists. The digest of the archive was checked, so its packages
    need no signature.
    """
    here = offline_folder() / "current"
    if not (here / "packages").is_dir():
        return []
    source = here / "sources.list"
    source.write_text(f"deb [trusted=yes] file:{here}/packages ./\n")
    settings = {"Etc::SourceList": source, "Etc::SourceParts": "/dev/null", "State::Lists": here / "lists"}
    return [word for name, value in settings.items() for word in ("-o", f"Dir::{name}={value}")]


def apt(*words: str) -> str:
    """Run apt-get and return its output.

    Raises:
        HostError: it failed; the message is its first error.
    """
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        command = [*APT, *offline_sources(), *words]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment
        )
    except FileNotFoundError as error:
        raise HostError("apt-get is not on this host", remedy="use Debian 12, Debian 13 or Ubuntu 24.04") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise HostError(f"apt-get {words[0]}: {(errors or [done.stderr.strip() or 'failed'])[0]}")
    return done.stdout


def installed() -> set[str]:
    """Return the names of all installed packages."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package}\n"], capture_output=True, text=True, check=True
    )
    return {line[3:] for line in done.stdout.splitlines() if line.startswith("ii ")}


def missing_of(names: Sequence[str], present: set[str]) -> list[str]:
    """Return the packages to install: the first of each `a|b|...` of which none is present."""
    choices = [name.split("|") for name in names]
    return sorted({each[0] for each in choices if not present.intersection(each)})


def simulated(*words: str) -> dict[str, set[str]]:
    """Return what apt-get would do: `{"Inst": {..}, "Remv": {..}, "Purg": {..}}`."""
    found: dict[str, set[str]] = {"Inst": set(), "Remv": set(), "Purg": set()}
    for line in apt("-s", *words).splitlines():
        verb, _, rest = line.partition(" ")
        if verb in found and rest:
            found[verb].add(rest.split()[0].partition(":")[0])
    return found


def refresh_lists() -> None:
    """Fetch the lists of packages unless they are fresh."""
    if offline_sources():
        apt("update")
        return
    lists = Path("/var/lib/apt/lists")
    stamps = [Path("/var/lib/apt/periodic/update-success-stamp"), lists]
    newest = max((path.stat().st_mtime for path in stamps if path.exists()), default=0.0)
    if time.time() - newest > LISTS_GOOD_FOR_S or not any(lists.glob("*Packages*")):
        apt("update")


def policy_ledger(path: Path) -> Ledger:
    """Return the ledger of POLICY, whose journal lies beside that of the packages.

    POLICY needs a journal: if a play that was cut off left it, no service of the host would start.
    """
    return Ledger(path.with_name(f"{path.stem}-services{path.suffix}"), common_kinds(), boot_id())


@contextmanager
def services_off(wanted: bool, path: Path) -> Iterator[None]:
    """Keep packages from starting their services meanwhile, if wanted (policy-rc.d, see invoke-rc.d(8)).

    Args:
        wanted: whether to keep them from it.
        path: the journal of the packages.
    """
    ledger = policy_ledger(path)
    ledger.restore()
    if not wanted or POLICY.exists():
        yield
        return
    try:
        ledger.converge([Item("file", str(POLICY), {"text": "#!/bin/sh\nexit 101\n", "mode": 0o755})])
        yield
    finally:
        ledger.restore()


def install(path: Path, missing: Sequence[str]) -> list[str]:
    """Install the missing packages; return the names of all packages that came.

    Raises:
        HostError: apt-get refuses, or would remove something. The packages that had come until then are purged.
    """
    refresh_lists()
    plan = simulated("install", "--no-install-recommends", *missing)
    if plan["Remv"] or plan["Purg"]:
        raise HostError(f"installing {' '.join(missing)} would remove {' '.join(sorted(plan['Remv'] | plan['Purg']))}")
    before, boot = installed(), boot_id()
    journal = Journal.open_or_create(path, header(boot))
    earlier = journal.find(*KEY)
    ours = set(earlier.new) if earlier else set()
    # While APT waits for the lock, another package manager may install others.
    planned = plan["Inst"] - before
    entry = journal.set(*KEY, None, sorted(ours | planned), boot)
    try:
        apt("install", "--no-install-recommends", *missing)
    except HostError:
        purge(sorted(installed() & planned))
        if earlier:
            journal.done(journal.set(*KEY, None, earlier.new), earlier.new)
        else:
            journal.restored(entry, "failed")
        journal.finish()
        raise
    came = installed() & planned
    journal.done(journal.set(*KEY, None, sorted(ours | came)), sorted(ours | came))
    journal.close()
    return sorted(came)


def purge(names: Sequence[str]) -> None:
    """Purge packages.

    Raises:
        HostError: other packages need them.
    """
    if not names:
        return
    plan = simulated("purge", *names)
    others = (plan["Remv"] | plan["Purg"]) - set(names)
    if others:
        what = f"the packages that came are needed by {' '.join(sorted(others))}, which came later"
        raise HostError(what, remedy="remove these first")
    apt("purge", *names)


def restore(path: Path, dry: bool) -> list[str]:
    """Purge what the journal lists, and return one line per change; while a play is undone, only what came in it."""
    lines = policy_ledger(path).restore(dry)
    entries = load(path).pending
    kept = {name for entry in marked(path.stem) for name in entry.new} if is_undone() else set()
    names = sorted(({name for entry in entries for name in entry.new} - kept) & installed())
    if entries and not dry:
        purge(names)
        journal = Journal.open(path)
        for entry in entries:
            still = sorted(kept.intersection(entry.new))
            if still:
                journal.done(journal.set(entry.knob, entry.target, None, still), still)
            else:
                journal.restored(entry, "purged")
        journal.finish()
    return [*lines, *([f"removed: {' '.join(names)}"] if names else [])]


def act(module: AnsibleModule) -> list[str]:
    """Act on the module's `state`; return one line per change.

    Raises:
        HostError: a package cannot be installed or purged, or is missing.
    """
    path = journal_path(module.params["journal"])
    if module.params["state"] == "absent":
        with nullcontext() if module.check_mode else HostLock("a play"):
            return restore(path, module.check_mode)
    missing = missing_of(module.params["names"], installed())
    if not missing:
        return []
    if module.params["state"] == "verified":
        raise HostError(f"not installed: {' '.join(missing)}")
    if module.check_mode:
        return [f"to install: {' '.join(missing)}"]
    with HostLock("a play"), services_off(not module.params["start_services"], path):
        return [f"installed: {' '.join(install(path, missing))}"]


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={
            **STATE_ARGUMENTS,
            "names": {"type": "list", "elements": "str", "default": []},
            "start_services": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    report(module, lambda: act(module))


if __name__ == "__main__":
    main()
