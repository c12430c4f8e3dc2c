# SPDX-License-Identifier: BSD-3-Clause
"""Judge statements of a paper by the paper's own table."""

from pollscope.analysis.claims.model import TableClaim, load_table_claims
from pollscope.analysis.claims.numbers import stated, times
from pollscope.analysis.claims.verdict import Finding, Number, Verdict, VerdictKind
from pollscope.analysis.littles_law import Outstanding, paper_scaling

_FROM_TABLE = "the paper's table"
_NOTHING_MEASURED = "Computed from the paper's table 1 (analysis/littles_law.py); nothing was measured here."


def judge_tables(paper: str) -> list[Verdict]:
    """Return a verdict for every statement on a table of this paper."""
    columns = {each.point.tx_cores: each for each in paper_scaling()}
    chosen = [claim for claim in load_table_claims() if claim.paper == paper]
    return [Verdict(claim, _FROM_TABLE, _finding(claim, columns[claim.tx_cores]), []) for claim in chosen]


def _finding(claim: TableClaim, column: Outstanding) -> Finding:
    value = float(getattr(column, claim.quantity))
    low, high = claim.predicate.low, claim.predicate.high
    agrees = (low is None or value >= low) and (high is None or value <= high)
    kind = VerdictKind.AGREES if agrees else VerdictKind.DISAGREES
    text = f"{times(value)}, stated {stated(claim.predicate)}"
    number = Number(f"{claim.quantity} at {claim.tx_cores} TX cores", value, None, None, 1, text)
    return Finding(kind, _NOTHING_MEASURED, [number])
