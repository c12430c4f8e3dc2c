# SPDX-License-Identifier: BSD-3-Clause
"""Find the stage that limits the DUT at each point of a run, with evidence and a possible refutation."""

from pollscope.analysis.explain.diagnosis import RULES, Diagnosis, explain_paper, explain_run
from pollscope.analysis.explain.finding import RuleOutcome, StageFinding

__all__ = ["RULES", "Diagnosis", "RuleOutcome", "StageFinding", "explain_paper", "explain_run"]
