# SPDX-License-Identifier: BSD-3-Clause
"""Say before a run which metrics of a spec this host cannot deliver, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

from pollscope.base.names import COLLECTORS, QUANTITIES
from pollscope.base.units import counted
from pollscope.cli.words import say
from pollscope.collectors.registry import probe
from pollscope.host.pmu import pmu_absence
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec import LoadedSpec, Spec
from pollscope.testbeds import Testbed

# Testbeds whose DUT is on this host: counters that this host lacks are missing in the run.
_HERE = ("loopback", "namespaces")
# Metrics outside the group `pmu` that need the PMU as well.
_OF_THE_PMU = ("corunner_ipc", "ipc_with_corunner", "corunner_frequency_hz")


@dataclass(frozen=True)
class Lack:
    """Hold what a host lacks, why, and the metrics and claims of a spec that are absent without it."""

    what: str
    reason: str
    metrics: tuple[str, ...]
    claims: int
    of_claims: int

    def __str__(self) -> str:
        absent = f"{', '.join(self.metrics)} will be absent, because " if self.metrics else ""
        unjudged = f"; {self.claims} of {counted(self.of_claims, 'claim')} cannot be judged" if self.claims else ""
        return f"{absent}{self.reason}{unjudged}"


def missing(spec: Spec, testbed: Testbed) -> Iterator[Lack]:
    """Yield what the testbed lacks for the metrics that a spec's figures and claims use."""
    from pollscope.analysis.claims.model import claims_of  # loads pandas

    if testbed.kind not in _HERE:
        return
    claims = claims_of(spec.all_rows)
    about = [{each.metric, each.beside} for each in claims] + [{each.metric} for each in spec.claims]
    used = set[str | None]().union(*about, *(show.y for show in spec.show))

    def without(what: str, reason: str, metrics: set[str], need: frozenset[str] = frozenset()) -> Iterator[Lack]:
        gone = sorted(used & metrics, key=str)
        unjudged = sum(bool(metrics & {each.metric, each.beside} or need & set(each.needs)) for each in claims)
        if gone or unjudged:
            yield Lack(what, reason, tuple(map(str, gone)), unjudged, len(claims))

    group = {name: metric.group for name, metric in metric_dictionary().metrics.items()}
    if reason := pmu_absence():
        yield from without("PMU", reason, {name for name in group if group[name] == "pmu"}.union(_OF_THE_PMU))
    wanted = [name for use in spec.collectors for name in QUANTITIES.get(use.name, (use.name,)) if name in COLLECTORS]
    probed = {name: probe(name) for name in wanted}
    if probed and not any(each.available for each in probed.values()):
        reasons = "; ".join(f"{name}: {each.reason}" for name, each in probed.items())
        counters = {name for name in group if group[name] == "counted"}
        yield from without("counters", f"no collector works here ({reasons})", counters)
    yield from without(
        "NIC", "the virtual NIC has no PCIe, DDIO or line rate", set(), frozenset(("pcie", "ddio", "line"))
    )


def say_missing(loaded: LoadedSpec, testbed: Testbed) -> None:
    """Warn on standard error of metrics that this host cannot deliver."""
    for each in missing(loaded.spec, testbed):
        say(f"warning: {loaded.spec.name}: {each}")
