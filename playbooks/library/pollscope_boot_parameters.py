#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: set parameters of the kernel's command line in a drop-in file of GRUB, with a journal.

- Writes /etc/default/grub.d/zz-pollscope-NAME.cfg, runs update-grub and reads grub.cfg back. Changes no other file.
- `reboot_needed` of the result is true if the running kernel has other parameters, those of other names included.
- `journal`: Name of the journal and of the drop-in file.
- `words`: The parameters. An empty list restores what was set.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError, PollscopeError, reason_of
from ansible.module_utils.pollscope.host.files import write_through
from ansible.module_utils.pollscope.host.journal import Entry, Phase
from ansible.module_utils.pollscope.host.lock import HostLock
from ansible.module_utils.pollscope_journal import STATE_ARGUMENTS, Item, pending, run_state
from ansible.module_utils.pollscope_kinds import File, Folder, run

DROP_INS = Path("/etc/default/grub.d")
DEFAULTS = Path("/etc/default/grub")
MENU = Path("/boot/grub/grub.cfg")
# A reboot empties this folder.
PENDING = Path("/run/pollscope/reboot")
WORD = re.compile(r"[A-Za-z0-9_.\-]+(=[A-Za-z0-9_.,:@\-]*)?")


class DropIn(File):
    """A drop-in file. Writing it makes GRUB's menu again and reads the menu back."""

    def write(self, target: str, state: Any) -> None:
        before = self.read(target)
        super().write(target, state)
        make_menu(words_of(state["text"]) if state else [], words_of(before["text"]) if before else [])

    def show(self, state: Any) -> str:
        return "absent" if state is None else f"'{' '.join(words_of(state['text']))}'"


def drop_in(words: Sequence[str]) -> dict[str, Any]:
    """Return the drop-in file for some parameters.

    They are appended in the file that is read last, because the last parameter of a name counts.
    """
    line = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {" ".join(words)}"'
    return {"text": f"# Written by pollscope's playbooks; the play restore removes it.\n{line}\n", "mode": 0o644}


def words_of(text: str) -> list[str]:
    """Return the parameters in a drop-in file."""
    found = re.search(r'GRUB_CMDLINE_LINUX_DEFAULT="\$GRUB_CMDLINE_LINUX_DEFAULT (.*)"', text)
    return found[1].split() if found else []


def make_menu(words: Sequence[str], former: Sequence[str]) -> None:
    """Make the menu again and check that it boots with `words`, and without those that only `former` has.

    Raises:
        HostError: it does not.
    """
    run(["update-grub"])
    if words:
        require_in_menu(words)
    elif former:
        require_gone(former)


def finish_cut_off(entry: Entry) -> None:
    """Make the menu after a change that was cut off between writing the file and making the menu.

    Raises:
        HostError: see `make_menu`.
    """
    file = DropIn().read(entry.target)
    make_menu(words_of(file["text"]) if file else [], words_of(entry.new["text"]))


def require_gone(words: Sequence[str]) -> None:
    """Check that the menu boots without the parameters, unless another file of the host sets them.

    Raises:
        HostError: it boots with one of them.
    """
    others = " ".join(
        path.read_text(errors="replace") for path in (DEFAULTS, *DROP_INS.glob("*.cfg")) if path.is_file()
    )
    named = set(re.split(r"[\s\"'=]*[\s\"'][\s\"'=]*|GRUB_\w+=", others))
    lines = [line.split() for line in MENU.read_text().splitlines() if line.split()[:1] == ["linux"]]
    left = [word for word in words if word not in named and any(word in line for line in lines)]
    if left:
        raise HostError(
            f"still boots with '{' '.join(left)}', which is in no file of {DROP_INS}", str(MENU), "update-grub"
        )


def require_in_menu(words: Sequence[str]) -> None:
    """Check that the menu boots with the parameters.

    Raises:
        HostError: it does not.
    """
    lines = [line.split() for line in MENU.read_text().splitlines() if line.split()[:1] == ["linux"]]
    if not any(is_active(words, line) for line in lines):
        remedy = f"check that a kernel is in /boot, and that this host reads {DROP_INS}"
        raise HostError(f"boots without '{' '.join(words)}'", str(MENU), remedy)


def is_active(words: Sequence[str], command_line: Sequence[str]) -> bool:
    """Return whether each parameter is the last one of its name."""
    last = {word.partition("=")[0]: word for word in command_line}
    return all(last.get(word.partition("=")[0]) == word for word in words)


def note_pending(name: str, words: Sequence[str], pending: bool) -> None:
    """Note that the next boot has other parameters than the running kernel, or remove the note."""
    path = PENDING / name
    if pending:
        write_through(path, json.dumps(list(words)) + "\n", 0o644)
    else:
        path.unlink(missing_ok=True)


def check_words(words: Sequence[str]) -> None:
    """Refuse a text that is not a kernel parameter, because a shell reads the file.

    Raises:
        HostError: a text is none.
    """
    bad = [word for word in words if not WORD.fullmatch(word)]
    if bad:
        raise HostError(
            f"{bad[0]!r} is not a kernel parameter", remedy="use letters, digits, _ . - and behind = also , : @"
        )


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={**STATE_ARGUMENTS, "words": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    try:
        lines, reboot_needed = act(module)
    except (PollscopeError, OSError) as error:
        module.fail_json(msg=reason_of(error))
    module.exit_json(changed=bool(lines), msg="; ".join(lines) or "nothing to change", reboot_needed=reboot_needed)


def act(module: AnsibleModule) -> tuple[list[str], bool]:
    """Act on the module's `state`; return one line per change, and whether a reboot is needed.

    Raises:
        HostError: see the kinds.
    """
    name, words = module.params["journal"], module.params["words"]
    check_words(words)
    target = str(DROP_INS / f"zz-pollscope-{name}.cfg")
    items = [Item("folder", str(DROP_INS), True), Item("boot", target, drop_in(words))] if words else []
    entry = next((each for each in pending(name) if each.target == target), None)
    if entry and entry.phase is Phase.WRITING and module.params["state"] != "verified" and not module.check_mode:
        with HostLock("a play"):
            finish_cut_off(entry)
    lines = run_state(module, {"folder": Folder(), "boot": DropIn()}, items)
    running = Path("/proc/cmdline").read_text().split()
    if module.params["state"] == "absent":  # while a play is undone, the file of an earlier one stays
        file = DropIn().read(target)
        words = words_of(file["text"]) if file and not module.check_mode else []
    wanted = words
    leaving = [word for word in words_of(entry.new["text"]) if word not in wanted] if entry else []
    differs = not is_active(wanted, running) or (bool(leaving) and any(word in running for word in leaving))
    if module.params["state"] == "verified":
        if differs:
            raise HostError(f"the running kernel does not have '{' '.join(wanted)}'", remedy="reboot")
        return lines, False
    if not module.check_mode and (wanted or leaving):
        note_pending(name, wanted, differs)
    return lines, differs or (PENDING.is_dir() and any(PENDING.iterdir()))


if __name__ == "__main__":
    main()
