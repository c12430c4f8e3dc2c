# SPDX-License-Identifier: BSD-3-Clause
"""How metrics of the dictionary are computed from one trial, by what they are about; `derive` applies them."""

from collections.abc import Callable

from pollscope.metrics.record import TrialObservations

Compute = Callable[[TrialObservations], float]
