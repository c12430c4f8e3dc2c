# SPDX-License-Identifier: BSD-3-Clause
"""Predict the latency (by cyclic polling) and the poll rate (by cache sizes) of a polling core from the same run.

The part of the latency that does not depend on queues is fitted: the median over all points of measured minus predicted
latency. The prediction of the poll rate equals the measurement at the fewest queues.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes

from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.panels import key_of
from pollscope.analysis.figures.style import MUTED
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.point_values import PointValues, by_point
from pollscope.models.polling import cached_poll_ns, gated_mean_wait_ns
from pollscope.stats.estimates import Estimate

METHOD = "theory"
_CACHES = ("L1d", "L2", "L3")


def draw_latency(axes: Axes, data: FigureData, found: Sequence[PointValues], shape: str, scale: float) -> None:
    """Draw the predicted mean latency, at points whose sweeps and useful cycles were measured.

    A packet waits as in cyclic polling with gates (Takagi 1986; Boxma and Groenendijk 1987), whose switch-over is an
    empty poll: a sweep without its busy polls, divided by its queues.
    """
    names = ("sweep_time_ns", "useful_share", "rx_pps")
    known = [{key_of(each): each.estimate.value for each in by_point(data.rows, name)} for name in names]
    waits = {}
    for sample in found:
        sweep_ns, useful, rate_pps = (values.get(key_of(sample), 0.0) for values in known)
        if sweep_ns > 0 and 0 < useful < 1 and rate_pps > 0:
            queues = int(sample.levels["queues"])
            rates = [rate_pps, *[0.0] * (queues - 1)] if shape == "SQ" else [rate_pps / queues] * queues
            service_ns, poll_ns = useful / rate_pps * 1e9, sweep_ns * (1 - useful) / queues
            waits[key_of(sample)] = gated_mean_wait_ns(rates, service_ns, service_ns**2, poll_ns)
    predictable = [sample for sample in found if key_of(sample) in waits]
    if len(predictable) > 1:
        # A median over all points, because each single mean is uncertain by its interval.
        rest_ns = median(sample.estimate.value - waits[key_of(sample)] for sample in predictable)
        values = [rest_ns + waits[key_of(sample)] for sample in predictable]
        _draw(axes, data, "latency_sent_mean_ns", "ns", predictable, values, scale, "cyclic polling (Takagi)")


def draw_poll_rate(axes: Axes, data: FigureData, found: Sequence[PointValues], scale: float) -> None:
    """Draw the predicted poll rate of empty queues, if the host's cache sizes are known.

    The prediction starts from the fewest of several queues, because polls of one single queue wait for each other.
    """
    found = [each for each in found if float(each.levels["queues"]) > 1]
    sizes = _cache_bytes(data)
    tsc_hz = (data.run.meta.get("node_hello") or {}).get("tsc_hz")
    if len(sizes) < len(_CACHES) or not tsc_hz or len(found) < 2:
        return
    first = found[0]
    more_ns = [cached_poll_ns(int(each.levels["queues"]), sizes, 1e9 / tsc_hz) for each in found]
    base_ns = 1e9 / first.estimate.value - more_ns[0]
    values = [1e9 / (base_ns + more) for more in more_ns]
    _draw(axes, data, "poll_rate_running_hz", "Hz", found, values, scale, "sizes of the caches")


def _cache_bytes(data: FigureData) -> list[int]:
    caches = HostMetadata(data.run.meta).get("caches")
    if not isinstance(caches, Mapping):
        return []
    return [caches[name] for name in _CACHES if isinstance(caches.get(name), int)]


def _draw(
    axes: Axes,
    data: FigureData,
    metric: str,
    unit: str,
    found: Sequence[PointValues],
    values: Sequence[float],
    scale: float,
    theory: str,
) -> None:
    x = [float(sample.levels["queues"]) for sample in found]
    shown = any(line.get_label() == f"predicted: {theory}" for line in axes.lines)
    label = "_nolegend_" if shown else f"predicted: {theory}"
    axes.plot(x, [value * scale for value in values], color=MUTED, lw=1.0, ls=":", zorder=4, label=label)
    for sample, value in zip(found, values, strict=True):
        data.note(f"{metric} predicted by {theory}", unit, sample.levels, Estimate(value, value, value, 1, METHOD))
