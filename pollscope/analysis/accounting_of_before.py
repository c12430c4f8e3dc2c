# SPDX-License-Identifier: BSD-3-Clause
"""Runs recorded when visits were timed one by one and cut to fit the window: how many trials, and which metrics."""

from collections.abc import Mapping
from typing import Any

from pollscope.store.run_folder import RunFolder

# Interruptions had another threshold, and times of visits were not weighted by the chance that they are met.
TOUCHED = (
    "tax_share",
    "tax_share_running",
    "tax_share_testpmd",
    "tax_share_ovs",
    "useful_share",
    "receive_share",
    "process_share",
    "transmit_share",
    "empty_poll_share",
    "loop_share",
    "instrumentation_share",
    "interrupted_share",
    "cycles_per_packet_useful",
    "cycles_per_packet_busy",
    "poll_rate_running_hz",
)


def trials_of_before(run: RunFolder) -> int:
    """How many trials of a run have such classes."""
    return sum(_has_old_classes(trial) for trial in run.trials)


def _has_old_classes(trial: Mapping[str, Any]) -> bool:
    lcores = ((trial.get("result") or {}).get("dut") or {}).get("lcores") or []
    return any("excess_cycles" in (lcore.get("cycles_sampled") or {}) for lcore in lcores)
