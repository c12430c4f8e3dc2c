# SPDX-License-Identifier: BSD-3-Clause
"""Small tables for reading: metrics by point, verdicts, what limits, Little's law."""

import math
from collections.abc import Sequence

import pandas as pd

from pollscope.analysis.claims import evaluate_run
from pollscope.analysis.explain import explain_run
from pollscope.analysis.littles_law import Outstanding, WalkShare
from pollscope.analysis.point_values import by_point, measured
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder


def point_table(run: RunFolder, metrics: Sequence[str]) -> pd.DataFrame:
    """Return mean and 95 % interval of metrics at every point, in base units.

    Returns:
        One row per point and metric that was measured there: the levels, `metric`, `unit`, `mean`, `low`, `high`, `n`.
        Without an interval its ends are NaN.
    """
    rows = measured(current_table(run))
    lines = []
    for metric in metrics:
        unit = metric_dictionary()[metric].unit
        for sample in by_point(rows, metric):
            estimate = sample.estimate
            low, high = (end if estimate.has_interval else math.nan for end in (estimate.low, estimate.high))
            numbers = {"mean": estimate.value, "low": low, "high": high, "n": estimate.n}
            lines.append({**sample.levels, "metric": metric, "unit": unit, **numbers})
    return pd.DataFrame(lines)


def verdict_table(run: RunFolder) -> pd.DataFrame:
    """Return every claim of the run's rows with its verdict and the value found."""
    lines = [
        {
            "claim": verdict.claim.id,
            "statement": verdict.claim.statement,
            "verdict": verdict.kind.value,
            "finding": verdict.finding.sentence,
        }
        for verdict in evaluate_run(run)
    ]
    return pd.DataFrame(lines, columns=["claim", "statement", "verdict", "finding"])


def limits_table(run: RunFolder) -> pd.DataFrame:
    """Return what limits the DUT at every point, with the first number of each stage that limits or may limit."""
    lines = [
        {
            "point": each.label,
            "trials": each.trials,
            "summary": each.summary,
            "evidence": "; ".join(f"{finding.stage}: {finding.evidence[0]}" for finding in each.telling),
        }
        for each in explain_run(run, current_table(run))
    ]
    return pd.DataFrame(lines, columns=["point", "trials", "summary", "evidence"])


def law_table(found: Sequence[Outstanding]) -> pd.DataFrame:
    """Return Little's law by number of sending cores, in base units."""
    lines = [
        {
            "tx_cores": each.point.tx_cores,
            "tx_rate_pps": each.point.tx_rate_pps,
            "pcie_bits_per_s": each.point.rate_bits_per_s,
            "pcie_latency_ns": each.point.latency_ns,
            "outstanding_reads": each.reads,
            "tag_share": each.tag_share,
            "rate_ratio": each.rate_ratio,
            "latency_growth": each.latency_growth,
        }
        for each in found
    ]
    return pd.DataFrame(lines)


def walk_table(found: WalkShare) -> pd.DataFrame:
    """Return the latency that page walks give a read at two points, in base units; the second compares both."""
    lines = [
        {"walks_in_flight": flying, "walks_ns_per_read": added}
        for flying, added in zip(found.in_flight, found.latency_ns, strict=True)
    ]
    lines[1] |= {"growth_share": found.growth_share, "walk_ns_needed": found.walk_ns_needed}
    return pd.DataFrame(lines, index=pd.Index(["first", "second"], name="point"))
