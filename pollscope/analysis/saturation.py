# SPDX-License-Identifier: BSD-3-Clause
"""Decide whether a point shows the DUT or the generator: a share of a maximum means nothing when the generator set
it.
"""

from collections.abc import Collection, Iterator

import pandas as pd

from pollscope.analysis.point_values import PAIR, factors, measured, places
from pollscope.base.names import RECEIVE_NOTHING
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.plan.search import SATURATED_MISSED_SHARE
from pollscope.store.run_folder import RunFolder

# Feeds for which nothing is sent.
WITHOUT_GENERATOR = ("infinite", "none")
# Columns that unsaturated_points() reads.
USED = ("point", f"factor.{PAIR}", "factor.load_of_max", "metric.imissed_share", "metric.rx_pps")
# Above this share of unsent packets the generator, not the spec, determined the load of a point.
UNSENT_LIMIT = 0.01
# A point that reached less than this share of its load does not stand for that load.
REACHED_SHARE = 0.9


def unsaturated_points(table: pd.DataFrame) -> dict[str, str]:
    """Return points whose load is a share of a maximum that was not the DUT's: place -> the reason."""
    found: dict[str, str] = {}
    for point, rows, own in _with_maxima(table):
        missed = own["metric.imissed_share"].dropna()
        if not missed.empty and missed.median() < SATURATED_MISSED_SHARE and rows.iloc[0]["factor.load_of_max"] > 0:
            share = metric_dictionary()["imissed_share"].text(float(missed.median()))
            found[point] = (
                f"when the generator sent all it could, the DUT missed {share} of it, so the maximum is the generator's"
            )
    return found


def saturated_generator_points(run: RunFolder, table: pd.DataFrame) -> dict[str, str]:
    """Return points of a saturating run whose rate is the generator's, as the DUT kept up: place -> reason."""
    fixed = run.meta.get("spec", {}).get("parameters", {})
    # Without a generator, no generator can be the limit.
    if not fixed.get("saturate") or fixed.get("feed") in WITHOUT_GENERATOR or fixed.get("workload") in RECEIVE_NOTHING:
        return {}
    rows = measured(table)
    if "factor.feed" in rows.columns:
        rows = rows[~rows["factor.feed"].isin(WITHOUT_GENERATOR)]
    missed = rows["metric.imissed_share"]
    full = rows["metric.ring_full_share"].fillna(0) if "metric.ring_full_share" in rows else 0
    # Of what arrived, the port missed a part, and a full ring to the workers refused a part of the rest.
    missed = (missed + (1 - missed) * full).groupby(places(rows), sort=False).median().dropna()
    text = metric_dictionary()["imissed_share"].text
    return {
        str(point): f"at {point} the DUT missed {text(float(share))} of all that the generator could send, "
        "so the rate is the generator's"
        for point, share in missed.items()
        if share < SATURATED_MISSED_SHARE
    }


def unreached_points(run: RunFolder, table: pd.DataFrame) -> dict[str, str]:
    """Return points whose DUT received clearly less than their share of the maximum: place -> reason."""
    found: dict[str, str] = {}
    common_to = run.meta.get("spec", {}).get("maximum", {}).get("common_to", [])
    for point, rows, own in _with_maxima(table, common_to):
        least = own["metric.rx_pps"].groupby(own["point"]).median().min()
        wanted = least * rows.iloc[0]["factor.load_of_max"]
        if wanted > 0 and rows["metric.rx_pps"].mean() < REACHED_SHARE * wanted:
            share = 100 * rows["metric.rx_pps"].mean() / wanted
            found[point] = f"the DUT received {share:.0f} % of the rate that the load of {point} stands for"
    return found


def _with_maxima(
    table: pd.DataFrame, common_to: Collection[str] = ()
) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Place, its measured trials, and the `maximum` trials with the same levels of all factors but the load.

    Args:
        table: of the run.
        common_to: further factors whose levels may differ, because their points have the load in common.
    """
    if "factor.load_of_max" not in table.columns:
        return
    same = [name for name in factors(table) if name not in common_to]
    others = [f"factor.{name}" for name in same if not name.startswith(("load_", "saturate"))]
    read = dict.fromkeys(name for name in (*others, *USED) if name in table.columns)
    maxima = table.loc[(table["kind"] == "maximum") & (table["status"] != "failed"), list(read)]
    if maxima.empty:
        return
    every = measured(table[[*read, "kind", "status", "other_host_state"]])
    for point, rows in every.groupby(places(every), sort=False):
        first = rows.iloc[0]
        yield str(point), rows, maxima[(maxima[others] == first[others]).all(axis=1)] if others else maxima


def generator_bound_points(table: pd.DataFrame) -> dict[str, float]:
    """Return points at which the generator sent too little: place -> mean share of unsent packets."""
    rows = measured(table)
    unsent = rows["metric.unsent_share"].groupby(places(rows), sort=False).mean().dropna()
    return {str(point): float(share) for point, share in unsent.items() if share > UNSENT_LIMIT}
