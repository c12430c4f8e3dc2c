# SPDX-License-Identifier: BSD-3-Clause
"""Traces that a spec names by their seed are made when a run needs them and are not there."""

from pathlib import Path

import pytest

from pollscope.base.errors import HostError
from pollscope.node.made_trace import write_trace
from pollscope.spec import known_specs, load_file
from pollscope.testbeds import made_traces
from pollscope.testbeds.made_traces import is_made_when_needed, make_missing


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_traces, "PACKETS", 100)


def test_a_missing_trace_is_made_with_the_seed_in_its_name(tmp_path: Path) -> None:
    path, same = tmp_path / "traces" / "made-3.pcap", tmp_path / "same.pcap"
    (said,) = make_missing([str(path)])
    assert said == f"trace {path} was missing and has been made: 100 packets of 10000 flows, seed 3"
    write_trace(same, 100, made_traces.FLOWS, made_traces.MEAN_PPS, 3)
    assert path.read_bytes() == same.read_bytes()


def test_a_trace_that_is_there_and_one_of_another_name_are_left_alone(tmp_path: Path) -> None:
    mine, other = tmp_path / "made-1.pcap", tmp_path / "day.pcap"
    mine.write_bytes(b"mine")
    assert list(make_missing([str(mine), str(other)])) == []
    assert mine.read_bytes() == b"mine"
    assert not other.exists()


def test_a_trace_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("a file in the folder's place")
    with pytest.raises(HostError, match="name a trace elsewhere"):
        list(make_missing([str(tmp_path / "traces" / "made-1.pcap")]))


def test_every_trace_of_a_shipped_spec_is_made_when_needed() -> None:
    spec = load_file(known_specs()["C-T4"]).spec
    assert all(is_made_when_needed(path) for path in spec.levels["trace"])
    assert not is_made_when_needed("traces/made-.pcap")
