# SPDX-License-Identifier: BSD-3-Clause
"""How many DUT lcores a point has, and what they do: dispatchers poll RX queues, workers process packets."""

from pollscope.base.names import RECEIVE_NOTHING, SHARED_QUEUES
from pollscope.spec.model import Parameters


def dispatchers(params: Parameters) -> int:
    """Lcores that only hand packets on; what the spec leaves open follows from the organisation."""
    if params.dispatchers is not None:
        return params.dispatchers
    return params.cores if params.organisation == "scale-up" else 0


def share_queues(params: Parameters) -> bool:
    """Whether several lcores take packets from the same RX queues."""
    return params.organisation in SHARED_QUEUES and params.cores > 1


def pollers(params: Parameters) -> int:
    """Lcores that share the RX queues out among themselves; or one, where all of them may poll every queue.

    How many NUMA nodes share them out is not known here: one at least (`ready_set_sharing: numa`).
    """
    if params.workload in RECEIVE_NOTHING:
        return 0
    together = params.organisation in SHARED_QUEUES or params.ready_set_sharing in ("shared", "numa")
    return dispatchers(params) or (1 if together else params.cores)


def dut_lcores(params: Parameters) -> int:
    """Workers and dispatchers together."""
    return params.cores + dispatchers(params)


def has_generator(params: Parameters) -> bool:
    """Whether a generator lcore is needed: not where the virtual NIC makes the packets, nor where the DUT does."""
    return params.feed == "wire" and params.workload not in RECEIVE_NOTHING


def generator_spins(params: Parameters) -> bool:
    """Whether the generator's lcore needs a CPU of its own."""
    return has_generator(params) and not params.generator_sleep
