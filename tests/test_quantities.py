# SPDX-License-Identifier: BSD-3-Clause
"""Quantities that a spec asks for: the host decides which collector gives them, and the run records the choice."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pollscope.base.errors import UsageError
from pollscope.base.names import COLLECTORS, QUANTITIES, load
from pollscope.collectors.registry import create
from pollscope.metrics.counted import COUNTED
from pollscope.metrics.record import NotMeasured, TrialObservations
from pollscope.spec import load_text
from pollscope.spec.model import CollectorUse
from pollscope.testbeds.collecting import RunCollectors
from pollscope.testbeds.quantities import choose

HEAD = "format: 1\nname: asked\ntitle: t\nparameters: {load_pps: 0}\n"


def uses(*given: dict[str, Any] | str) -> list[CollectorUse]:
    return [CollectorUse.model_validate({"name": each} if isinstance(each, str) else each) for each in given]


def chosen(asked: list[CollectorUse], *working: str) -> dict[str, bool]:
    """Return the chosen collectors on a host where only some work, and whether they rotate."""
    found, _ = choose(asked, lambda use: "" if use.name in working else "no such counters")
    return {use.name: use.rotate for use in found}


def test_pcm_comes_first_where_it_runs() -> None:
    assert chosen(uses("dram-traffic"), "pcm-memory", "perf-uncore") == {"pcm-memory": False}
    assert chosen(uses("dram-traffic"), "perf-uncore") == {"perf-uncore": False}
    assert chosen(uses("dram-traffic"), "amd-uprof-pcm") == {"amd-uprof-pcm": False}
    for name in ("pcie-traffic", "iotlb", "device-lines", "dram-traffic"):
        assert QUANTITIES[name][0].startswith("pcm-")


def test_one_collector_gives_several_quantities_and_owners_of_the_same_counters_take_turns() -> None:
    asked = uses("pcie-traffic", "iotlb", "dram-traffic", "neohost")
    assert chosen(asked, "pcm-iio", "pcm-memory") == {"neohost": False, "pcm-iio": True, "pcm-memory": True}
    assert chosen(asked, "perf-uncore") == {"neohost": False, "perf-uncore": False}
    apart = uses({"name": "pcie-traffic", "ends": ["dut"]}, {"name": "dram-traffic", "ends": ["generator"]})
    assert chosen(apart, "pcm-iio", "pcm-memory") == {"pcm-iio": False, "pcm-memory": False}


def test_a_named_owner_of_the_counters_gives_the_quantity() -> None:
    assert chosen(uses("perf-uncore", "dram-traffic"), "pcm-memory", "perf-uncore") == {"perf-uncore": False}


def test_a_collector_serves_the_hosts_of_all_quantities_that_it_was_chosen_for() -> None:
    asked = uses({"name": "pcie-traffic", "ends": ["dut"]}, {"name": "dram-traffic", "ends": ["generator"]})
    found, choices = choose(asked, lambda use: "" if use.name == "perf-uncore" else f"no {use.name}")
    assert [(use.name, use.ends) for use in found] == [("perf-uncore", ("dut", "generator"))]
    assert choices["perf-uncore"].quantities == ["pcie-traffic", "dram-traffic"]
    assert choices["perf-uncore"].instead_of == {"pcm-iio": "no pcm-iio", "pcm-memory": "no pcm-memory"}


def test_where_nothing_gives_a_quantity_the_first_collector_is_absent_with_its_reason() -> None:
    assert chosen(uses("pcie-traffic", "dram-traffic")) == {"pcm-iio": False, "pcm-memory": False}


def test_a_run_records_which_collector_was_chosen_and_why(tmp_path: Path) -> None:
    plan: Any = SimpleNamespace(trials=[])
    found = RunCollectors(uses("dram-traffic"), tmp_path, plan).probe({})
    ((name, state),) = found.items()
    assert state["quantities"] == ["dram-traffic"]
    before = QUANTITIES["dram-traffic"][: QUANTITIES["dram-traffic"].index(name)]
    if state["available"]:
        assert list(state["instead_of"]) == list(before)
    else:
        assert name == QUANTITIES["dram-traffic"][0]
        assert list(state["instead_of"]) == list(QUANTITIES["dram-traffic"][1:])
    assert all(reason == create(each).probe().reason for each, reason in state["instead_of"].items())


def test_every_quantity_is_given_by_collectors_that_metrics_read() -> None:
    read = {"pcie-traffic": "pcie_dma_read_bytes_per_s", "iotlb": "iotlb_lookups_per_s"}
    read |= {"device-lines": "dma_write_llc_hit_share", "dram-traffic": "dram_read_bytes_per_s"}
    read |= {"package-power": "package_power_w"}
    assert set(read) == set(QUANTITIES)
    for quantity, metric in read.items():
        assert set(QUANTITIES[quantity]) <= set(COLLECTORS)
        with pytest.raises(NotMeasured) as absent:
            COUNTED[metric](TrialObservations({}))
        assert all(name in str(absent.value) for name in QUANTITIES[quantity])


def test_a_quantity_has_no_recording_and_no_unknown_name() -> None:
    with pytest.raises(UsageError, match="'iotlb' is a quantity"):
        load_text(HEAD + "collectors: [{name: iotlb, replay: x.raw}]\n", "x.yaml")
    with pytest.raises(UsageError, match=r"there is no collector 'dram-trafic'.*dram-traffic"):
        load_text(HEAD + "collectors: [dram-trafic]\n", "x.yaml")
    assert [load(COLLECTORS, name).owns_uncore for name in QUANTITIES["dram-traffic"][:2]] == [True, True]
