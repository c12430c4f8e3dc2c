# SPDX-License-Identifier: BSD-3-Clause
"""The one way in which programs of this folder print a figure."""

from collections.abc import Sequence

from pollscope.analysis.statistics import Estimate, median_estimate


def print_ratio(name: str, ratios: Sequence[float]) -> Estimate:
    """Prints `ratio NAME MEDIAN LOW HIGH N` and returns the median with its 95 % interval."""
    estimate = median_estimate(ratios)
    print(f"ratio {name} {estimate.value:.4f} {estimate.low:.4f} {estimate.high:.4f} {estimate.n}", flush=True)
    return estimate
