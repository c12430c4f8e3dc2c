# SPDX-License-Identifier: BSD-3-Clause
"""Values that a model cannot compute with are refused by name, in one line."""

import math
from collections.abc import Callable

import pytest

from pollscope.base.errors import UsageError
from pollscope.models import queues
from pollscope.models.dma_caches import Iotlb, ddio_hits, ring_footprint_bytes
from pollscope.models.hyperplane import chip
from pollscope.models.order import OneQueue
from pollscope.models.pcie import Descriptors, PcieLink, received
from pollscope.models.polling import CyclicQueues, cached_poll_ns, gated_mean_wait_ns
from pollscope.models.simulate import Arrivals, Hiccups, PollingCores, QwaitCores, Service, SharedServers, simulate

US = 1000.0
A = Arrivals(1e6)
S = Service(100.0)
SERVERS = SharedServers(A, S)
BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: queues.mm1_wait_ns(1e6, US), "mg1_wait_ns: utilisation: is 1, allowed is below 1"),
    (lambda: queues.mmc_wait_ns(5e6, US, 4), "erlang_c: utilisation: is 1.25"),
    (lambda: queues.md1_wait_ns(-1.0, US), "rate_pps: is -1.0"),
    (lambda: queues.mm1_wait_ns(math.nan, US), "rate_pps: is nan"),
    (lambda: queues.mm1_wait_ns(math.inf, US), "rate_pps: is inf"),
    (lambda: queues.mm1_wait_ns(1.0, 0.0), "service_ns: is 0.0"),
    (lambda: queues.erlang_b(0, 1.0), "servers: is 0"),
    (lambda: queues.erlang_b(1.5, 1.0), "servers: is 1.5"),  # type: ignore[arg-type]
    (lambda: queues.mg1_wait_ns(1.0, US, 1.0), "service_squared_ns2: is 1.0"),
    (lambda: queues.mmc_wait_percentile_ns(1e5, US, 1, 100), "percent: is 100"),
    (lambda: queues.mmc_wait_percentile_ns(1e5, US, 1, 101), "percent: is 101"),
    (lambda: queues.batch_mg1_wait_ns(1e5, 0, US, US**2), "batch: is 0"),
    (lambda: queues.vacation_wait_ns(1e5, US, US**2, 0.0, 0.0), "vacation_ns: is 0.0"),
    (lambda: CyclicQueues(0, 1e5, US, US**2, 1.0), "CyclicQueues: queues: is 0"),
    (lambda: CyclicQueues(1, 1e5, US, US**2, 0.0), "switch_ns: is 0.0"),
    (lambda: cached_poll_ns(1, (0, 1, 1), 0.4), "cached_poll_ns: cache_bytes[0]: is 0"),
    (lambda: cached_poll_ns(1, (1, 1, 1), math.nan), "cached_poll_ns: cycle_ns: is nan"),
    (lambda: CyclicQueues(4, 1e6, US, US**2, 1.0), "CyclicQueues: utilisation: is 1"),
    (lambda: CyclicQueues(4, 0.9e6, US, US**2, 200.0).limited_wait_ns, "limited_wait_ns: utilisation: is 1.08"),
    (lambda: Arrivals(-1.0), "Arrivals: rate_pps: is -1.0: input should be greater than or equal to 0"),
    (lambda: Arrivals(math.nan), "rate_pps: is nan"),
    (lambda: Arrivals(1.0, batch=0), "batch: is 0"),
    (lambda: Service(-1.0), "Service: mean_ns: is -1.0"),
    (lambda: Service(1.0, "two-lengths", 2.0, 1.5), "long_probability: is 1.5"),
    (lambda: Hiccups(0.1, ()), "lengths_ns: is ()"),
    (lambda: Hiccups(0.1, (1.0, -2.0)), "lengths_ns[1]: is -2.0"),
    (lambda: SharedServers(A, S, 0), "servers: is 0"),
    (lambda: SharedServers(Arrivals(0.0), S), "SharedServers: rate_pps: is 0"),
    (
        lambda: SharedServers(Arrivals(2e6), S, hiccups=Hiccups(0.5, (900.0,))),
        "SharedServers: utilisation: is 1.1, allowed is below 1",
    ),
    (lambda: SharedServers(Arrivals(1.0, batch=2), S), "PollingCores have batches"),
    (lambda: PollingCores(A, S, cores=0), "cores: is 0"),
    (lambda: PollingCores(A, S, cores=2), "queues: is 1, allowed is a number from 2 on"),
    (lambda: PollingCores(A, S, empty_poll_ns=0.0), "empty_poll_ns: is 0.0"),
    (lambda: PollingCores(A, S, weights=(1.0, 1.0)), "weights: are 2 for 1 queues"),
    (lambda: PollingCores(A, S, weights=(0.0,)), "sum_of_weights: is 0"),
    (lambda: simulate(SERVERS, 0.0), "simulate: window_ns: is 0.0"),
    (lambda: simulate(SERVERS, 1.0, seed=-1), "seed: is -1"),
    (lambda: simulate(SERVERS, 1.0, parts=0), "parts: is 0"),
    (lambda: gated_mean_wait_ns([0.0], US, US**2, 1.0), "sum_of_rates: is 0"),
    (lambda: PcieLink(6, 8), "PcieLink: generation: is 6, allowed are 1, 2, 3, 4, 5"),
    (lambda: PcieLink(3, 7), "PcieLink: lanes: is 7"),
    (lambda: PcieLink(3, 8, 100), "max_payload: is 100"),
    (lambda: PcieLink(3, 8, completion_boundary=32), "completion_boundary: is 32"),
    (lambda: Descriptors(fetched=0), "fetched: is 0"),
    (lambda: received(PcieLink(3, 8), 0), "packet: is 0"),
    (lambda: Iotlb(0, 4096, 330.0), "entries: is 0"),
    (lambda: Iotlb(64, 4096, 0.0), "walk_ns: is 0"),
    (lambda: Iotlb(64, 4096, 1.0).miss_share(0.0), "working_set_bytes: is 0"),
    (lambda: ddio_hits(1.0, 0, 1.0), "ways: is 0"),
    (lambda: ring_footprint_bytes(1, 1, 0), "frame_bytes: is 0"),
    (lambda: chip().having("colour", 1.0), "colour"),
    *((lambda value=value: chip().having("poll_ns", value), "poll_ns") for value in (0.0, -1.0, math.nan, math.inf)),
    (lambda: QwaitCores(A, S, cores=4, queues=6, ready_sets=4), "ready_sets"),
    (lambda: QwaitCores(Arrivals(1e6, batch=2), S), "one at a time"),
    (lambda: QwaitCores(A, S, queues=2, weights=(1.0,)), "weights"),
    (lambda: QwaitCores(Arrivals(-1.0), S), "rate_pps"),
    (lambda: OneQueue(0, S), "OneQueue: cores"),
    *((lambda load=load: OneQueue(2, S, load), "OneQueue: load") for load in (0.0, 1.2, math.nan)),
    (lambda: OneQueue(2, S, burst=0), "OneQueue: burst"),
    (lambda: OneQueue(2, S, flows=-1), "OneQueue: flows"),
]


@pytest.mark.parametrize(("ask", "said"), BAD, ids=[said for _, said in BAD])
def test_what_cannot_be_computed_with_is_refused_by_name(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
