#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: set kernel values, files, folders, modules and mounts with a journal, and restore them exactly.

- `present` sets each item that differs. If one is refused, the items that were set before it are restored. An item
  that is in the journal and no longer in the list is restored.
- `absent` restores what the journal lists, the last change first. `verified` only reads and compares.
- `items`: Wanted items, each with kind, target and value.
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope_journal import STATE_ARGUMENTS, Item, report, run_state
from ansible.module_utils.pollscope_kinds import common_kinds

KINDS = ["text", "cpus", "c_states", "file", "folder", "module", "mount"]
ITEM = {
    "kind": {"type": "str", "choices": KINDS, "required": True},
    "target": {"type": "str", "required": True},
    "value": {"type": "raw", "required": True},
}


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={
            **STATE_ARGUMENTS,
            "items": {"type": "list", "elements": "dict", "options": ITEM, "default": []},
        },
        supports_check_mode=True,
    )
    items = [Item(each["kind"], each["target"], each["value"]) for each in module.params["items"]]
    report(module, lambda: run_state(module, common_kinds(), items))


if __name__ == "__main__":
    main()
