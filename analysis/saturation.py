# SPDX-License-Identifier: BSD-3-Clause
"""Whether a point shows the DUT or the generator: a share of a maximum means nothing when the generator set it."""

import pandas as pd

from pollscope.analysis.samples import factors
from pollscope.metrics import metric_dictionary

# A saturated DUT lets packets lie until the NIC has no descriptor left; below this share it kept up with what came.
SATURATED_MISSED_SHARE = 0.01
# Above this share of unsent packets a point shows what the generator could send, not what was asked for.
UNSENT_LIMIT = 0.01


def unsaturated_points(table: pd.DataFrame) -> dict[str, str]:
    """Points whose load is a share of a maximum that was not the DUT's: point id -> the reason.

    The maximum of a point stands in the trials of kind `maximum` with the same levels of all factors but the load.
    """
    maxima = table[(table["kind"] == "maximum") & (table["status"] != "failed")]
    relative = table[table["kind"] == "measure"]
    if "factor.load_of_max" not in table.columns or maxima.empty:
        return {}
    others = [f"factor.{name}" for name in factors(table) if not name.startswith(("load_", "saturate"))]
    found: dict[str, str] = {}
    for point, rows in relative.groupby("point", sort=False):
        first = rows.iloc[0]
        own = maxima[(maxima[others] == first[others]).all(axis=1)] if others else maxima
        missed = own["metric.imissed_share"].dropna()
        if not missed.empty and missed.median() < SATURATED_MISSED_SHARE and first["factor.load_of_max"] > 0:
            share = metric_dictionary()["imissed_share"].text(float(missed.median()))
            found[str(point)] = (
                f"when the generator sent all it could, the DUT missed {share} of it, so the maximum is the generator's"
            )
    return found


def generator_bound_points(table: pd.DataFrame) -> dict[str, float]:
    """Points at which the generator did not send what was due: point id -> mean share of unsent packets."""
    data = table[(table["kind"] == "measure") & table["status"].isin(["ok", "flagged"])]
    unsent = data.groupby("point", sort=False)["metric.unsent_share"].mean().dropna()
    return {str(point): float(share) for point, share in unsent.items() if share > UNSENT_LIMIT}
