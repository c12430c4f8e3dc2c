# SPDX-License-Identifier: BSD-3-Clause
"""Fit Amdahl's law and the Universal Scalability Law to rates by number of cores, with intervals.

X(N) = gamma N / (1 + sigma (N - 1) + kappa N (N - 1)): gamma is the rate of one core, sigma the serial
share, kappa the cost per pair of cores that have to agree (Gunther 2007, Guerrilla Capacity Planning,
chapter 4). Without kappa it is Amdahl's law.

Errors are taken as relative, so logarithms of rates are fitted, by least squares with sigma and kappa not below 0. The
interval of a parameter holds the values that an F test at 5 % does not reject, with all others fitted again (profile
likelihood; Bates & Watts 1988, section 6.1). A censored point, whose rate was limited by something else than the
cores, counts only if a law lies below it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are first needed: that takes a second

from pollscope.base.units import human_number
from pollscope.stats.estimates import CONFIDENCE, Estimate, Values

FEWEST_POINTS = 6
METHOD = "profile likelihood"
# Relative errors below this are those of floating point numbers.
_SMALLEST_ERROR = 1e-9
# An end of an interval is looked for by doubling a step so often; beyond that it is infinite.
_DOUBLINGS = 60
_FIRST_STEP = 1e-3
# Of ln gamma, sigma and kappa.
_LOWEST = np.array([-math.inf, 0.0, 0.0])


@dataclass(frozen=True)
class ScalingLaw:
    """A fitted law.

    Attributes:
        gamma: rate of one core, in the unit of the rates.
        sigma: serial share.
        kappa: cost of agreeing, per pair of cores; None in Amdahl's law.
        peak_cores: the number of cores with the highest rate, sqrt((1 - sigma) / kappa); None where it is not known.
        no_peak: why it is not known; empty where it is.
        residual: root mean square of the relative errors of the free points.
        free: points that were fitted.
        censored: points at a limit.
    """

    gamma: Estimate
    sigma: Estimate
    kappa: Estimate | None
    peak_cores: Estimate | None
    no_peak: str
    residual: float
    free: int
    censored: int

    def rate(self, cores: float) -> float:
        """Return the law's rate with so many cores."""
        kappa = self.kappa.value if self.kappa else 0.0
        return self.gamma.value * cores / (1 + self.sigma.value * (cores - 1) + kappa * cores * (cores - 1))


def fit_amdahl(cores: Sequence[float], rates: Sequence[float], censored: Sequence[bool]) -> ScalingLaw:
    """Fit Amdahl's law to one rate per number of cores.

    Args:
        cores: different numbers from 1 on.
        rates: above 0, in any unit.
        censored: whether the rate is one of a limit.

    Raises:
        ValueError: fewer than FEWEST_POINTS free points.
    """
    return _fit(_Points.of(cores, rates, censored), parameters=2)


def fit_usl(cores: Sequence[float], rates: Sequence[float], censored: Sequence[bool]) -> ScalingLaw:
    """Fit the Universal Scalability Law; arguments and errors as for fit_amdahl()."""
    return _fit(_Points.of(cores, rates, censored), parameters=3)


@dataclass(frozen=True)
class _Points:
    cores: Values
    log_rates: Values
    censored: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, cores: Sequence[float], rates: Sequence[float], censored: Sequence[bool]) -> "_Points":
        points = cls(np.array(cores, float), np.log(np.array(rates, float)), np.array(censored, bool))
        if points.free < FEWEST_POINTS:
            raise ValueError(f"{points.free} free points; a law is fitted to {FEWEST_POINTS} or more")
        return points

    @property
    def free(self) -> int:
        return int((~self.censored).sum())

    def errors(self, parameters: Values) -> Values:
        """Return logarithms of rate over law; `parameters` are ln gamma, sigma, kappa."""
        n, (log_gamma, sigma, kappa) = self.cores, parameters
        apart: Values = self.log_rates - log_gamma - np.log(n) + np.log(1 + sigma * (n - 1) + kappa * n * (n - 1))
        return np.where(self.censored, np.maximum(0, apart), apart)

    def slopes(self, parameters: Values) -> Values:
        """Return derivatives of errors() by the parameters, one column each."""
        n, (_, sigma, kappa) = self.cores, parameters
        whole = 1 + sigma * (n - 1) + kappa * n * (n - 1)
        by_each = np.column_stack([-np.ones(len(n)), (n - 1) / whole, n * (n - 1) / whole])
        idle = self.censored & (self.errors(parameters) == 0)
        return np.where(idle[:, None], 0.0, by_each)


@dataclass(frozen=True)
class _Space:
    """The parameters of a law as `fixed` + `directions` x free ones, each of which lies from `low` to `high`."""

    fixed: Values
    directions: Values
    low: Values
    high: Values


def _fit(points: _Points, parameters: int) -> ScalingLaw:
    free = list(range(parameters))
    start = np.array([float((points.log_rates - np.log(points.cores)).max()), 0.05, 1e-3])
    best, least = _least(points, _space(free, np.zeros(3)), start[free])
    floor = max(least, points.free * _SMALLEST_ERROR**2)
    degrees = points.free - parameters
    limit = floor * (1 + float(scipy.special.fdtri(1, degrees, CONFIDENCE)) / degrees)

    def interval(index: int) -> Estimate:
        others = [k for k in free if k != index]

        def profile(value: float) -> float:
            fixed = np.where(np.arange(3) == index, value, 0.0)
            return _least(points, _space(others, fixed), best[others])[1] - limit

        return _interval(profile, float(best[index]), _LOWEST[index], points.free)

    gamma, sigma = _of_logarithm(interval(0)), interval(1)
    kappa = interval(2) if parameters > 2 else None
    no_peak = _no_peak(sigma.value, kappa)
    peak = None if no_peak or kappa is None else _peak(points, best, limit)
    residual = math.sqrt(least / points.free)
    return ScalingLaw(gamma, sigma, kappa, peak, no_peak, residual, points.free, int(points.censored.sum()))


def _space(free: Sequence[int], fixed: Values) -> _Space:
    """Return a space in which some parameters are free and the others fixed."""
    return _Space(fixed, np.eye(3)[:, free], _LOWEST[free], np.full(len(free), math.inf))


def _of_logarithm(found: Estimate) -> Estimate:
    return Estimate(math.exp(found.value), math.exp(found.low), math.exp(found.high), found.n, found.method)


def _no_peak(sigma: float, kappa: Estimate | None) -> str:
    if kappa is None:
        return "Amdahl's law has no peak"
    if kappa.low <= 0:
        return f"kappa may be 0 (95 % interval up to {human_number(kappa.high)}), so the rate need not have a peak"
    if sigma >= 1:
        return f"sigma is {human_number(sigma)}: the rate falls from one core on"
    return ""


def _peak(points: _Points, best: Values, limit: float) -> Estimate:
    """Return the peak with its interval: the law written with the peak in place of kappa."""

    def profile(log_peak: float) -> float:
        kappa_of_one = math.exp(-2 * log_peak)
        directions = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -kappa_of_one]])
        bounds = np.array([-math.inf, 0.0]), np.array([math.inf, 1.0])
        space = _Space(np.array([0.0, 0.0, kappa_of_one]), directions, *bounds)
        return _least(points, space, best[:2])[1] - limit

    log_peak = 0.5 * math.log((1 - best[1]) / best[2])
    return _of_logarithm(_interval(profile, log_peak, -math.inf, points.free))


def _least(points: _Points, space: _Space, start: Values) -> tuple[Values, float]:
    """Return the free parameters with the least sum of squared errors, and that sum."""

    def law(free: Values) -> Values:
        whole: Values = space.fixed + space.directions @ free
        return whole

    found = scipy.optimize.least_squares(
        lambda free: points.errors(law(free)),
        np.clip(start, space.low, np.where(np.isfinite(space.high), space.high * (1 - 1e-6), space.high)),
        jac=lambda free: points.slopes(law(free)) @ space.directions,
        bounds=(space.low, space.high),
        x_scale="jac",
        xtol=1e-10,
        ftol=1e-10,
        gtol=1e-10,
    )
    return found.x, 2 * float(found.cost)


def _interval(profile: Callable[[float], float], value: float, least: float, n: int) -> Estimate:
    """Return where the profile crosses 0 on both sides of its minimum; the lower end is at least `least`."""
    return Estimate(value, _end(profile, value, -1, least), _end(profile, value, 1, math.inf), n, METHOD)


def _end(profile: Callable[[float], float], value: float, side: int, stop: float) -> float:
    inside, step = value, _FIRST_STEP
    for _ in range(_DOUBLINGS):
        outside = value + side * step
        if side * (outside - stop) >= 0:
            outside = stop
        if profile(outside) > 0:
            # The minimum itself may lie a rounding error above 0 where all errors are rounding errors.
            inside_value = profile(inside)
            if inside_value > 0:
                return inside
            return float(scipy.optimize.brentq(profile, inside, outside, xtol=1e-12, rtol=1e-4))
        if outside == stop:
            return stop
        inside, step = outside, 2 * step
    return side * math.inf
