# SPDX-License-Identifier: BSD-3-Clause
"""Check one trial per configuration of a node: each packet returns once or is counted as dropped, each cycle too.

The node has more lcores than the machine has CPUs and shares them with other tests: only counts and order are checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from accounted import MODES, check_conservation, check_lcores
from dut_node import PAIRS, Node, configuration, running_node, skip_without

from pollscope.base.names import SHARED_QUEUES

# Main, generator, five for the DUT, and two more for the generator.
LCORES = "0@0,1@0,2@1,3@1,4@1,5@1,6@1,7@0,8@0"
SWAP = tuple(f"{pair},dma=swap" for pair in PAIRS)


@dataclass(frozen=True)
class Case:
    """One configuration and what differs from a DUT that forwards all packets in order.

    Attributes:
        asked: keywords of `configuration`.
        pps: offered load.
        in_order: whether each flow keeps its order.
        drops: part of the packets that the workload drops: "none", "some" or "all".
        grows: bytes by which the workload lengthens each packet; None if that differs from packet to packet.
        sleeps: whether the cores sleep between packets.
        buffers: how RX buffers are kept.
    """

    asked: dict[str, Any]
    pps: int = 20_000
    in_order: bool = True
    drops: str = "none"
    grows: int | None = 0
    sleeps: bool = False
    buffers: str = "posted"
    vdevs: tuple[str, ...] = field(default=PAIRS)


ORGANISATIONS: dict[str, dict[str, Any]] = {
    "scale-out": {"lcores": [2, 3, 4]},
    "scale-out-dispatchers": {"lcores": [2, 3], "dispatchers": [4, 5]},
    "corec": {"organisation": "corec", "lcores": [2, 3, 4]},
    "scale-up-default": {"organisation": "scale-up", "lcores": [2, 3], "dispatchers": [4, 5]},
    "locked": {"organisation": "locked", "lcores": [2, 3, 4]},
    "scale-up-rts": {
        "organisation": "scale-up",
        "ring_sync": "rts",
        "ring_size": 2048,  # no ring is shorter than all packets of a trial, so that none refuses one
        "lcores": [2, 3],
        "dispatchers": [4, 5],
    },
    "trylock": {"organisation": "trylock", "lcores": [2, 3, 4]},
    "scale-up-hts": {"organisation": "scale-up", "ring_sync": "hts", "lcores": [2, 3], "dispatchers": [4, 5]},
    "scale-up-uneven": {"organisation": "scale-up", "lcores": [2, 3, 4, 5], "dispatchers": [6]},
    "rebalanced": {"organisation": "rebalanced", "lcores": [2, 3, 4, 5, 6]},
}
QWAIT: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"ready_set": "linear"},
    "weighted": {"service_order": "weighted", "queue_weights": [3, 1]},
    "strict": {"service_order": "strict"},
    "sleep": {"idle": "sleep"},
    "two-cores": {"lcores": [2, 3]},
    "delays": {"extra_cycles": 300},
    "shared": {"lcores": [2, 3], "ready_set_sharing": "shared"},
    "shared-asleep": {"lcores": [2, 3], "ready_set_sharing": "shared", "idle": "sleep"},
    "shared-linear": {"lcores": [2, 3], "ready_set_sharing": "shared", "ready_set": "linear"},
    "numa": {"lcores": [2, 3], "ready_set_sharing": "numa"},
    "stealing": {"lcores": [2, 3], "ready_set_sharing": "stealing"},
    "stealing-asleep": {"lcores": [2, 3], "ready_set_sharing": "stealing", "idle": "sleep"},
}
# Notifications that poll all queues and wait when nothing comes.
QUIET: dict[str, dict[str, Any]] = {
    "interrupt": {"notification": "interrupt"},
    "adaptive": {"notification": "adaptive"},
    "adaptive-late": {"notification": "adaptive", "wait_after_ns": 60_000},  # packets come every 200 us
    "sleep-ramp": {"notification": "sleep-ramp"},
    "pause": {"notification": "pause"},
    "two-cores-interrupt": {"notification": "interrupt", "lcores": [2, 3]},
    "delays-interrupt": {"notification": "interrupt", "extra_cycles": 300},
}
# A generator on several lcores: with one ring for all, or with rings of their own, which moving flows make shared.
SENDERS: dict[str, dict[str, Any]] = {
    "one-ring": {"queues": 1, "gen": {"lcores": [1, 7, 8]}},
    "own-rings": {"queues": 4, "lcores": [2, 3], "gen": {"lcores": [1, 7]}},
    "corec": {"queues": 1, "organisation": "corec", "lcores": [2, 3], "gen": {"lcores": [1, 7, 8]}},
    "rebalanced": {
        "queues": 2,
        "organisation": "rebalanced",
        "rebalance_period_ns": 10_000_000,
        "lcores": [2, 3],
        "gen": {"lcores": [1, 7], "shape": "PC", "concentrated_share": 0.5, "background_probability": 0.05},
    },
    "qwait": {"queues": 4, "notification": "qwait", "lcores": [2, 3], "gen": {"lcores": [1, 7]}},
}
TASKS = ("encap", "crypto", "steer", "rs", "raid", "dispatch")
TRANSFORMS = ("aes-cbc-sha1", "aes-gcm")
LARGE = {"frame": [{"bytes": 128}, {"bytes": 200}]}


def by_queues() -> Iterator[tuple[str, Case]]:
    """Return every organisation, notification and buffer mode."""
    for name, dut in ORGANISATIONS.items():
        for workload in ("io", "l3fwd-lpm"):
            asked = {"queues": 5, "rx_desc": 4096, "workload": workload, **dut}
            yield f"{name}-{workload}", Case(asked, in_order=name.startswith("scale-out"))
    for queues in (2, 100):
        for name, dut in QWAIT.items():
            yield f"qwait-{name}-{queues}", Case({"queues": queues, "notification": "qwait", **dut})
        for name, dut in QUIET.items():  # at a rate at which a core wakes up for each packet
            yield f"{name}-{queues}", Case({"queues": queues, **dut}, pps=5_000, sleeps=name != "pause")
    for buffers in ("shared", "split"):
        for queues in (1, 2, 3):
            for shape in ("FB", "SQ"):
                asked = {"queues": queues, "lcores": [2, 3, 4][:queues], "gen": {"shape": shape, "flows": 64}}
                yield f"{buffers}-{shape}-{queues}", Case(asked, buffers=buffers)
        for organisation in ("locked", "trylock", "rebalanced"):
            asked = {"queues": 2, "lcores": [2, 3], "organisation": organisation}
            yield f"{buffers}-{organisation}", Case(asked, buffers=buffers, in_order=False)


def by_senders() -> Iterator[tuple[str, Case]]:
    """Return generators on several lcores."""
    for name, asked in SENDERS.items():
        yield f"senders-{name}", Case({"rx_desc": 4096, **asked}, in_order=name not in ("corec", "rebalanced"))


def by_workload() -> Iterator[tuple[str, Case]]:
    """Return every workload in every accounting mode."""
    for mode in MODES:
        for queues in (1, 5):
            yield f"io-{mode}-{queues}", Case({"queues": queues, "accounting": mode})
        for encapsulation, more in (("gre-ipv6", 44), ("ipip", 20)):
            dut = {"workload": "encap", "encapsulation": encapsulation, "accounting": mode}
            for wire, vdevs in (("copy", PAIRS), ("swap", SWAP)):
                yield f"{encapsulation}-{mode}-{wire}", Case({"queues": 2, **dut}, grows=more, vdevs=vdevs)
        for workload in ("rx", "drop"):
            asked = {"queues": 2, "workload": workload, "tx_port": None, "accounting": mode}
            yield f"{workload}-{mode}", Case(asked, drops="all")
        for transform in TRANSFORMS:
            asked = {"queues": 2, "workload": "ipsec", "transform": transform, "accounting": mode}
            yield f"{transform}-{mode}", Case(asked, drops="some", grows=None)
        for task in TASKS:
            own: dict[str, Any] = {"queues": 8, "workload": task, "gen": LARGE | {"shape": "FB"}, "accounting": mode}
            if mode in ("sampled", "full"):
                own |= {"task_data": 4000, "gen": LARGE | {"shape": "FB" if mode == "sampled" else "SQ"}}
            yield f"{task}-{mode}", Case(own, grows=None)


def by_sharing() -> Iterator[tuple[str, Case]]:
    """Return routing tables of several sizes, and every workload where cores share queues or flows move."""
    for routes, mode in ((1, "full"), (1000, "count"), (16384, "sampled")):
        asked = {"queues": 2, "workload": "l3fwd-lpm", "routes": routes, "lookups": 20, "gen": {"routes": routes}}
        yield f"lookups-{routes}", Case({**asked, "accounting": mode})
    for size in (1518, 9000):
        asked = {"workload": "l3fwd-lpm", "queues": 4, "mtu": size - 18, "gen": {"frame": [{"bytes": size}]}}
        for wire, vdevs in (("copy", PAIRS), ("swap", SWAP)):
            yield f"{size}-bytes-{wire}", Case(asked, grows=None, vdevs=vdevs)
    for organisation in ("locked", "corec", "trylock", "rebalanced"):
        asked = {"lcores": [2, 3], "organisation": organisation, "queues": 2}
        for task in TASKS:
            yield f"{task}-{organisation}", Case({**asked, "workload": task, "gen": LARGE}, in_order=False, grows=None)
        for transform in TRANSFORMS:
            dut = {"workload": "ipsec", "transform": transform}
            yield f"{transform}-{organisation}", Case({**asked, **dut}, in_order=False, drops="some", grows=None)
        yield f"drop-{organisation}", Case({**asked, "workload": "drop"}, drops="all")


CASES = dict([*by_queues(), *by_senders(), *by_workload(), *by_sharing()])


@pytest.fixture(scope="module")
def nodes(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, ...], Node]]:
    """Run one node per sort of wire; it takes its configurations one after the other."""
    log = tmp_path_factory.mktemp("node") / "log"
    with running_node(build_dir, log, lcores=LCORES) as copy, running_node(build_dir, log, SWAP, 1024, LCORES) as swap:
        yield {PAIRS: copy, SWAP: swap}


def check_bytes(case: Case, lcores: list[dict[str, Any]]) -> None:
    """Check how much longer packets became; of ipsec, that a third is encrypted, a third decrypted, a third dropped.

    There are 1024 flows with random routes. Of 60 bytes, 46 are a packet: encrypted they take 14 + 20 + 8, then
    16 + 48 + 12 (CBC) or 8 + 48 + 16.
    """
    if case.grows is not None and case.drops != "all":
        for lcore in lcores:
            if lcore["role"] == "worker":
                assert lcore["rx_bytes"] == 60 * lcore["rx_packets"]
                assert lcore["tx_bytes"] == (60 + case.grows) * lcore["tx_packets"]
    if case.asked.get("workload") == "ipsec":
        sent, count, received, dropped = (
            sum(lcore[key] for lcore in lcores) for key in ("tx_bytes", "tx_packets", "rx_packets", "workload_dropped")
        )
        encrypted_bytes = 118 if case.asked["transform"] == "aes-cbc-sha1" else 114
        encrypted, rest = divmod(sent - 60 * count, encrypted_bytes - 60)
        assert rest == 0
        assert [encrypted, dropped] == pytest.approx([received / 3] * 2, rel=0.2)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_every_packet_and_cycle_is_accounted_for(nodes: dict[tuple[str, ...], Node], name: str) -> None:
    case = CASES[name]
    node, asked = nodes[case.vdevs], configuration(**case.asked)
    if case.buffers != "posted":
        asked["ports"][1] |= {"buffers": case.buffers, "buffer_pool": 512}
    skip_without(node.ask("configure", **asked))
    for _ in range(20):  # a core that other tests keep from its CPU finds packets whenever it looks
        result = node.busy_trial(rate={"pps": case.pps})
        if not case.sleeps or any(lcore["waiting"]["sleeps"] for lcore in result["dut"]["lcores"]):
            break
    check_conservation(result, case.in_order, case.drops)
    mode, workload = case.asked.get("accounting", "sampled"), case.asked.get("workload", "io")
    lcores = result["dut"]["lcores"]
    check_lcores(lcores, mode)
    check_roles(asked["dut"], lcores, case.asked.get("queues", 1))
    assert result["dut"].get("rings", []) == rings_of(asked["dut"])
    check_bytes(case, lcores)
    if case.sleeps:
        assert sum(lcore["waiting"]["sleeps"] for lcore in lcores) > 0
    if "task_data" in case.asked:
        ((lcore,), (generator,)) = lcores, result["gen"]["lcores"]
        touched = 1 if case.asked["gen"]["shape"] == "SQ" else 8
        assert lcore["task"]["queue_data"] == {"queues": touched, "tasks": generator["total"]["sent"]}
    if workload == "io" and mode == "sampled" and "notification" not in case.asked:
        costs = node.get("calibrate")["costs"]
        assert costs["empty_poll_overlapped_cycles"]["median"] > 0 < costs["idle_iteration_cycles"]["median"]


@pytest.mark.thorough
def test_routes_beyond_the_table_are_dropped_by_the_workload(nodes: dict[tuple[str, ...], Node]) -> None:
    """The generator uses twice the DUT's table."""
    nodes[PAIRS].get("configure", **configuration(workload="l3fwd-lpm", gen={"routes": 32768}))
    result = nodes[PAIRS].busy_trial(rate={"pps": 20_000})
    check_conservation(result, True, "some")
    (dut,) = result["dut"]["lcores"]
    assert dut["workload_dropped"] == pytest.approx(dut["rx_packets"] / 2, rel=0.1)


def rings_of(dut: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rings between dispatchers and workers: one of all workers, or one per worker; a drain empties them."""
    if "dispatchers" not in dut:
        return []
    shared = dut.get("organisation") == "scale-up"
    sync = dut.get("ring_sync", "default") if shared else "single"
    return [{"size": dut.get("ring_size", 1024), "sync": sync, "left": 0}] * (1 if shared else len(dut["lcores"]))


def check_roles(dut: dict[str, Any], lcores: list[dict[str, Any]], queues: int) -> None:
    """Check which lcore polls what: RX queues are divided or shared, and a ring is one queue."""
    workers, dispatchers = ([one for one in lcores if one["role"] == role] for role in ("worker", "dispatcher"))
    assert [one["lcore"] for one in workers] == dut["lcores"]
    assert [one["lcore"] for one in dispatchers] == dut.get("dispatchers", [])
    for worker in workers:
        assert worker["source"] == ("ring" if dispatchers else "rx-queues")
    if dut.get("organisation") in SHARED_QUEUES or dut.get("ready_set_sharing") in ("shared", "numa"):
        assert [one["queues"] for one in workers] == [queues] * len(workers)
        return
    assert sum(one["queues"] for one in dispatchers or workers) == queues
    if dispatchers:
        assert {one["queues"] for one in workers} == {1}
