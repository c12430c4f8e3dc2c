#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: find the roles that have something to restore on this host; begin and end a play.

- Returns `roles`. The name of a journal begins with the name of its role. The roles that turn knobs share the journal
  of the knobs. A role whose reboot is still to come is listed as well.
- `begun` marks that a play is running. The mark keeps runs away and holds a copy of the journals, so that only this
  play is undone if it fails. `begun` refuses a host on which a run measures, whose boot parameters a run changes, or
  on which another user's play is running. `alone` refuses the same hosts and makes no mark.
- `free` begins a play that restores. It refuses a host on which a run measures or another user's play is running, or
  where a killed run has left knobs. Those need the programs, which the play removes.
- `ended` removes the mark, and the releases that no link points to. `restored` also removes the note of a run that
  had changed the boot parameters.
- `player`: Name of the user who plays. A named user has one play at a time.
- `take_over`: The other user's play was cut off.
- `of_run`: For `alone`. The play belongs to the run with the parameters.
"""

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

HAND = "hand"  # journal of `pollscope knob set`
KNOB_ROLES = ["cpu_power", "ddio"]
PENDING = Path("/run/pollscope/reboot")
PLAYER = "player"
OWN_PARAMETERS = {
    "free": ("player", "take_over"),
    "begun": ("player", "take_over"),
    "alone": ("player", "take_over", "of_run"),
}
# A play that was silent for this long was cut off. It is longer than the longest time between two tasks of our modules:
# the build of an archive (BUILD_LIMIT_S of testbeds/pair/build.py).
SILENT_S = 1800.0


def roles() -> list[str]:
    """Return the roles that have something to restore, sorted."""
    folder = journal_path("any").parent
    folders = [folder, mark_folder()] if is_undone() else [folder]
    names = {path.stem for each in folders for path in each.glob("*.journal")}
    found = {name.partition("-")[0] for name in names if name != HAND}
    found |= {path.name for path in PENDING.glob("*")}
    if "cpu_isolation" in found:
        found.add("iommu")  # it reboots for both
    if (state_folder() / f"knobs/{HAND}.journal").exists():
        found.update(KNOB_ROLES)
    return sorted(found)


def begin(player: str = "", take_over: bool = False) -> None:
    """Mark that a play is running, with a copy of the journals and the name of the player.

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
    """Refuse a host on which another user's play is running.

    A play does not hold the lock between its tasks. Another play would overwrite the copy of the journals, which the
    first one needs if it fails. A user has one play at a time on a host (testbeds/pair/plays.py).

    Raises:
        HostError: another user's play has acted lately and has not ended.
    """
    try:
        age_s, other = time.time() - mark_folder().stat().st_mtime, (mark_folder() / PLAYER).read_text()
    except OSError:  # there is no play
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
    """Refuse a host that others use, for a play that makes no mark.

    Raises:
        HostError: a run or another play is on the host, or another run changes its boot parameters.
    """
    with HostLock("a play"):
        if not of_run:
            refuse_boot_note()
        refuse_other_player(player, take_over)


def refuse_left_knobs() -> None:
    """Refuse a host on which a killed run has left knobs: the programs that restore them are about to be removed.

    Raises:
        HostError: there are such knobs.
    """
    run = load(state_folder() / "knobs/run.journal")
    if run.header and run.pending:
        names = ", ".join(sorted({entry.knob for entry in run.pending}))
        remedy = "pollscope knob restore on this host, or pollscope run --restore-first; then restore again"
        raise HostError(f"{run.header.what} of {run.header.at_utc} did not restore: {names}", remedy=remedy)


def refuse_boot_note() -> None:
    """Refuse a host whose boot parameters a run changes: the run holds no lock while its own play reboots the host.

    Raises:
        HostError: a run does, or was killed while it did.
    """
    if note := boot_note(state_folder()):
        raise HostError(f"{note} {CHANGES_MODE}", remedy=AFTER_MODE)


def end() -> None:
    """Remove the mark, and the releases that were kept in case the play failed.

    Raises:
        HostError: a release cannot be removed.
    """
    if not mark_folder().is_dir():
        return
    shutil.rmtree(mark_folder())
    for path in journal_path("any").parent.glob("*.journal"):
        remove_former(path)
    with suppress(OSError):  # there are still journals
        for folder in (mark_folder().parent, state_folder()):
            folder.rmdir()


def restored() -> None:
    """End a play that has restored everything, also the boot parameters of a run.

    Raises:
        HostError: see `end`.
    """
    end()
    remove_boot_note(state_folder())


def remove_former(path: Path) -> None:
    """Remove the releases of a journal that its link does not point to."""
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
    raise AssertionError(f"BUG: {folder} is filled, but only removing is possible")


def main() -> None:
    """Read the parameters, act, report."""
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
