# SPDX-License-Identifier: BSD-3-Clause
"""Check how benchmarks/second_observer.py parses other programs: recorded from DPDK 22.11 and Open vSwitch 3.1."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pollscope.base.errors import HostError
from pollscope.store.results_table import derive_table
from pollscope.store.run_folder import read_run

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

from ovs import parse_counts
from second_observer import Disturbed, Seen, parse_forwarding, parse_result

PERF = """
pmd thread numa_id 0 core_id 1:

  Iterations:              1059462  (0.29 us/it)
  - Used TSC cycles:     793530218  (100.1 % of total cycles)
  - idle iterations:       1001536  ( 34.6 % of used cycles)
  - busy iterations:         57926  ( 65.4 % of used cycles)
  - sleep iterations:            0  (  0.0 % of iterations)
  Rx packets:              1853696  (6078 Kpps, 280 cycles/pkt)
"""
STATS = """pmd thread numa_id 0 core_id 1:
  packets received: 1853696
  idle cycles: 282293129 (35.22%)
  processing cycles: 519174447 (64.78%)
main thread:
  packets received: 0
"""
BUSY = """
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 7593408        RX-dropped: 0             RX-total: 7593408
  TX-packets: 1024           TX-dropped: 7592384       TX-total: 7593408
  RX-bursts : 15204503 [98% of 0 pkts + 2% of 32 pkts]
  TX-bursts : 237294 [99% of 0 pkts + 1% of 32 pkts]
  ----------------------------------------------------------------------------

  CPU cycles/packet=89.71 (total cycles=681182246 / total io packets=7593408) at 2600 MHz Clock
"""
SILENT = """
  RX-packets: 0              RX-dropped: 0             RX-total: 0
  TX-packets: 0              TX-dropped: 0             TX-total: 0
  RX-bursts : 31847379 [100% of 0 pkts]
"""


def test_open_vswitch() -> None:
    counts = parse_counts(PERF, STATS)
    assert (counts.iterations, counts.idle_iterations, counts.cycles) == (1059462, 1001536, 793530218)
    assert (counts.idle_cycles, counts.busy_cycles, counts.rx_packets) == (282293129, 519174447, 1853696)
    with pytest.raises(HostError, match="does not tell its idle_cycles"):
        parse_counts(PERF, "pmd thread numa_id 0 core_id 1:\n")


def test_testpmd() -> None:
    seen = parse_forwarding(BUSY, 0.5, 2.6e9)
    assert (seen.polls, seen.empty_polls, seen.cycles) == (15204503, 15204503 - 237294, 1.3e9)
    assert seen.pps == 7593408 / 0.5
    assert seen.busy_share == 681182246 / 1.3e9
    silent = parse_forwarding(SILENT, 0.5, 2.6e9)
    assert (silent.busy_share, silent.pps, silent.empty_polls) == (0, 0, 31847379)
    with pytest.raises(HostError, match="RX-bursts"):
        parse_forwarding("testpmd> ", 0.5, 2.6e9)


def test_our_node(checkout: Path) -> None:
    """Recorded results with one lcore and one queue, against the metrics of the same records."""
    run = checkout / "data/runs/s-f5-polling-tax"
    table = derive_table(read_run(run)).set_index("trial")
    records = (json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines())
    checked = 0
    for record in records:
        if record["trial"] in table.index and record["factors"]["queues"] == 1:
            row = table.loc[record["trial"]]
            if pd.isna(row["metric.tax_share"]):
                with pytest.raises(Disturbed):
                    parse_result(record["result"])
                continue
            seen = parse_result(record["result"])
            assert seen.busy_share == pytest.approx(row["metric.useful_share"] + row["metric.wire_share"])
            if pd.notna(row["metric.tax_share_testpmd"]):
                assert seen.stamped_share == pytest.approx(1 - row["metric.tax_share_testpmd"])
                checked += 1
    assert checked >= 3


def test_share_by_counts_is_what_the_empty_polls_leave() -> None:
    seen = Seen(pps=1e6, busy_share=0.5, polls=110, empty_polls=100, cycles=10_000)
    assert seen.share_by_counts(40.0) == 0.6


def test_programs_that_are_not_here_are_absent(checkout: Path, tmp_path: Path) -> None:
    program = str(checkout / "benchmarks/second_observer.py")
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(checkout)}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "absent testpmd_busy_share: dpdk-testpmd is not installed (apt-get install dpdk-dev)",
        "absent ovs_busy_share: ovsdb-tool is not installed (apt-get install openvswitch-switch-dpdk)",
    ]
