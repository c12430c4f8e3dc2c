# SPDX-License-Identifier: BSD-3-Clause
"""Make SYNTHETIC runs for the figure of every paper row: whole, noisy, with a wild point, of one trial, without a PMU.

`python tests/figure_gallery.py FOLDER` draws them, the recorded runs, comparisons, sweeps and tables, to be looked at.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import synthetic_run as synthetic

from pollscope.analysis.compare import compare_levels
from pollscope.analysis.figures import (
    Target,
    asked_figure,
    figure_of,
    figures_of,
    save_comparison,
    save_figure,
    save_table_figure,
)
from pollscope.analysis.figures.figure import PaperFigure, TableFigure
from pollscope.base.names import figure_rows
from pollscope.store.run_folder import RunFolder, read_run

Levels = Mapping[str, Any]
PMU_COUNTS = {"instructions": 2_000_000, "cycles": 1_000_000, "llc_loads": 10**6, "llc_misses": 10**5}
ORGANISED: dict[str, list[Any]] = {"cores": [1, 2, 4, 8], "organisation": ["scale-out", "scale-up"]}
SENDING: dict[str, list[Any]] = {"cores": [1, 2, 4, 8]}
TASKS = ["encap", "crypto", "steer", "rs", "raid", "dispatch"]
NOTIFICATIONS = ["spin", "qwait"]
FLOWS: dict[str, list[Any]] = {"cores": [1, 2, 4], "organisation": ["scale-out", "corec"], "flows": [64, 128]}
# Row -> levels of its figure's factors.
FACTORS: dict[str, dict[str, list[Any]]] = {
    "S-F5": {"queues": [1, 8, 64], "load_of_max": [0.0, 0.25, 0.5, 0.75, 1.0]},
    "S-F6": {"queues": [1, 8, 64], "load_of_max": [0.0, 0.25, 0.5, 0.75, 1.0]},
    "TAX": {"queues": [1, 8], "load_of_max": [0.0, 0.25, 0.5]},
    "S-F7a": {"corunner_place": ["smt-sibling", "same-llc"], "feed": ["none", "infinite"], "dut_core": ["idle", "dut"]},
    "S-F7b": {"corunner_place": ["smt-sibling"], "feed": ["infinite", "wire"], "corunner": ["none", "matmul"]},
    "S-T4.2": {"cores": [1, 8, 16], "dut_core": ["idle", "dut"]},
    "S-F8": {"queues": [1, 2, 8, 64, 512, 1024], "rx_desc": [64, 512]},
    "S-F9": {"queues": [1, 8, 64, 512], "shape": ["SQ", "FB"]},
    "S-F10a": {"queues": [1, 8, 64, 512], "shape": ["SQ", "FB"], "feed": ["wire", "infinite"]},
    "S-F10b": {"queues": [1, 8, 64, 512], "shape": ["FB"], "feed": ["wire", "infinite"]},
    "S-F12": {"workload": ["tx", "rx"], "frame": [64, 256, 1518]},
    "S-F13": {"cores": [1, 2, 4, 8], "frame": [64, 256], "feed": ["wire", "infinite"]},
    "S-F16": {**ORGANISED, "ring_sync": ["default", "rts"], "feed": ["wire", "infinite"]},
    "S-F17a": {**ORGANISED, "burst": [1, 32], "load_pps": [1e6, 1e7, 2e7]},
    "S-F17b": {**ORGANISED, "burst": [1, 32], "load_pps": [1e6, 1e7, 2e7]},
    "S-F18": {**ORGANISED, "placement": ["separate", "smt-pairs"]},
    "C-T2": {"cores": [1, 2, 4], "organisation": ["corec", "locked", "trylock"]},
    "C-T3": {"cores": [1, 2, 4], "organisation": ["corec", "locked", "trylock"]},
    "C-F3": {"cores": [4, 8], "organisation": ["scale-out", "corec"], "load_of_max": [0.1, 0.5, 0.9]},
    "C-F4": {"cores": [4, 8], "organisation": ["scale-out", "corec"], "load_of_max": [0.1, 0.5, 0.9]},
    "C-F5": {"cores": [1, 4], "organisation": ["scale-out", "corec"], "load_of_max": [0.05, 0.4, 0.8, 0.95]},
    "C-F6": {"cores": [1, 4], "organisation": ["scale-out", "corec"], "load_of_max": [0.81, 0.95]},
    "C-F7": {"cores": [2, 4], "frame": [64, 512], "load_pps": [1e6, 5e6, 1e7]},
    "C-T4": {"cores": [1, 2, 4], "trace": ["traces/made-1.pcap", "traces/made-2.pcap"]},
    "C-RIVALS": {
        "organisation": ["scale-out", "rebalanced", "corec", "locked"],
        "rx_buffers": ["posted", "shared"],
        "shape": ["FB", "SQ"],
        "flows": [1, 1024],
    },
    "C-T5": {"cores": [1, 2, 4], "flow_size": [10**9, 10**10]},
    "C-F8": {**FLOWS, "flow_size": [100_000]},
    "C-F9": {**FLOWS, "flow_size": [10_000]},
    "C-F10": {**FLOWS, "flow_size": [1000]},
    "H-F3a": {"queues": [1, 500, 1000], "shape": ["FB", "PC", "NC", "SQ"]},
    "H-F3b": {"queues": [1, 250, 500, 1000]},
    "H-F3c": {"queues": [1, 100, 1000]},
    "H-F8": {
        "workload": TASKS,
        "queues": [1, 500, 1000],
        "shape": ["FB", "PC", "NC", "SQ"],
        "notification": NOTIFICATIONS,
    },
    "H-F9": {"workload": TASKS, "queues": [1, 250, 500, 1000], "notification": NOTIFICATIONS},
    "H-F10": {
        "cores": [1, 2],
        "organisation": ["scale-out", "locked"],
        "shape": ["FB", "PC"],
        "load_of_max": [0.1, 0.5, 1.0],
    },
    "H-F11a": {"notification": NOTIFICATIONS, "load_of_max": [0.0, 0.5, 1.0]},
    "H-F11b": {
        "corunner_place": ["smt-sibling", "other-core"],
        "notification": NOTIFICATIONS,
        "load_of_max": [0.0, 0.5, 1.0],
    },
    "H-F12": {"notification": ["qwait"], "idle": ["pause", "sleep"], "load_of_max": [0.0, 0.5, 1.0]},
    "H-F13": {"workload": TASKS, "shape": ["FB", "PC"], "ready_set": ["hierarchical", "linear"]},
    "H-FRONTIER": {
        "notification": ["spin", "pause", "sleep-ramp", "adaptive", "interrupt", "qwait"],
        "queues": [1, 100, 1000],
        "load_pps": [1e3, 1e5, 1e6],
    },
    "I-F4": SENDING,
    "I-F5": SENDING,
    "I-F6": SENDING,
    "I-T1": SENDING,
    "I-WAYS": {"knob.ddio_ways": ["2 ways", "4 ways", "11 ways"]},
    "I-IOMMU": {**SENDING, "knob.iommu": ["off", "strict"]},
    "I-F7": {"knob.ddio": ["on", "off"], "load_pps": [1e6, 5e6, 1e7]},
}


def _rate(levels: Levels) -> float:
    """Return a rate that rises with cores and falls with queues; words shift it, so that no two lines coincide."""
    rate = 1e6 * levels.get("load_pps", 4e6) / 4e6 * levels.get("load_of_max", 1.0)
    rate *= levels.get("cores", 1) ** 0.7 / (1 + levels.get("queues", 1) / 300)
    for value in levels.values():
        rate *= 1 + 0.04 * len(value) if isinstance(value, str) else 1.0
    return float(rate / (1 + levels.get("frame", 64) / 2000))


def trial(levels: Levels, repeat: int, spread: float, pmu: bool) -> dict[str, Any]:
    """Return one trial of a point; values of its repeats differ by `spread`."""
    point = ",".join(f"{name}={level}" for name, level in levels.items())
    shift = 1 + spread * (repeat - 1)
    queues, load = int(levels.get("queues", 1)), float(levels.get("load_of_max", 0.5))
    record = synthetic.trial(
        f"{point}:{repeat}", point, repeat, levels, pps=_rate(levels) * shift, queues=queues,
        useful_share=min(0.95, 0.8 * load * shift), polls=round(2e7 * shift),
    )  # fmt: skip
    if pmu:
        window = {"window": PMU_COUNTS, "multiplexed_share": 0.0}
        record["result"]["dut"]["lcores"][0]["pmu"] = window
    latencies = synthetic.histogram([round(shift * (900 + 20 * queues + 7 * at)) for at in range(200)], "ns")
    record["result"]["gen"]["lcores"][0]["latency_ns"] = {"from_intended": latencies, "from_sent": latencies}
    if {"dut_core", "corunner", "corunner_place"} & levels.keys():
        record["corunner"] = _corunner(record, levels, repeat, pmu)
    if "flow_size" in levels:
        record["result"]["tcp"] = _tcp(levels, shift)
        record["params"] = {"flow_size": levels["flow_size"]}
    return record


def _tcp(levels: Levels, shift: float) -> dict[str, Any]:
    flows, cores = int(levels.get("flows", 1)), int(levels["cores"])
    first_ns = shift * levels["flow_size"] * 40 * (1 + 0.05 * cores * (levels.get("organisation") != "scale-out"))
    columns = {"segments": 1000, "retransmissions": 20 * (cores - 1), "spurious_retransmissions": 10 * (cores - 1)}
    columns |= {"reordering": 3 * cores, "reordering_events": 5 * (cores - 1)}
    return {
        "flows": {
            "completion_ns": [round(first_ns * (1 + each / flows)) for each in range(flows)],
            **{name: [round(shift * value)] * flows for name, value in columns.items()},
        },
        "duration_ns": round(2 * first_ns),
        "bottleneck": {"rate_bps": 200_000_000, "bucket_bytes": 32768},
        "path": [{"role": "pump", "packets": 1000, "dropped": 0}, {"role": "worker", "packets": 1000, "dropped": 0}],
        "kernel": {"release": "6.1"},
    }


def _corunner(record: dict[str, Any], levels: Levels, repeat: int, pmu: bool) -> dict[str, Any]:
    done = 800.0 if levels.get("dut_core") == "dut" else 1000.0
    absent = {"absent": "no such counter"}
    counted = {"window": PMU_COUNTS, "multiplexed_share": 0.0} if pmu else absent
    hz = 3.4e9 - 2e7 * levels.get("cores", 1) * (levels.get("dut_core") == "dut") + 1e6 * repeat if pmu else absent
    worker = {"name": "corunner", "cpu": 0, "work": "matmul", "unit": "iterations", "done": done + repeat}
    worker |= {"longest_step_ns": 1.0, "waited_ns": 0.0, "pmu": counted, "frequency_hz": hz}
    return {"result": {"window": record["result"]["window"], "workers": [worker]}}


def trials_of(row: str, repeats: int = 3, spread: float = 0.01, pmu: bool = True) -> list[dict[str, Any]]:
    return [
        trial(levels, repeat, spread, pmu)
        for levels, repeat in product(synthetic.crossed(FACTORS[row]), range(repeats))
    ]


def one_wild_point(row: str) -> list[dict[str, Any]]:
    """Return trials of which those of the last point differ by a factor of ten."""
    trials = trials_of(row)
    last = trials[-1]["factors"]
    return [trial(last, each["repeat"], 0.85, True) if each["factors"] == last else each for each in trials]


STATES: dict[str, Callable[[str], Iterable[dict[str, Any]]]] = {
    "whole": trials_of,
    "noisy": lambda row: trials_of(row, spread=0.3),
    "wild": one_wild_point,
    "single": lambda row: trials_of(row, repeats=1),
    "without-pmu": lambda row: trials_of(row, pmu=False),
}


def gallery_run(folder: Path, row: str, state: str, **meta: Any) -> RunFolder:
    """Write a run of the row in one of STATES."""
    return synthetic.run_of(folder, STATES[state](row), row=row, rows=[row], **meta)


RECORDED = Path(__file__).parents[1] / "data" / "runs"
# Figures drawn of recorded runs beside their own: keys of `show:`, and the factor of `pollscope compare`.
SWEEPS: dict[str, list[dict[str, Any]]] = {
    "s-f5-polling-tax": [{}, {"x": "load_of_max", "y": ("rx_pps", "tax_share_running"), "by": ("queues",)}],
    "s-f8-poll-rate": [{"x": "queues", "y": ("poll_rate_hz",), "ratio_to": "1", "log": ("x",)}],
    "s-f10a-single-flow": [{"x": "queues", "y": ("tx_pps", "loss_share"), "log": ("x", "y")}],
}
COMPARED = {"s-f5-polling-tax": "queues", "s-f8-poll-rate": "queues", "s-f10a-single-flow": "queues"}


def draw_all(folder: Path) -> None:
    """Draw every figure as PNG, in a folder for each state."""
    for state, row in product(STATES, FACTORS):
        figure = figure_of(row)
        assert isinstance(figure, PaperFigure)
        run = gallery_run(folder / "runs" / state / row, row, state)
        save_figure(figure, run, Target(folder / state, row, ("png",)))
    for row in figure_rows():
        table = figure_of(row)
        if isinstance(table, TableFigure):
            save_table_figure(table, Target(folder / "tables", row, ("png",)))
    for name, asked in SWEEPS.items():
        _draw_recorded(folder, read_run(RECORDED / name), name, asked)


def _draw_recorded(folder: Path, run: RunFolder, name: str, asked: Iterable[dict[str, Any]]) -> None:
    for figure in figures_of(run):
        save_figure(figure, run, Target(folder / "recorded", figure.row, ("png",)))
    for place, (each, narrow) in enumerate(product(asked, (False, True))):
        sweep = f"{name}-{place}{'-narrow' if narrow else ''}"
        save_figure(asked_figure(run, each, narrow), run, Target(folder / "sweeps", sweep, ("png",)))
    found = compare_levels(run, COMPARED[name], ["rx_pps", "tax_share_running", "loss_share"])
    save_comparison(found, [run], f"Levels of {COMPARED[name]}", Target(folder / "compared", name, ("png",)))


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description="Draws the figure of every paper row in every state as PNG.")
    asked.add_argument("folder", type=Path, help="where the figures go; it may be missing")
    draw_all(asked.parse_args().folder)
