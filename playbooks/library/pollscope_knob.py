#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: turn knobs of this host by `pollscope knob`, which keeps a journal (docs/reference-metrics.md).

- `present` calls `pollscope knob set` for each knob that has another value. If one is refused, the knobs that this
  call had set are restored. `absent` calls `pollscope knob restore` for the named knobs.
- `knobs`: Values by NAME or NAME@TARGET.
- `names`: The knobs that `absent` restores.
- `emulated_consent`: Also set registers of an emulator without effect.
- `program`: The program pollscope on this host.
"""

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

# If this journal does not exist, no knob was set and none has to be restored (docs/reference-metrics.md).
JOURNAL = Path("/var/lib/pollscope/knobs/hand.journal")
POLICIES = Path("/sys/devices/system/cpu/cpufreq")
NOTHING = ("nothing to restore", "nothing was written")


def pollscope(program: str, *words: str) -> str:
    """Run `pollscope knob` and return its output.

    Raises:
        HostError: it failed (the message is its own), or it is not on this host.
    """
    environment = os.environ | {"POLLSCOPE_CALLER": "play"}  # the mark of a play keeps all other callers away
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
        raise HostError(error.strerror or "cannot be run", program, "let the role pollscope_apps install it") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"pollscope knob ended with {done.returncode}"]
        raise HostError(said[-1].removeprefix("pollscope: "))
    return done.stdout


def differing(program: str, knobs: Mapping[str, Any]) -> dict[str, str]:
    """Return the knobs whose value differs from the wanted one, with their present values."""
    found = {}
    for key, value in knobs.items():
        values = json.loads(pollscope(program, "get", *target_words(key), "--json"))
        if not values:
            raise HostError("this host has no such knob", key, "pollscope knob list shows the reason")
        if any(each != word_of(value) for each in values.values()):
            found[key] = ", ".join(sorted(set(values.values())))
    return found


def target_words(key: str) -> list[str]:
    """Return the words of the command line for NAME or NAME@TARGET."""
    name, _, target = key.partition("@")
    return [name, *(["--target", target] if target else [])]


def planned(program: str, knobs: Mapping[str, Any], emulated: bool) -> list[str]:
    """Return one line per change that `set_knobs` would make.

    Raises:
        HostError: a change would be refused.
    """
    if not Path(program).exists():  # the role pollscope_apps installs nothing in check mode
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
    """Set knobs, with consent also those of an emulated machine; return one line per change.

    Raises:
        HostError: a knob was refused; the knobs that were set before it are restored.
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
    """Restore knobs; return one line per change.

    Raises:
        HostError: some knobs were not restored; the others are.
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
    """Return the knobs that were set before the play that is undone. They stay, even with a value of that play."""
    return {entry.knob for entry in marked(JOURNAL.stem)} if is_undone() else set()


def changed_knobs(program: str, names: Sequence[str]) -> list[str]:
    """Return one line per named knob that is in pollscope's journal."""
    rows = json.loads(pollscope(program, "list", "--json"))
    return [f"{row['knob']} would be restored" for row in rows if row["knob"] in names and row["changed_from"]]


def act(module: AnsibleModule) -> list[str]:
    """Act on the module's `state`; return one line per change.

    Raises:
        HostError: a knob was refused, differs, or was not restored.
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
