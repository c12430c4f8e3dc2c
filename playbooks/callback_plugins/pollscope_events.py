# SPDX-License-Identifier: BSD-3-Clause
"""Ansible callback: what changed and what failed, one JSON object a line, for pollscope/testbeds/pair/plays.py.

    {"event": "changed" | "failed" | "unreachable", "host": "dut1", "task": "vfio : Bind the NICs", "message": "..."}
    {"event": "stats", "host": "dut1", "ok": 12, "changed": 0, "failures": 0, "unreachable": 0}

A failure that a play rescues is there, too; the play says the reason again when it gives up, so the last one counts.
"""

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: pollscope_events
type: notification
short_description: What changed and what failed, one JSON object a line
description: Writes to the file that the environment variable POLLSCOPE_EVENTS names.
requirements: [enabled in the configuration]
"""


class CallbackModule(CallbackBase):
    """Writes the events."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "pollscope_events"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        if result.is_changed():
            self._task("changed", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self._task("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._task("unreachable", result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        for host in stats.processed:
            self._write({"event": "stats", "host": host, **stats.summarize(host)})

    def _task(self, event: str, result: Any) -> None:
        # Where the module did not even start, its standard error says why, and `msg` only that there was no result.
        found = result.result
        message = found.get("module_stderr") or found.get("msg") or found.get("stderr") or ""
        name = result.task.get_name()
        self._write({"event": event, "host": result.host.get_name(), "task": name, "message": str(message)})

    def _write(self, record: dict[str, Any]) -> None:
        with open(os.environ["POLLSCOPE_EVENTS"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
