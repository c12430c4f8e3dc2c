# SPDX-License-Identifier: BSD-3-Clause
"""Judge the conditions of `--fail-if`, after a comparison or while a run measures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pollscope.analysis.gate import Condition, Judged, condition, judge_levels
from pollscope.base.errors import CannotHost, ExitCode, UsageError
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.cli.run_steps import run_at_look
from pollscope.cli.words import echo
from pollscope.run.looks import OpenClaim
from pollscope.spec import LoadedSpec
from pollscope.spec.model import Parameters
from pollscope.store.run_folder import RunFolder, read_run


def code_of(judged: Sequence[Judged]) -> ExitCode:
    """Print the outcomes of conditions; return the exit code that they give."""
    for verdict in judged:
        echo(verdict.lines())
    if any(verdict.holds for verdict in judged):
        return ExitCode.TRIALS_FAILED
    return ExitCode.UNSEEN if any(verdict.unseen for verdict in judged) else ExitCode.DONE


@dataclass(frozen=True)
class Gate:
    """The conditions that end a run, and the factor whose first level they compare with each other level."""

    by: str
    conditions: tuple[Condition, ...]

    @classmethod
    def asked(cls, fail_if: Sequence[str] | None, by: str | None, has_end: bool) -> "Gate | None":
        """Return the gate of the options, or None without them.

        Raises:
            UsageError: an option is missing, or a text is no condition.
        """
        if not fail_if and by is None:
            return None
        if not (fail_if and by and has_end):
            raise UsageError("--fail-if, --by and --until-decided belong together", remedy="pollscope run --help")
        return cls(by, tuple(map(condition, fail_if)))

    @property
    def settings(self) -> list[str]:
        """Return the settings that measure the levels directly after each other; knobs have no blocks.

        A baseline would need a level of the factor, and drift cancels between levels.
        """
        return ["baseline=null", *([f"order.compare={self.by}"] if self.by in Parameters.model_fields else [])]

    def require_factor(self, specs: Sequence[LoadedSpec]) -> None:
        """Check that there is one spec, and that it sweeps the factor.

        Raises:
            UsageError: several specs, or it does not.
        """
        if len(specs) > 1:
            raise UsageError("judges one spec", "--fail-if", "run the specs one by one")
        (loaded,) = specs
        levels = loaded.spec.levels.get(self.by) or loaded.spec.levels.get(f"{KNOB_PREFIX}{self.by}")
        if not (levels or ())[1:]:
            what = f"needs two levels of {self.by} to compare"
            raise UsageError(what, f"{loaded.name}: factors", f"--set 'factors.{self.by}=[FIRST, SECOND]'")

    def open(self, folder: Path, repeats: int) -> list[OpenClaim]:
        """Return the conditions that more trials may decide; none as soon as one of them holds anywhere."""
        judged = self._judged(run_at_look(folder, repeats))
        if any(verdict.holds for verdict in judged):
            return []
        seen = [each for each in judged if each.unseen_levels]
        return [OpenClaim(str(each.condition), each.unseen[-1], each.unseen_levels) for each in seen]

    def code(self, folder: Path) -> ExitCode:
        """Print the outcomes for a run folder; return the exit code, in which trials that failed do not count."""
        return code_of(self._judged(read_run(folder)))

    def _judged(self, run: RunFolder) -> list[Judged]:
        try:
            return judge_levels(run, self.by, self.conditions)
        except UsageError as error:
            if not run.meta["left_out"]:
                raise
            first = run.meta["left_out"][0]
            raise CannotHost(
                f"{error.what}; {first['point']} was left out: {first['reason']}", str(run.path)
            ) from error
