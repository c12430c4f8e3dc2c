# SPDX-License-Identifier: BSD-3-Clause
"""A misfit of the accounting flags the metrics that come from it, and no others."""

import json

import pandas as pd
import pytest

from pollscope.analysis.point_values import by_point, data_of
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.formulas.dut import ACCOUNTED

MISFIT, WAITING = ({"name": name, "text": "planted"} for name in ("accounting:misfit", "noise:waiting"))


def table_of(*flags: list[dict[str, str]]) -> pd.DataFrame:
    values = {f"metric.{name}": 1.0 for name in ("tx_pps", "tax_share", "tax_share_error")}
    rows = [
        {
            "kind": "measure",
            "status": "flagged" if own else "ok",
            "flags": json.dumps(own),
            "other_host_state": False,
            "host_state": "A",
            "run_id": "r",
            "block": "",
            **values,
        }
        for own in flags
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("metric", "flagged"), [("tx_pps", 2), ("tax_share", 3)])
def test_a_misfit_flags_only_what_comes_from_the_accounting(metric: str, flagged: int) -> None:
    table = table_of([], [MISFIT], [WAITING], [WAITING, MISFIT])
    assert (data_of(table, metric)["status"] == "flagged").sum() == flagged
    assert by_point(table, metric)[0].flagged == flagged


def test_the_metrics_that_come_from_the_accounting_exist() -> None:
    assert set(metric_dictionary().metrics) >= ACCOUNTED
