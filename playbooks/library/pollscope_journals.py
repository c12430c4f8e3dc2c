#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: which roles have something to restore on this host; where a play begins and ends in the journals."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError, PollscopeError, reason_of
from ansible.module_utils.pollscope.host.boot_note import AFTER_MODE, CHANGES_MODE, boot_note, remove_boot_note
from ansible.module_utils.pollscope.host.journal import load
from ansible.module_utils.pollscope.host.lock import HostLock, state_folder
from ansible.module_utils.pollscope.host.restore import Restorer
from ansible.module_utils.pollscope_journal import boot_id, is_undone, journal_path, mark_folder
from ansible.module_utils.pollscope_kinds import Release

DOCUMENTATION = r"""
module: pollscope_journals
short_description: Which roles have something to restore on this host
description:
  - A journal's name begins with its role's name. The roles that turn knobs have the journal of the knobs.
    A role whose reboot is still to come counts, too.
  - C(begun) keeps a copy of the journals while a play goes on, so that only this play is undone if it fails; a host on
    which a run measures, whose boot parameters a run changes, or on which somebody else's play is, is refused. C(ended)
    removes it, and releases that nothing points to any more. C(restored) does the same, and what a run had changed of
    the boot parameters is back. C(alone) only refuses as C(begun) does. C(free) refuses a host on which a run measures
    or somebody else's play is, or where a run that was killed has left knobs, which need the programs to be restored.
options:
  state: {type: str, choices: [found, alone, free, begun, ended, restored], default: found, description: See above.}
  player: {type: str, default: "", description: Who plays; one that is named plays once at a time.}
  take_over: {type: bool, default: false, description: Somebody else's play was cut off.}
  of_run: {type: bool, default: false, description: A run plays C(alone), which has the boot parameters changed.}
author: [pollscope]
"""

HAND = "hand"  # the journal of `pollscope knob set`
KNOB_ROLES = ["cpu_power", "ddio"]
PENDING = Path("/run/pollscope/reboot")
PLAYER = "player"
OWN_PARAMETERS = {
    "free": ("player", "take_over"),
    "begun": ("player", "take_over"),
    "alone": ("player", "take_over", "of_run"),
}
# A play that has done nothing for so long was cut off. Between two tasks of ours an archive may be built on a
# host, while the others wait (BUILD_LIMIT_S of testbeds/pair/build.py), or be copied to it.
SILENT_S = 1800.0


def roles() -> list[str]:
    """The roles, sorted."""
    folder = journal_path("any").parent
    folders = [folder, mark_folder()] if is_undone() else [folder]
    names = {path.stem for each in folders for path in each.glob("*") if path.suffix in (".journal", ".json")}
    found = {name.partition("-")[0] for name in names if name != HAND}
    found |= {path.name for path in PENDING.glob("*")}
    if "cpu_isolation" in found:
        found.add("iommu")  # which reboots for it
    if (state_folder() / "hugepages.json").exists():  # of earlier versions
        found.add("hugepages")
    if (state_folder() / f"knobs/{HAND}.journal").exists():
        found.update(KNOB_ROLES)
    return sorted(found)


def begin(player: str = "", take_over: bool = False) -> None:
    """Keeps a copy of what the journals list, and who plays.

    Raises:
        HostError: a run or another play is on the host.
        OSError: for instance a full disk.
    """
    with HostLock("a play"):
        refuse_boot_note()
        refuse_other_player(player, take_over)
        shutil.rmtree(mark_folder(), ignore_errors=True)
        mark_folder().mkdir(parents=True)
        (mark_folder() / PLAYER).write_text(player)
        for path in (*journal_path("any").parent.glob("*.journal"), state_folder() / f"knobs/{HAND}.journal"):
            if path.exists():
                shutil.copy(path, mark_folder())


def refuse_other_player(player: str, take_over: bool) -> None:
    """Between its tasks a play does not hold the lock: what it began with would be lost to another one, and with it
    what has to be restored when it fails. One player has one play at a time on a host (testbeds/pair/plays.py).

    Raises:
        HostError: somebody else's play has done something lately, and has not ended.
    """
    try:
        age_s, other = time.time() - mark_folder().stat().st_mtime, (mark_folder() / PLAYER).read_text()
    except OSError:  # no play, or one of before, which had no name
        return
    if abs(age_s) < SILENT_S and not take_over and (other != player or not player):
        name = " ".join(other.split()) or "somebody"
        remedy = "wait for it; if it was cut off: -e pollscope_take_over=true"
        raise HostError(f"this host is in use by a play of {name}", str(mark_folder()), remedy)


def begin_to_restore(player: str = "", take_over: bool = False) -> None:
    """Begin a play that restores: without this, each role would be refused by itself, in as many words.

    Raises:
        HostError: a run or another play is on the host, or a run has left knobs.
        OSError: for instance a full disk.
    """
    with HostLock("a play"):
        refuse_other_player(player, take_over)
        refuse_left_knobs()
        mark_folder().mkdir(parents=True, exist_ok=True)
        (mark_folder() / PLAYER).write_text(player)


def refuse_others(player: str = "", take_over: bool = False, of_run: bool = False) -> None:
    """Before a play that has no beginning in the journals: it may find nothing to change, and reboot all the same.

    Raises:
        HostError: a run or another play is on the host, or another run changes its boot parameters.
    """
    with HostLock("a play"):
        if not of_run:
            refuse_boot_note()
        refuse_other_player(player, take_over)


def refuse_left_knobs() -> None:
    """What a killed run has set, the programs restore, which the play takes away.

    Raises:
        HostError: see above.
    """
    run = load(state_folder() / "knobs/run.journal")
    if run.header and run.pending:
        names = ", ".join(sorted({entry.knob for entry in run.pending}))
        remedy = "pollscope knob restore on this host, or pollscope run --restore-first; then restore again"
        raise HostError(f"{run.header.what} of {run.header.at_utc} did not restore: {names}", remedy=remedy)


def refuse_boot_note() -> None:
    """A run releases the host while a play of its own reboots it; one that was killed in it has left its mode.

    Raises:
        HostError: see above.
    """
    if note := boot_note(state_folder()):
        raise HostError(f"{note} {CHANGES_MODE}", remedy=AFTER_MODE)


def end() -> None:
    """Removes the copy, and the releases that it was kept for.

    Raises:
        HostError: a release cannot be removed.
    """
    if not mark_folder().is_dir():
        return
    shutil.rmtree(mark_folder())
    for path in journal_path("any").parent.glob("*.journal"):
        remove_former(path)
    with suppress(OSError):  # journals are there
        for folder in (mark_folder().parent, state_folder()):
            folder.rmdir()


def restored() -> None:
    """Nothing is left of what plays and runs had changed. Raises HostError: as `end`."""
    end()
    remove_boot_note(state_folder())


def remove_former(path: Path) -> None:
    """Removes the releases in a journal that its link does not point to."""
    entries = load(path).pending
    in_use = {str(Path(each.target).parent / each.new) for each in entries if each.knob == "link"}
    former = {each.target for each in entries if each.knob == "release"} - in_use
    if not former or not in_use:
        return
    with HostLock("a play"):
        restorer = Restorer({"release": Release(_no_files)}, boot_id())
        results = restorer.restore(path, lambda entry: entry.knob == "release" and entry.target in former)
    if refusals := [str(each) for each in results if not each.restored]:
        raise HostError("; ".join(refusals))


def _no_files(folder: Path) -> None:
    raise AssertionError(f"BUG: {folder} is only removed")


def main() -> None:
    """Look and report."""
    actions: dict[str, Callable[..., None]] = {
        "alone": refuse_others,
        "free": begin_to_restore,
        "begun": begin,
        "ended": end,
        "restored": restored,
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["found", *actions], "default": "found"},
            "player": {"type": "str", "default": ""},
            "take_over": {"type": "bool", "default": False},
            "of_run": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    state = module.params["state"]
    own = {key: module.params[key] for key in OWN_PARAMETERS.get(state, ())}
    try:
        if not module.check_mode and state != "found":
            actions[state](**own)
    except (PollscopeError, OSError) as error:
        module.fail_json(msg=reason_of(error))
    module.exit_json(changed=False, roles=roles())


if __name__ == "__main__":
    main()
