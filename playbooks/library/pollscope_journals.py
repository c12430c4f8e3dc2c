#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: which roles have something to restore on this host; nothing is changed."""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.host.lock import state_folder
from ansible.module_utils.pollscope_journal import journal_path

DOCUMENTATION = r"""
module: pollscope_journals
short_description: Which roles have something to restore on this host
description:
  - A journal's name begins with its role's name. The roles that turn knobs have the journal of the knobs.
    A role whose reboot is still to come counts, too.
author: [pollscope]
"""

KNOB_ROLES = ["cpu_power", "ddio"]
PENDING = Path("/run/pollscope/reboot")


def roles() -> list[str]:
    """The roles, sorted."""
    folder = journal_path("any").parent
    found = {path.stem.partition("-")[0] for path in folder.glob("*") if path.suffix in (".journal", ".json")}
    found |= {path.name for path in PENDING.glob("*")}
    if "cpu_isolation" in found:
        found.add("iommu")  # which reboots for it
    if (state_folder() / "hugepages.json").exists():  # of earlier versions
        found.add("hugepages")
    if (state_folder() / "knobs/hand.journal").exists():
        found.update(KNOB_ROLES)
    return sorted(found)


def main() -> None:
    """Look and report."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, roles=roles())


if __name__ == "__main__":
    main()
