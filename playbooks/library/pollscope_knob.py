#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: knobs of this host, turned by pollscope itself with its own journal (docs/knobs.md)."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError, reason_of
from ansible.module_utils.pollscope_journal import is_undone, marked, report
from ansible.module_utils.pollscope_kinds import word_of

DOCUMENTATION = r"""
module: pollscope_knob
short_description: Knobs of this host, turned by pollscope itself with its own journal
description:
  - With C(present), `pollscope knob set` for every knob that has another value; when one is refused, those that this
    call had set are restored. With C(absent), `pollscope knob restore` for the named knobs.
options:
  state: {type: str, choices: [present, absent, verified], default: present, description: Set, restore, or compare.}
  knobs: {type: dict, default: {}, description: 'NAME or NAME@TARGET, and the value.'}
  names: {type: list, elements: str, default: [], description: The knobs that C(absent) restores.}
  emulated_consent: {type: bool, default: false, description: Also set registers of an emulator without effect.}
  program: {type: str, required: true, description: The program pollscope on this host.}
author: [pollscope]
"""

# Without this journal nothing was set, and nothing has to be restored (docs/knobs.md).
JOURNAL = Path("/var/lib/pollscope/knobs/hand.journal")
POLICIES = Path("/sys/devices/system/cpu/cpufreq")
NOTHING = ("nothing to restore", "nothing was written")


def pollscope(program: str, *words: str) -> str:
    """Runs `pollscope knob`.

    Raises:
        HostError: it failed, with the line that it said; it is not on this host.
    """
    environment = os.environ | {"POLLSCOPE_CALLER": "play"}  # which may do what it keeps others from
    try:
        done = subprocess.run(
            [program, "knob", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
    except OSError as error:
        raise HostError(f"{program}: {error.strerror}: the role pollscope_apps brings it to this host") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"pollscope knob ended with {done.returncode}"]
        raise HostError(said[-1].removeprefix("pollscope: "))
    return done.stdout


def differing(program: str, knobs: Mapping[str, Any]) -> dict[str, str]:
    """The knobs that have another value than wanted, with what they have."""
    found = {}
    for key, value in knobs.items():
        values = json.loads(pollscope(program, "get", *target_words(key), "--json"))
        if not values:
            raise HostError(f"{key}: this host has no such knob (pollscope knob list says why)")
        if any(each != word_of(value) for each in values.values()):
            found[key] = ", ".join(sorted(set(values.values())))
    return found


def target_words(key: str) -> list[str]:
    """The words of the command line for NAME or NAME@TARGET."""
    name, _, target = key.partition("@")
    return [name, *(["--target", target] if target else [])]


def planned(program: str, knobs: Mapping[str, Any], emulated: bool) -> list[str]:
    """A line for each change that `set_knobs` would make.

    Raises:
        HostError: it would be refused.
    """
    if not Path(program).exists():  # in check mode the role pollscope_apps brings nothing
        if "governor" in knobs and not any(POLICIES.glob("policy*")):
            what = "governor: the kernel sets no frequency on this host (the firmware does, or a hypervisor)"
            raise HostError(what, remedy="leave cpu_power_governor out of the inventory")
        return [f"{key}: -> {word_of(value)}, if this host can do it" for key, value in knobs.items()]
    consent, lines = ["--emulated"] if emulated else [], list[str]()
    for key, value in knobs.items():
        name, *target = target_words(key)
        lines += pollscope(program, *consent, "set", name, word_of(value), *target, "--check").splitlines()
    return [line for line in lines if not line.endswith(NOTHING)]


def set_knobs(program: str, knobs: Mapping[str, Any], keys: Sequence[str], emulated: bool) -> list[str]:
    """Sets knobs, on consent those of an emulated machine, too; returns a line for each change.

    Raises:
        HostError: one was refused; those that were set before are restored.
    """
    lines: list[str] = []
    consent = ["--emulated"] if emulated else []
    for position, key in enumerate(keys):
        name, *target = target_words(key)
        try:
            lines += pollscope(program, *consent, "set", name, word_of(knobs[key]), *target).splitlines()
        except HostError:
            restore(program, sorted({each.partition("@")[0] for each in keys[:position]}))
            raise
    return [line for line in lines if not line.endswith(NOTHING)]


def restore(program: str, names: Sequence[str]) -> list[str]:
    """Restores knobs; returns a line for each change.

    Raises:
        HostError: some were not restored; the others are.
    """
    lines, refusals = [], []
    for name in names:
        try:
            lines += pollscope(program, "restore", name).splitlines()
        except HostError as refused:
            refusals.append(reason_of(refused))
    if refusals:
        raise HostError("; ".join(refusals))
    return [line for line in lines if not line.endswith(NOTHING)]


def set_before() -> set[str]:
    """The knobs that were set before the play that is undone: they stay, also with a value that the play gave them."""
    return {entry.knob for entry in marked(JOURNAL.stem)} if is_undone() else set()


def changed_knobs(program: str, names: Sequence[str]) -> list[str]:
    """The named knobs that pollscope's journal has."""
    rows = json.loads(pollscope(program, "list", "--json"))
    return [f"{row['knob']} would be restored" for row in rows if row["knob"] in names and row["changed_from"]]


def act(module: AnsibleModule) -> list[str]:
    """Does what `state` says; returns the lines of what was changed.

    Raises:
        HostError: see above.
    """
    program, knobs, state = module.params["program"], module.params["knobs"], module.params["state"]
    if state == "absent":
        if not Path(program).exists() and not JOURNAL.exists():
            return []
        names = [name for name in module.params["names"] if name not in set_before()]
        return changed_knobs(program, names) if module.check_mode else restore(program, names)
    if module.check_mode and state == "present":
        return planned(program, knobs, module.params["emulated_consent"])
    found = differing(program, knobs)
    if state == "verified" and found:
        raise HostError("; ".join(f"{key} is {value}, should be {word_of(knobs[key])}" for key, value in found.items()))
    if state == "verified":
        return []
    return set_knobs(program, knobs, list(found), module.params["emulated_consent"])


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
            "knobs": {"type": "dict", "default": {}},
            "names": {"type": "list", "elements": "str", "default": []},
            "emulated_consent": {"type": "bool", "default": False},
            "program": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    report(module, lambda: act(module))


if __name__ == "__main__":
    main()
