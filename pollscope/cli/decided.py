# SPDX-License-Identifier: BSD-3-Clause
"""Find the claims of a run that are open, for `pollscope run --until-decided`."""

from pathlib import Path

from pollscope.run.looks import OpenClaim


def settings_until_decided(time: str | None) -> list[str]:
    """Return the settings that `--until-decided TIME` stands for; `10m` is short for `10 min`."""
    if time is None:
        return []
    in_minutes = time.endswith("m") and time[:-1].strip().replace(".", "", 1).isdecimal()
    return ["repeats.until=verdicts", f"repeats.at_most={f'{time[:-1]} min' if in_minutes else time}"]


def open_claims(folder: Path) -> list[OpenClaim]:
    """Return the claims of a run folder that more trials may decide, at the level that its run.json holds.

    These are the inconclusive ones, and those about an undisturbed level for which a point has too few trials.
    """
    from pollscope.analysis.claims import evaluate_run  # imports pandas, which most runs need only at their end
    from pollscope.analysis.claims.verdict import VerdictKind
    from pollscope.metrics.undisturbed import TOO_FEW
    from pollscope.store.run_folder import read_run

    return [
        OpenClaim(verdict.claim.id, verdict.finding.sentence, [sample.levels for sample in verdict.finding.behind])
        for verdict in evaluate_run(read_run(folder))
        if verdict.kind is VerdictKind.INCONCLUSIVE
        or (verdict.kind is VerdictKind.NOT_MEASURABLE and TOO_FEW in verdict.finding.sentence)
    ]
