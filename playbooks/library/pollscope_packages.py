#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: packages of the distribution, with a journal of those that came, so that these can go again."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope_journal import STATE_ARGUMENTS, Journal, Refused, boot_id, journal_path, report

DOCUMENTATION = r"""
module: pollscope_packages
short_description: Packages of the distribution, and a journal of those that came
description:
  - With C(present), installs the packages that are missing; what came with them is in the journal, too.
    Nothing is upgraded or removed. A host where all is there is only looked at.
  - With C(absent), purges exactly what the journal lists, unless something else needs it by now.
options:
  state: {type: str, choices: [present, absent, verified], default: present, description: See above.}
  journal: {type: str, required: true, description: Name of the journal, one for each role.}
  names:
    type: list
    elements: str
    default: []
    description: Names of the packages. Of C(a|b) one is enough; when none is there, the first is installed.
  start_services: {type: bool, default: true, description: Whether services that come are started.}
author: [pollscope]
"""

KEY = ("packages", "apt")
LISTS_GOOD_FOR_S = 3600
# The lock of another package manager is waited for; ours is the last word on configuration files that are there.
APT = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"]


def apt(*words: str) -> str:
    """Runs apt-get.

    Raises:
        Refused: it failed; the message is its first error.
    """
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [*APT, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment
        )
    except FileNotFoundError as error:
        raise Refused("apt-get is not on this host: Debian 12, Debian 13 and Ubuntu 24.04 are known") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise Refused(f"apt-get {words[0]}: {(errors or [done.stderr.strip() or 'failed'])[0]}")
    return done.stdout


def installed() -> set[str]:
    """The names of all installed packages."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package}\n"], capture_output=True, text=True, check=True
    )
    return {line[3:] for line in done.stdout.splitlines() if line.startswith("ii ")}


def missing_of(names: Sequence[str], present: set[str]) -> list[str]:
    """What has to be installed: of each `a|b|...` without any that is present, the first."""
    choices = [name.split("|") for name in names]
    return sorted({each[0] for each in choices if not present.intersection(each)})


def simulated(*words: str) -> dict[str, set[str]]:
    """What apt-get would do: `{"Inst": {..}, "Remv": {..}, "Purg": {..}}`."""
    found: dict[str, set[str]] = {"Inst": set(), "Remv": set(), "Purg": set()}
    for line in apt("-s", *words).splitlines():
        verb, _, rest = line.partition(" ")
        if verb in found and rest:
            found[verb].add(rest.split()[0].partition(":")[0])
    return found


def refresh_lists() -> None:
    """Fetches the lists of packages unless they are fresh."""
    lists = Path("/var/lib/apt/lists")
    stamps = [Path("/var/lib/apt/periodic/update-success-stamp"), lists]
    newest = max((path.stat().st_mtime for path in stamps if path.exists()), default=0.0)
    if time.time() - newest > LISTS_GOOD_FOR_S or not any(lists.glob("*Packages*")):
        apt("update")


@contextmanager
def services_off(wanted: bool) -> Iterator[None]:
    """Keeps packages from starting their services meanwhile (policy-rc.d, see invoke-rc.d(8)), if wanted."""
    path = Path("/usr/sbin/policy-rc.d")
    if not wanted or path.exists():
        yield
        return
    path.write_text("#!/bin/sh\nexit 101\n")
    path.chmod(0o755)
    try:
        yield
    finally:
        path.unlink()


def install(journal: Journal, missing: Sequence[str]) -> list[str]:
    """Installs what is missing; returns the names of all that came.

    Raises:
        Refused: apt-get refuses, or would remove something; what had come until then is purged again.
    """
    refresh_lists()
    plan = simulated("install", "--no-install-recommends", *missing)
    if plan["Remv"] or plan["Purg"]:
        raise Refused(f"installing {' '.join(missing)} would remove {' '.join(sorted(plan['Remv'] | plan['Purg']))}")
    before, earlier = installed(), journal.find(*KEY)
    ours = set(earlier["new"]) if earlier else set()
    entry = {"kind": KEY[0], "target": KEY[1], "old": None, "found": None, "boot_id": boot_id()}
    journal.put({**entry, "new": sorted(ours | plan["Inst"] - before)})
    try:
        apt("install", "--no-install-recommends", *missing)
    except Refused:
        purge(sorted(installed() - before))
        journal.drop(entry_of(journal)) if earlier is None else journal.put(earlier)
        raise
    came = installed() - before
    journal.put({**entry, "new": sorted(ours | came), "found": sorted(ours | came)})
    return sorted(came)


def entry_of(journal: Journal) -> dict[str, Any]:
    """The one entry of a journal of packages."""
    entry = journal.find(*KEY)
    assert entry is not None
    return entry


def purge(names: Sequence[str]) -> None:
    """Purges packages.

    Raises:
        Refused: others need them.
    """
    if not names:
        return
    plan = simulated("purge", *names)
    others = (plan["Remv"] | plan["Purg"]) - set(names)
    if others:
        raise Refused(
            f"the packages that came are needed by {' '.join(sorted(others))}, which came later: remove these first"
        )
    apt("purge", *names)


def give_back(journal: Journal, dry: bool) -> list[str]:
    """Purges what the journal lists; returns one line, or none when nothing is left of it."""
    entry = journal.find(*KEY)
    if entry is None:
        return []
    names = sorted(set(entry["new"]) & installed())
    if not dry:
        purge(names)
        journal.drop(entry)
    return [f"removed: {' '.join(names)}"] if names else []


def act(module: AnsibleModule) -> list[str]:
    """Does what `state` says; returns the lines of what was changed.

    Raises:
        Refused: see above.
    """
    journal = Journal(journal_path(module.params["journal"]))
    if module.params["state"] == "absent":
        return give_back(journal, module.check_mode)
    missing = missing_of(module.params["names"], installed())
    if not missing:
        return []
    if module.params["state"] == "verified":
        raise Refused(f"not installed: {' '.join(missing)}")
    if module.check_mode:
        return [f"to install: {' '.join(missing)}"]
    with services_off(not module.params["start_services"]):
        return [f"installed: {' '.join(install(journal, missing))}"]


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
