# SPDX-License-Identifier: BSD-3-Clause
"""Which trials count for a metric: those without a flag that concerns it, and only if few lack it."""

import json

import pandas as pd
import pytest

from pollscope.analysis.compare import _adjusted, _difference, comparison_text
from pollscope.analysis.gate import condition, judge
from pollscope.analysis.point_values import PointValues, by_point, data_of
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


@pytest.mark.parametrize(("lacking", "fair"), [(0, True), (2, True), (4, False)])
def test_a_comparison_of_the_few_trials_that_have_a_metric_decides_nothing(lacking: int, fair: bool) -> None:
    half = table_of(*[[]] * 8)
    half["metric.tx_pps"] = [float("nan")] * lacking + [5e6 + 1e5 * trial for trial in range(8 - lacking)]
    (second,) = by_point(half, "tx_pps")
    assert (second.absent, second.is_fair) == (lacking, fair)
    first = PointValues({}, tuple(1e7 + 1e5 * trial for trial in range(8)))
    (found,) = _adjusted([_difference("tx_pps", "all", ("A", "B"), first, second)])
    assert found.beyond_noise == fair
    assert ("no fair sample" in comparison_text([found])) is not fair
    (judged,) = judge([condition("tx_pps < -10%")], [found])
    assert (len(judged.holds), len(judged.unseen)) == (int(fair), int(not fair))


def test_the_metrics_that_come_from_the_accounting_exist() -> None:
    assert set(metric_dictionary().metrics) >= ACCOUNTED
