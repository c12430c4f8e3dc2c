# SPDX-License-Identifier: BSD-3-Clause
"""Ansible callback: write changes and failures, one JSON object per line, for pollscope/testbeds/pair/plays.py.

    {"event": "changed" | "failed" | "unreachable", "host": "dut1", "task": "vfio : Bind the NICs", "message": "..."}
    {"event": "stats", "host": "dut1", "ok": 12, "changed": 0, "failures": 0, "unreachable": 0}

A failure that a play rescues is written as well. The play reports the reason again when it gives up, so the last one
counts.
"""

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

# Of the message, which a host writes at any length.
_MOST_CHARACTERS = 4000
DOCUMENTATION = r"""
name: pollscope_events
type: notification
short_description: Write changes and failures, one JSON object per line
description: The environment variable POLLSCOPE_EVENTS names the file.
requirements: [enabled in the configuration]
"""


class CallbackModule(CallbackBase):
    """Write the events."""

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
        # If the module did not start, its standard error has the reason, and `msg` only that there is no result.
        found = result.result
        message = found.get("module_stderr") or found.get("msg") or found.get("stderr") or ""
        name, text = result.task.get_name(), str(message)[-_MOST_CHARACTERS:]
        self._write({"event": event, "host": result.host.get_name(), "task": name, "message": text})

    def _write(self, record: dict[str, Any]) -> None:
        with open(os.environ["POLLSCOPE_EVENTS"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
