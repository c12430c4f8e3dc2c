# SPDX-License-Identifier: BSD-3-Clause
"""How many DUT lcores a point has, and what they do: dispatchers poll RX queues, workers process packets."""

from pollscope.base.names import RECEIVE_NOTHING, SHARED_QUEUES
from pollscope.spec.model import Parameters


def dispatchers(params: Parameters) -> int:
    """Return the number of lcores that only pass packets on; the default depends on the organisation."""
    if params.dispatchers is not None:
        return params.dispatchers
    return params.cores if params.organisation == "scale-up" else 0


def share_queues(params: Parameters) -> bool:
    """Return whether several lcores take packets from the same RX queues."""
    return params.organisation in SHARED_QUEUES and params.cores > 1


def pollers(params: Parameters) -> int:
    """Return the number of lcores that divide the RX queues among themselves; 1 where each of them may poll all queues.

    The number of NUMA nodes is unknown here, so `ready_set_sharing: numa` counts as one.
    """
    if params.workload in RECEIVE_NOTHING:
        return 0
    together = params.organisation in SHARED_QUEUES or params.ready_set_sharing in ("shared", "numa")
    return dispatchers(params) or (1 if together else params.cores)


def dut_lcores(params: Parameters) -> int:
    """Return the number of workers and dispatchers."""
    return params.cores + dispatchers(params)


def has_generator(params: Parameters) -> bool:
    """Return whether a generator lcore is needed: neither the virtual NIC nor the DUT makes the packets."""
    return params.feed == "wire" and params.workload not in RECEIVE_NOTHING


def has_agent(params: Parameters) -> bool:
    """Return whether an agent plays the NIC of the DUT's ports (apps/gpu), on the CPU of the generator."""
    return params.generator == "agent" and has_generator(params)


def generator_spins(params: Parameters) -> bool:
    """Return whether the generator's lcore needs its own CPU."""
    return has_generator(params) and not params.generator_sleep


def spinning_beside(params: Parameters) -> int:
    """Return how many CPUs other than those of lcores are kept busy."""
    return (params.corunner != "none" and params.corunner_place != "dut-cpu") + params.spinning_cores
