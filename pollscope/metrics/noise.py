# SPDX-License-Identifier: BSD-3-Clause
"""Compare host noise in a trial with the limits of its spec, and describe violations."""

from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Any, Protocol

from pollscope.base.units import counted, human_ns, human_number, human_share
from pollscope.metrics.accounting import MISFIT_SHARE
from pollscope.metrics.record import Flag, NotMeasured, Part, at, keys_of


class Limits(Protocol):
    """The limits of a spec; its keys are described in docs/reference-spec.md."""

    @property
    def max_waiting(self) -> float: ...
    @property
    def max_gaps_over_100us_per_s(self) -> float | None: ...
    @property
    def max_steal(self) -> float | None: ...
    @property
    def max_switches_per_s(self) -> float | None: ...


# /proc/stat counts in ticks of USER_HZ, whatever the kernel's HZ.
_TICKS_PER_S = 100


_KERNEL_LOG_CHECKS = {
    "swapped_pages": "the host{whose} swapped {count:.0f} pages in or out: its memory is full",
    "throttle_events": "the processor{whose} throttled itself {count:.0f} times, because it was too hot",
}

# The keys of a spec's `noise` that are limits.
LIMITS = ("max_waiting", "max_steal", "max_switches_per_s", "max_gaps_over_100us_per_s")


def noise_flags(limits: Limits, record: Mapping[str, Any], metrics: Mapping[str, float]) -> list[Flag]:
    """Return the flags of a trial: one per limit that it exceeds.

    Args:
        limits: of the spec.
        record: of the trial; a value that it lacks cannot exceed a limit.
        metrics: of the trial; an absent one cannot exceed its limit.

    Raises:
        UsageError: the record contradicts docs/internals/store-format.md.
    """
    found = Part(record, "")
    idle = _idle_generator(found)
    checks = (
        _waiting(limits, found, idle),
        _corunner_waiting(limits, found),
        iter(()) if idle else _gaps(limits, metrics),
        _stolen(limits, found),
        _switched(limits, found, metrics),
        _kernel_log_checks(found),
    )
    flags: list[Flag] = []
    for check in checks:
        with suppress(NotMeasured):  # there was no node, nothing ran beside the DUT, and so on
            for flag in check:
                flags.append(flag)
    return flags


def misfit_flags(metrics: Mapping[str, float], shared: float = 0.0) -> list[Flag]:
    """Return the flags of a trial whose timed intervals and window do not agree (docs/validity.md).

    Args:
        metrics: of the trial.
        shared: share of the window that a generator on the same CPU may take: timed intervals exclude it.
    """
    misfit, limit = metrics.get("accounting_misfit_share", 0.0), MISFIT_SHARE + shared
    if abs(misfit) <= limit:
        return []
    text = (
        f"the cost of busy polls and packets by timed intervals misses the window by {100 * misfit:+.1f} % (limit "
        f"{human_share(limit)}): the host state changed, or costs do not add up"
    )
    return [{"name": "accounting:misfit", "text": text}]


def _idle_generator(record: Part) -> Set[str]:
    """Return the generator's lcores if it has nothing to send: then their waits do not affect the DUT."""
    try:
        if at(record, ("start", "rate", "pps")).number() == 0:
            lcores = at(record, ("result", "gen", "lcores")).items()
            return {f"{lcore['lcore'].number():.0f}" for lcore in lcores}
    except NotMeasured:  # it saturates, or there is no sender
        pass
    return frozenset()


def _waiting(limits: Limits, record: Part, idle: Set[str]) -> Iterator[Flag]:
    waits, start = at(record, ("host", "waits_ns")), record["start"]
    duration_ns = start["warmup_ns"].number() + start["window_ns"].number()
    for lcore in keys_of(waits):
        if lcore in idle:
            continue
        wait_ns = waits[lcore].number()
        # Waits are those of the whole trial, set-up and drain included, whose length is not recorded.
        if min(wait_ns, duration_ns) > limits.max_waiting * duration_ns:
            how_long = (
                f"{human_share(wait_ns / duration_ns)} of the trial"
                if wait_ns <= duration_ns
                else f"{human_ns(wait_ns)} with set-up and drain, longer than its warm-up and window of "
                f"{human_ns(duration_ns)}"
            )
            text = (
                f"lcore {lcore} waited for its CPU for {how_long}, because "
                f"{_ran_instead(record, lcore)} ran there (limit {human_share(limits.max_waiting)}): "
                "this looks like polling or like loss"
            )
            yield {"name": "noise:waiting", "text": text}


def _ran_instead(record: Part, lcore: str) -> str:
    with suppress(NotMeasured):
        return at(record, ("host", "ran_instead", lcore)).text()
    return "something else"


def _corunner_waiting(limits: Limits, record: Part) -> Iterator[Flag]:
    workers = at(record, ("corunner", "result", "workers")).items()
    window_ns = at(record, ("start", "window_ns")).number()
    for worker in workers:
        if "scheduling" in keys_of(worker) and worker["scheduling"].text() == "idle":  # it is meant to wait
            continue
        try:
            name, cpu = worker["name"].text(), worker["cpu"].number()
            waited_ns = worker["waited_ns"].number()
        except NotMeasured:
            continue
        if waited_ns > limits.max_waiting * window_ns:
            text = (
                f"{name} waited for CPU {cpu:.0f} for "
                f"{human_share(waited_ns / window_ns, 2)} of the window, because something else ran there (limit "
                f"{human_share(limits.max_waiting)})"
            )
            yield {"name": "noise:corunner-waiting", "text": text}


def _stolen(limits: Limits, record: Part) -> Iterator[Flag]:
    """Judge the steal time per measuring CPU. A single tick is the resolution, so one tick never is above a limit."""
    if limits.max_steal is None:
        return
    host, start = record["host"], record["start"]
    ticks, cpus = host["steal_ticks"].number(), _watched_cpus(host)
    duration_s = (start["warmup_ns"].number() + start["window_ns"].number()) / 1e9
    share = ticks / (_TICKS_PER_S * duration_s * max(1, cpus))
    if ticks > 1 and share > limits.max_steal:
        text = (
            f"the hypervisor took {human_share(share)} of a measuring CPU's time ({ticks:.0f} ticks of "
            f"{counted(cpus, 'CPU')}); the spec allows {human_share(limits.max_steal)}"
        )
        yield {"name": "noise:steal_ticks", "text": text}


def _watched_cpus(host: Part) -> int:
    """Return the number of CPUs over which steal time was summed: those of both hosts of a pair."""
    try:
        return sum(len(keys_of(host["ends"][name]["interrupts"])) for name in keys_of(host["ends"]))
    except NotMeasured:
        return len(keys_of(host["interrupts"]))


def _switched(limits: Limits, record: Part, metrics: Mapping[str, float]) -> Iterator[Flag]:
    """Judge involuntary switches per DUT lcore and second."""
    if limits.max_switches_per_s is None or "involuntary_switches" not in metrics:
        return
    lcores = len(at(record, ("result", "dut", "lcores")).items())
    window_s = at(record, ("start", "window_ns")).number() / 1e9
    rate = metrics["involuntary_switches"] / (window_s * max(1, lcores))
    if rate > limits.max_switches_per_s:
        text = (
            f"the kernel took each of the DUT's cores {human_number(rate)} times per second for something else; the "
            f"spec allows {human_number(limits.max_switches_per_s)}"
        )
        yield {"name": "noise:involuntary_switches", "text": text}


def _kernel_log_checks(record: Part) -> Iterator[Flag]:
    """Flag swapping, throttling and errors in the kernel log; a trial tolerates none of them."""
    host = record["host"]
    try:
        ends = {f" of the {name}": host["ends"][name] for name in keys_of(host["ends"])}
    except NotMeasured:
        ends = {"": host}
    for whose, each in ends.items():
        yield from _kernel_log_checks_of(each, whose)


def _kernel_log_checks_of(host: Part, whose: str) -> Iterator[Flag]:
    for name, sentence in _KERNEL_LOG_CHECKS.items():
        with suppress(NotMeasured):
            if (count := host[name].number()) > 0:
                yield {"name": f"noise:{name}", "text": sentence.format(whose=whose, count=count)}
    with suppress(NotMeasured):
        if errors := [each.text() for each in host["kernel_errors"].items()]:
            text = f"the kernel{whose} logged {counted(len(errors), 'error')}, first: {errors[0]}"
            yield {"name": "noise:kernel_errors", "text": text}


def _gaps(limits: Limits, metrics: Mapping[str, float]) -> Iterator[Flag]:
    """Judge how often something else ran on the generator's core."""
    name, limit = "generator_gaps_over_100us_per_s", limits.max_gaps_over_100us_per_s
    if limit is not None and metrics.get(name, 0.0) > limit:
        text = (
            f"the generator's core was away for more than 100 us {metrics[name]:.0f} times per second; the spec allows "
            f"{human_number(limit)}"
        )
        yield {"name": f"noise:{name}", "text": text}
