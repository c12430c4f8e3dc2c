# SPDX-License-Identifier: BSD-3-Clause
"""Judge statements of papers as predicates over measured metrics."""

from pollscope.analysis.claims.evaluate import evaluate_run
from pollscope.analysis.claims.model import load_claims
from pollscope.analysis.claims.verdict import Verdict, VerdictKind, with_views

__all__ = ["Verdict", "VerdictKind", "evaluate_run", "load_claims", "with_views"]
