# SPDX-License-Identifier: BSD-3-Clause
"""Spend the error of a test over several looks at growing data (Lan & DeMets, Biometrika 70, 1983).

The spending function is that of Pocock's type: it spends about evenly, so that plain effects are decided early. The
error of each look is its increment. The sum of increments bounds the error for any dependence between looks
(Bonferroni), so it needs no assumption about the data.
"""

import math
from collections.abc import Sequence


def spent(error: float, fraction: float) -> float:
    """Return the error that may be spent up to a fraction of the declared maximum."""
    return error * math.log1p((math.e - 1) * min(max(fraction, 0.0), 1.0))


def look_confidence(error: float, looks: Sequence[float]) -> float:
    """Return the level of intervals at the last of these looks, given as rising fractions of the declared maximum."""
    before = spent(error, looks[-2]) if len(looks) > 1 else 0.0
    return 1 - (spent(error, looks[-1]) - before)
