# SPDX-License-Identifier: BSD-3-Clause
"""S-F7a and S-F7b: what a router and a matrix multiplication cost each other (SoCC'19 figure 7)."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import INK, MUTED, PAPER, absent_panel, new_figure, ratio_bar
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.stats.estimates import Estimate

PLACES = {"smt-sibling": "the SMT sibling", "same-llc": "a core behind the same LLC", "other-core": "another core"}
_PLACE_WIDTH = 0.34
_CORUNNER_METRICS = {"corunner_ipc": "IPC", "corunner_rate_running_hz": "Rate"}
# Feed of a router at full load -> its name below a bar; None: the run has no such factor.
FULL = {None: "with matmul", "infinite": "with matmul,\nfull rings", "wire": "with matmul,\ngenerator"}

Levels = Mapping[str, object]


def draw_corunner(data: FigureData) -> Figure:
    """S-F7a: IPC, and the rate, which needs no PMU."""
    given = stated("socc19", "S-F7a")
    empty, full = given["ipc_ratio_beside_empty_queues"], given["ipc_ratio_beside_full_queues"]
    feeds = {sample.levels.get("feed") for metric in _CORUNNER_METRICS for sample in data.by_point(metric)}
    by_generator = {"router,\ngenerator": ("dut", "wire", full)} if "wire" in feeds else {}
    # name -> (what has the DUT's core, feed of both points, stated ratio)
    neighbours = {
        "router,\nempty queues": ("dut", "none", empty),
        "router,\nfull queues": ("dut", "infinite", full),
        **by_generator,
        "stress-ng": ("stress-ng", "none", empty / given["ipc_ratio_to_general_benchmark"]),
    }
    figure = new_figure(2.8)
    for axes, (metric, title) in zip(figure.subplots(1, 2), _CORUNNER_METRICS.items(), strict=True):
        axes.set_title(title)
        wanted = [
            (metric, name, {"dut_core": core, "feed": feed}, {"dut_core": "idle", "feed": feed}, value)
            for name, (core, feed, value) in neighbours.items()
        ]
        _bars(axes, data, wanted, 40)
        if axes.lines:
            axes.set_xlabel("Beside the multiplication")
    return figure


def draw_router(data: FigureData) -> Figure:
    """S-F7b: throughput, IPC, and the IPC of both."""
    given = stated("socc19", "S-F7b")
    panels = {
        "Throughput": ("tx_pps", given["throughput_ratio"]),
        "IPC of the router": ("ipc", given["ipc_ratio"]),
        "IPC of both": ("ipc_with_corunner", given["ipc_together_ratio"]),
    }
    figure = new_figure(2.6)
    for axes, (title, (metric, value)) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axes.set_title(title)
        found = {sample.levels.get("feed") for sample in data.by_point(metric) if sample.levels["corunner"] == "matmul"}
        _bars(axes, data, [_beside(metric, feed, value) for feed in FULL if feed in found or len(found) == 0], 26)
    return figure


def _beside(metric: str, feed: str | None, value: float) -> tuple[str, str, Levels, Levels, float]:
    fed = {} if feed is None else {"feed": feed}
    return metric, FULL[feed], {"corunner": "matmul", **fed}, {"corunner": "none", **fed}, value


def _bars(axes: Axes, data: FigureData, wanted: Sequence[tuple[str, str, Levels, Levels, float]], width: int) -> None:
    """One group of bars for each (metric, name, levels, levels of the reference, stated ratio), a bar a place.

    `width`: characters of a line, should there be nothing but a reason.
    """
    groups = [_ratios(data.by_point(metric), *levels) for metric, _, *levels, _ in wanted]
    if not any(groups):
        absent_panel(axes, _why_empty(data, wanted[0][0]), width)
        return
    for x, (group, each) in enumerate(zip(groups, wanted, strict=True)):
        _group(axes, x, group)
        label = f"{short_name('socc19')}, on the SMT sibling"
        axes.plot(x, each[-1], "*", ms=9, mfc=PAPER, mec=INK, mew=0.9, ls="", zorder=6, label=label)
    axes.set_xticks(range(len(wanted)), [name for _, name, *_ in wanted])
    axes.axhline(1, color=MUTED, lw=0.9, label="nothing lost")
    axes.set_xlim(-0.6, len(wanted) - 0.4)
    highest = max(1.0, *(ratio.value for group in groups for ratio in group.values()), *(each[-1] for each in wanted))
    axes.set_ylim(0, 1.25 * highest)
    axes.set_ylabel("Relative")


def _why_empty(data: FigureData, metric: str) -> str:
    if data.by_point(metric):
        return "the run has no pair of points to compare"
    return data.absence(metric)


def _group(axes: Axes, x: int, ratios: Mapping[str, Estimate]) -> None:
    """The bars of one group, side by side, each with its interval as far as the panel reaches."""
    for index, (place, ratio) in enumerate(ratios.items()):
        at = x + (index - (len(ratios) - 1) / 2) * _PLACE_WIDTH
        ratio_bar(axes, at, ratio, _PLACE_WIDTH, list(PLACES).index(place), f"on {PLACES[place]}")


def _ratios(found: Sequence[PointValues], levels: Levels, reference: Levels) -> dict[str, Estimate]:
    """Place -> ratio to the reference, of those places that were measured."""
    ratios = {place: _ratio(found, place, levels, reference) for place in PLACES}
    return {place: ratio for place, ratio in ratios.items() if ratio is not None}


def _ratio(found: Sequence[PointValues], place: str, levels: Levels, reference: Levels) -> Estimate | None:
    above, below = _at(found, place, levels), _at(found, place, reference)
    return None if above is None or below is None else above.over(below)


def _at(found: Sequence[PointValues], place: str, levels: Levels) -> PointValues | None:
    wanted = {"corunner_place": place, **levels}
    return next((each for each in found if wanted.items() <= each.levels.items()), None)


S_F7A = PaperFigure(
    "S-F7a",
    "socc19",
    "Matrix multiplication beside a router, relative to beside an idle core",
    draw_corunner,
    along=("dut_core",),
    beside=("corunner_place", "feed", "corunner"),
    leaves_out_interruptions=True,
)
S_F7B = PaperFigure(
    "S-F7b",
    "socc19",
    "Router at full load beside a matrix multiplication, relative to alone",
    draw_router,
    along=("corunner",),
    beside=("corunner_place", "feed"),
)
