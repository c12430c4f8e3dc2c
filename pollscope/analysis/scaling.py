# SPDX-License-Identifier: BSD-3-Clause
"""How a rate grows with the number of cores: what it lacks to proportional growth, and the laws that fit it.

Tables have a row per trial, or one per number of cores: `cores`, `rate_pps` and, for contributions(), `useful_share`,
`cycles_per_useful_packet` and `frequency_hz`, the rate of the clock in which those cycles are counted.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import Level, absence, data_of, factors
from pollscope.base.errors import UsageError
from pollscope.base.units import human
from pollscope.stats.scaling_laws import FEWEST_POINTS, ScalingLaw, fit_amdahl, fit_usl
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# A rate this near to the limit of a line or a NIC is the limit's (COREC's table 2 prints 37.66 Mpps at one of 37).
_AT_LIMIT = 0.02
PARTS = ("useful", "cycles", "frequency", "unexplained")
_FIT_COLUMNS = ("cores", "rate_pps")
COLUMNS = (*_FIT_COLUMNS, "useful_share", "cycles_per_useful_packet", "frequency_hz")


def contributions(table: pd.DataFrame) -> pd.DataFrame:
    """Split the shortfall of N cores against N times one core by cause.

    N cores that each spend a share u of f cycles per second on packets of c cycles forward X = N u f / c. Therefore
    X(N) / (N X(1)) is exactly u(N)/u(1) x c(1)/c(N) x f(N)/f(1). If rate and cycles were not counted over the same
    packets, a fourth ratio holds the difference. A cost that every core has is part of both u(N) and u(1), so it is no
    serial share.

    Trials with the same number of cores count as one longer trial. The contributions add up to `efficiency` - 1:
    each is the logarithm of its ratio times the logarithmic mean of efficiency and 1 (Ang 2005, Energy Policy 33, the
    LMDI method), so none depends on the order in which they are taken.

    Returns:
        One row for each number of cores, rising: `cores`, `efficiency`, `useful_ratio`, `cycles_ratio`,
        `frequency_ratio`, `unexplained_ratio`, and a `..._contribution` of each.

    Raises:
        UsageError: a column is missing, a value is no quantity, or no row is of one core.
    """
    whole = _together(_checked(table, COLUMNS))
    if 1 not in whole.index:
        raise UsageError("no row is of one core, to which the others are compared", "table: column cores")
    one = whole.loc[1]
    found = pd.DataFrame({"cores": whole.index.to_numpy()})
    found["efficiency"] = (whole["rate_pps"] / one["rate_pps"] / whole.index).to_numpy()
    found["useful_ratio"] = (whole["useful_share"] / one["useful_share"]).to_numpy()
    found["cycles_ratio"] = (one["cycles_per_useful_packet"] / whole["cycles_per_useful_packet"]).to_numpy()
    found["frequency_ratio"] = (whole["frequency_hz"] / one["frequency_hz"]).to_numpy()
    explained = found["useful_ratio"] * found["cycles_ratio"] * found["frequency_ratio"]
    found["unexplained_ratio"] = found["efficiency"] / explained
    logarithm = np.log(found["efficiency"])
    mean = np.where(logarithm.abs() < 1e-9, 1.0, (found["efficiency"] - 1) / logarithm.where(logarithm != 0, 1.0))
    for part in PARTS:
        found[f"{part}_contribution"] = mean * np.log(found[f"{part}_ratio"])
    return found


def _together(rows: pd.DataFrame) -> pd.DataFrame:
    """Pool the trials of each number of cores: shares of all their cycles, cycles per packet over all packets."""
    cycles, packets = rows["frequency_hz"], rows["rate_pps"]
    useful, spent = rows["useful_share"] * cycles, rows["cycles_per_useful_packet"] * packets
    mean = rows.assign(useful=useful, spent=spent).groupby("cores").mean()
    shares = mean["useful"] / mean["frequency_hz"], mean["spent"] / mean["rate_pps"]
    return mean.assign(useful_share=shares[0], cycles_per_useful_packet=shares[1])


def points(table: pd.DataFrame, limit_pps: float | None = None) -> pd.DataFrame:
    """Return the points that a law is fitted to: `cores`, `rate_pps` (mean), and `censored`, by rising cores."""
    if limit_pps is not None and not (np.isfinite(limit_pps) and limit_pps > 0):
        raise UsageError(f"the limit is {limit_pps} packets per second", remedy="give a number above 0, or none")
    found = _checked(table, _FIT_COLUMNS).groupby("cores").mean().reset_index()
    found["censored"] = False if limit_pps is None else found["rate_pps"] >= (1 - _AT_LIMIT) * limit_pps
    return found


def laws(table: pd.DataFrame, limit_pps: float | None = None) -> dict[str, ScalingLaw]:
    """Fit Amdahl's law and the Universal Scalability Law (pollscope/stats/scaling_laws.py); return them by name.

    Args:
        table: with _FIT_COLUMNS.
        limit_pps: as for points().

    Raises:
        UsageError: as points(), or fewer free points than a law is fitted to.
    """
    found = points(table, limit_pps)
    free, censored = int((~found["censored"]).sum()), int(found["censored"].sum())
    if free < FEWEST_POINTS:
        at_limit = f" and {censored} at the limit of {human(limit_pps, 'pps')}" if censored and limit_pps else ""
        raise UsageError(
            f"no law is fitted: {free} free points{at_limit}; it takes {FEWEST_POINTS} free ones",
            remedy="measure more numbers of cores",
        )
    columns = found["cores"].tolist(), found["rate_pps"].tolist(), found["censored"].tolist()
    return {"Amdahl": fit_amdahl(*columns), "Universal Scalability Law": fit_usl(*columns)}


def law_parameters(found: Mapping[str, ScalingLaw]) -> pd.DataFrame:
    """Return the parameters of fitted laws with 95 % intervals; gamma is in packets per second."""
    lines = []
    for name, law in found.items():
        known = {"gamma": law.gamma, "sigma": law.sigma, "kappa": law.kappa, "peak_cores": law.peak_cores}
        for parameter, estimate in known.items():
            if estimate is None and law.kappa is None:
                continue
            numbers = {end: getattr(estimate, end, float("nan")) for end in ("value", "low", "high")}
            fit = {"residual": law.residual, "free": law.free, "censored": law.censored}
            absent = "" if estimate else law.no_peak
            lines.append({"law": name, "parameter": parameter, **numbers, "absent": absent, **fit})
    return pd.DataFrame(lines)


def scaling_of_run(run: RunFolder, rate: str = "rx_pps", where: Mapping[str, Level] | None = None) -> pd.DataFrame:
    """Return the trials of a run that swept `cores` as a table for the functions above.

    Cycles are those of the time-stamp counter, so `frequency_hz` is its rate; a slower core needs more of them.

    Args:
        run: a run folder.
        rate: the metric that scales; contributions() hold exactly for `rx_pps`, over whose packets cycles are counted.
        where: levels of the other factors, where the run swept others.

    Raises:
        UsageError: the run did not sweep cores, swept another factor that `where` does not fix, or has no such trial.
    """
    rows = rows_by_cores(run, rate, where)
    model = (run.meta.get("testbed") or {}).get("model") or {}
    return pd.DataFrame(
        {
            "cores": rows["factor.cores"].astype(float).to_numpy(),
            "rate_pps": rows[f"metric.{rate}"].to_numpy(),
            "useful_share": rows["metric.useful_share"].to_numpy(),
            "cycles_per_useful_packet": rows["metric.cycles_per_packet_useful"].to_numpy(),
            "frequency_hz": float((run.meta.get("node_hello") or model).get("tsc_hz", float("nan"))),
        }
    )


def rows_by_cores(run: RunFolder, metric: str, where: Mapping[str, Level] | None = None) -> pd.DataFrame:
    """Return the trials of a run that swept `cores` which have a metric.

    Args:
        run: a run folder.
        metric: a name of the dictionary.
        where: levels of the other factors, where the run swept others. Those that are zipped with cores move with it.

    Raises:
        UsageError: the run did not sweep cores, swept another factor that `where` does not fix, or has no such trial.
    """
    rows, place = data_of(current_table(run), metric), str(run.path)
    swept = [name for name in factors(rows) if rows[f"factor.{name}"].nunique() > 1]
    if "cores" not in swept:
        raise UsageError("the run did not sweep cores", place, f"its factors: {', '.join(swept) or 'none'}")
    wanted = dict(where or {})
    zipped = {name for group in run.meta.get("spec", {}).get("zip", []) if "cores" in group for name in group}
    open_factors = [name for name in swept if name not in {"cores", *zipped, *wanted}]
    if open_factors:
        levels = [f"{name} of {', '.join(map(str, rows[f'factor.{name}'].unique()))}" for name in open_factors]
        raise UsageError("the run swept other factors, too", place, f"choose: {'; '.join(levels)}")
    for name, level in wanted.items():
        if f"factor.{name}" not in rows:
            raise UsageError(f"the run has no factor '{name}'", place, f"its factors: {', '.join(swept)}")
        rows = rows[rows[f"factor.{name}"] == level]
    there = rows[rows[f"metric.{metric}"].notna()]
    if there.empty:
        raise UsageError(f"no trial has {metric} at these levels, because {absence(rows, metric)}", place)
    return there


def paper_tables() -> dict[str, tuple[pd.DataFrame, float | None]]:
    """Return the papers' tables of rates by cores, each with the limit that the paper states."""
    corec, lengthy, sending = stated("corec", "C-T2"), stated("corec", "C-T3"), stated("intrahost", "I-T1")
    numa = ("same_numa", "remote_numa")
    found = {f"C-T2 {at}": (_rates(corec["cores"], corec[at]["corec_pps"]), corec["nic_limit_pps"]) for at in numa}
    found |= {f"C-T3 {at}": (_rates(lengthy["cores"], lengthy[at]["corec_pps"]), None) for at in numa}
    return found | {"I-F4": (_rates(sending["tx_cores"], sending["tx_rate_pps"]), None)}


def _rates(cores: Sequence[int], rates: Sequence[float]) -> pd.DataFrame:
    return pd.DataFrame({"cores": cores, "rate_pps": rates})


def _checked(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the columns as numbers after checking their ranges."""
    if missing := [name for name in columns if name not in table.columns]:
        raise UsageError(f"has no column {', '.join(missing)}", "table", f"it needs {', '.join(columns)}")
    if table.empty:
        raise UsageError("has no row", "table")
    numbers = {name: pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=float) for name in columns}
    found = pd.DataFrame(numbers)
    for name in columns:
        bad = ~(np.isfinite(found[name]) & (found[name] > 0))
        if name == "cores":
            bad |= found[name] % 1 != 0
        if name == "useful_share":
            bad |= found[name] > 1
        if bad.any():
            row = int(bad.to_numpy().argmax())
            wanted = {"cores": "a whole number from 1 on", "useful_share": "a share above 0, up to 1"}
            raise UsageError(
                f"is {table[name].iloc[row]}; it has to be {wanted.get(name, 'a number above 0')}",
                f"table: row {row}, column {name}",
            )
    return found
