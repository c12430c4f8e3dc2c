# SPDX-License-Identifier: BSD-3-Clause
"""Draw the two figures of docs/validity.md from the cells that accounting_truth.py wrote.

python benchmarks/accounting_figures.py CELLS.csv docs/images
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from ratio import options

from pollscope.analysis.figures.style import INK, LINES, MARKERS, MUTED, SETTINGS
from pollscope.metrics.accounting import MISFIT_SHARE

# Four cells with no, positive and large interaction: queues, shape, arrivals, load, label.
EXAMPLES = (
    (1, "FB", "poisson", 0.5, "1 queue\nhalf load"),
    (64, "FB", "poisson", 0.1, "64 queues\n10 %"),
    (64, "PC", "poisson", 0.5, "64 queues PC\nhalf load"),
    (512, "PC", "constant", 1.0, "512 queues PC\nfull load"),
)
SAVED: dict[str, Any] = {"metadata": {"Date": None}, "bbox_inches": "tight"}


def draw_truth(cells: pd.DataFrame, path: Path) -> None:
    """Draw estimate minus truth over the truth, in points of the window."""
    figure, axes = plt.subplots(figsize=(7.2, 3.0))
    axes.axhspan(-2, 2, color=LINES[0], alpha=0.08, lw=0)
    axes.axhline(0, color=INK, lw=0.7)
    given = cells[cells["tax"].notna()]
    is_flagged = given["misfit"].abs() > MISFIT_SHARE
    known, flagged = given[~is_flagged], given[is_flagged]
    axes.plot(
        100 * flagged["empty"], 100 * (flagged["tax"] - flagged["empty"]), "x", ms=3, color=MUTED, label="flagged"
    )
    for rank, queues in enumerate(sorted({int(count) for count in known["queues"]})):
        rows = known[known["queues"] == queues]
        axes.errorbar(
            100 * rows["empty"],
            100 * (rows["tax"] - rows["empty"]),
            100 * (rows["error"] ** 2 + rows["truth_error"] ** 2) ** 0.5,
            fmt=MARKERS[rank],
            ms=3.5,
            lw=0.7,
            color=LINES[rank],
            label=f"{queues} queue{'s' if queues > 1 else ''}",
        )
    axes.set_xlabel("Truth: empty polls by themselves (% of the window)")
    axes.set_ylabel("Estimate - truth (points)")
    axes.set_ylim(-8, 8)
    absent = len(cells) - len(given)
    axes.set_title(f"{len(known)} cells, {absent} more absent with a reason, {len(flagged)} flagged; band: 2 points")
    axes.legend(loc="upper right", ncols=3, frameon=False)
    figure.savefig(path, **SAVED)


def draw_parts(cells: pd.DataFrame, path: Path) -> None:
    """Draw both parts alone, stacked, against the whole."""
    figure, axes = plt.subplots(figsize=(7.2, 2.8))
    for place, (queues, shape, arrivals, load, _) in enumerate(EXAMPLES):
        chosen = cells[
            (cells["queues"] == queues)
            & (cells["shape"] == shape)
            & (cells["arrivals"] == arrivals)
            & (cells["load"] == load)
            & (cells["work_cycles"] == 0)
        ].iloc[0]
        busy_polls, empty = 100 * chosen["busy_polls"], 100 * chosen["empty"]
        axes.bar(place, busy_polls, 0.6, color="#4b8cc4", label="Busy polls by themselves" if place == 0 else None)
        axes.bar(
            place, empty, 0.6, busy_polls, color="#e07b2c", label="Empty polls by themselves" if place == 0 else None
        )
        rest = 100 - busy_polls - empty
        axes.bar(
            place,
            rest,
            0.6,
            busy_polls + empty,
            color="none",
            edgecolor=MUTED,
            hatch="////",
            lw=0.7,
            label="Interaction" if place == 0 else None,
        )
        axes.text(place, max(100, busy_polls + empty) + 2, f"{rest:+.1f}", ha="center", fontsize=8, color=INK)
    axes.axhline(100, color=INK, lw=0.9)
    axes.set_xticks(range(len(EXAMPLES)), [example[-1] for example in EXAMPLES])
    axes.set_ylabel("Share of the window (%)")
    axes.set_ylim(0, 118)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, **SAVED)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("cells", type=Path, help="what accounting_truth.py --csv wrote")
    parser.add_argument("folder", type=Path, help="where the figures go")
    arguments = parser.parse_args()
    cells, folder = pd.read_csv(arguments.cells), arguments.folder
    with plt.rc_context({**SETTINGS, "figure.facecolor": "white", "svg.hashsalt": "accounting"}):
        draw_truth(cells, folder / "accounting-truth.svg")
        draw_parts(cells, folder / "accounting-parts.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
