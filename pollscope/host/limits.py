# SPDX-License-Identifier: BSD-3-Clause
"""What the DPDK that the node was built with allows, from the record that the build leaves beside it."""

import json
from pathlib import Path


def queues_per_port(program: Path) -> int | None:
    """`RTE_MAX_QUEUES_PER_PORT`, 1024 in the distributions' builds; None where the record is missing."""
    try:
        return int(json.loads(program.with_name("limits.json").read_text())["queues_per_port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def queues_refusal(program: Path, queues: int) -> str | None:
    """Why this build's ports cannot have so many RX queues; None when they can, or when it is not known."""
    most = queues_per_port(program)
    if most is None or queues <= most:
        return None
    return f"needs {queues} RX queues; this DPDK was built for {most} a port (RTE_MAX_QUEUES_PER_PORT)"
