# SPDX-License-Identifier: BSD-3-Clause
"""Draw a measured run and a modelled one of the same points in one figure, with the error of the model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.compare import Difference, compare_runs
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import (
    DASHES,
    amount_axis,
    interval_line,
    log2_axis,
    look,
    new_figure,
    spread_axis,
)
from pollscope.analysis.figures.sweep_lines import factor_word
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.base.errors import UsageError
from pollscope.base.units import counted, human_number
from pollscope.metrics.dictionary import metric_dictionary, shown_metrics
from pollscope.store.run_folder import RunFolder

MOST_PANELS, COLUMNS, PANEL_INCH = 4, 2, 2.5
TICKS = 5
SHARE = "share"  # a unit


@dataclass(frozen=True)
class ModelError:
    """Hold the comparison of a model with a measurement, modelled over measured, at the points that both have.

    `fitted` is the source of the model's costs if they were fitted to this row, else empty.
    """

    figure: PaperFigure
    differences: Sequence[Difference]
    fitted: str

    @property
    def heading(self) -> str:
        return f"{self.figure.row}. The model against what was measured"

    def words(self) -> str:
        """Describe the error of each metric: geometric mean and range of ratios, or differences of shares."""
        errors = []
        for metric, found in self.by_metric().items():
            if metric_dictionary()[metric].unit == SHARE:
                # A share may be 0, and then there is no ratio.
                off = [100 * (each.second.value - each.first.value) for each in found]
                errors.append(
                    f"{metric_dictionary()[metric].title}: modelled less measured, {human_number(min(off), 2)} to "
                    f"{human_number(max(off), 2)} percentage points at {counted(len(off), 'point')}"
                )
                continue
            ratios = [each.ratio.value for each in found if each.first.value > 0 and each.second.value > 0]
            if not ratios:
                continue
            mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
            ends = f"{human_number(min(ratios))} to {human_number(max(ratios))}"
            points = counted(len(ratios), "point")
            if zero := len(found) - len(ratios):
                points += f" ({zero} where one side is 0 left out)"
            errors.append(f"{metric_dictionary()[metric].title}: {human_number(mean)} ({ends}) at {points}")
        source = f" Costs of the model come from this row ({self.fitted})." if self.fitted else ""
        return (
            f"Model's error, modelled over measured, geometric mean (least to greatest). {'; '.join(errors)}.{source}"
        )

    def by_metric(self) -> dict[str, list[Difference]]:
        names = list(dict.fromkeys(each.metric for each in self.differences))[:MOST_PANELS]
        return {name: [each for each in self.differences if each.metric == name] for name in names}

    def draw(self) -> Figure:
        """Draw one panel per metric over the row's factor: measured lines solid, modelled ones dotted."""
        panels = self.by_metric()
        rows = -(-len(panels) // COLUMNS)
        figure = new_figure(PANEL_INCH * rows + 0.4)
        places = list(figure.subplots(rows, min(COLUMNS, len(panels)), squeeze=False).flat)
        for axes, (metric, found) in zip(places, panels.items(), strict=False):
            self._panel(axes, metric, found)
        for axes in places[len(panels) :]:
            axes.set_visible(False)
        return figure

    def _panel(self, axes: Axes, metric: str, found: Sequence[Difference]) -> None:
        along = next(name for name in self.figure.along if name in found[0].samples[0].levels)
        every = [each.samples[0].levels for each in found]
        constant = [name for name in every[0] if len({levels.get(name) for levels in every}) == 1]
        lines: dict[str, list[Difference]] = {}
        for each in found:
            lines.setdefault(each.samples[0].label(along, *constant), []).append(each)
        scale, label = (100.0, "Offered load (% of the maximum)") if along == "load_of_max" else (1.0, "")
        levels = sorted({scale * float(each.samples[0].levels[along]) for each in found})
        for rank, (name, points) in enumerate(lines.items()):
            points.sort(key=lambda each: float(each.samples[0].levels[along]))
            x = [scale * float(each.samples[0].levels[along]) for each in points]
            what = f"{name}: " if name else ""
            interval_line(axes, x, [each.first for each in points], rank, f"{what}measured", marker="o")
            interval_line(axes, x, [each.second for each in points], rank, f"{what}modelled", DASHES[2], marker="X")
        (log2_axis if along == "queues" else spread_axis)(axes, levels)
        axes.set_title(metric_dictionary()[metric].title)
        amount_axis(axes.yaxis, metric_dictionary()[metric], TICKS)
        axes.set_ylim(bottom=0)
        word = factor_word(along)
        axes.set_xlabel(label or f"{word[0].upper()}{word[1:]}")


def model_error(figure: PaperFigure, measured: RunFolder, modelled: RunFolder) -> ModelError | None:
    """Compare a modelled run with a measured one of the same row; return None if they share no point."""
    data = figure.data(measured)
    with look():
        figure.draw(data)
    shown = {str(row["metric"]) for row in data.drawn}
    rates = shown_metrics("model_rates")
    metrics = [each for each in (*rates, *shown_metrics("model_others")) if each in shown]
    try:
        found = compare_runs(measured, modelled, metrics if {*metrics} & {*rates} else [rates[0], *metrics])
    except UsageError:
        return None
    usable = [each for each in found if set(figure.along) & each.samples[0].levels.keys()]
    # A rate that is 0 at all points says nothing about the model.
    usable = [each for each in usable if any(other.first.value for other in found if other.metric == each.metric)]
    fitted = HostMetadata(modelled.meta).fitted.get(figure.row, "")
    return ModelError(figure, usable, fitted) if usable else None
