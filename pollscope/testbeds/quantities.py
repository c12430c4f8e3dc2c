# SPDX-License-Identifier: BSD-3-Clause
"""Choose the collectors that give the quantities that a spec asks for, by what works on the host.

The first collector of QUANTITIES that works gives a quantity, but one that the spec names and that owns the uncore
counters comes before it. Chosen collectors that own the same counters take turns over the repeats.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from pollscope.base.names import COLLECTORS, QUANTITIES, load
from pollscope.spec.model import CollectorUse

# Why a collector works on none of the hosts where it is wanted; empty where it does.
Obstacle = Callable[[CollectorUse], str]


@dataclass
class Choice:
    """The quantity that a collector was chosen for, and why earlier collectors were not."""

    quantities: list[str] = field(default_factory=list)
    instead_of: dict[str, str] = field(default_factory=dict)


def choose(asked: Sequence[CollectorUse], obstacle: Obstacle) -> tuple[list[CollectorUse], Mapping[str, Choice]]:
    """Return the collectors of a run, each once, and by name those that were chosen for a quantity."""
    uses = {use.name: use for use in asked if use.name not in QUANTITIES}
    named = [name for name, use in uses.items() if use.replay is None and _owns_uncore(name)]
    choices: dict[str, Choice] = {}
    working: set[str] = set()
    for use in asked:
        if use.name not in QUANTITIES:
            continue
        order = sorted(QUANTITIES[use.name], key=lambda name: name not in named)
        reasons = dict(_until_one_works([_merged(use, name, uses) for name in order], obstacle))
        name = next((each for each, reason in reasons.items() if not reason), order[0])
        uses[name] = _merged(use, name, uses)
        working |= {name} if not reasons[name] else set()
        choice = choices.setdefault(name, Choice())
        choice.quantities.append(use.name)
        choice.instead_of |= {each: reason for each, reason in reasons.items() if each != name}
    return _in_turn(list(uses.values()), working, {*working, *named}), choices


def _until_one_works(candidates: Sequence[CollectorUse], obstacle: Obstacle) -> Iterator[tuple[str, str]]:
    for candidate in candidates:
        reason = obstacle(candidate)
        yield candidate.name, reason
        if not reason:
            return


def _merged(use: CollectorUse, name: str, uses: Mapping[str, CollectorUse]) -> CollectorUse:
    """Return the use of a collector for a quantity, on the hosts of both if the collector is used already."""
    if name not in uses:
        return use.model_copy(update={"name": name})
    there = uses[name]
    ends = tuple(dict.fromkeys((*there.ends, *use.ends)))
    return there.model_copy(update={"ends": ends, "required": there.required or use.required})


def _owns_uncore(name: str) -> bool:
    return bool(load(COLLECTORS, name).owns_uncore)


def _in_turn(uses: list[CollectorUse], chosen: set[str], there: set[str]) -> list[CollectorUse]:
    """Let chosen collectors take turns with those that own the same counters."""
    owners = [use for use in uses if use.name in there and use.replay is None and _owns_uncore(use.name)]
    meet = [pair for pair in combinations(owners, 2) if set(pair[0].ends) & set(pair[1].ends)]
    turns = {use.name for pair in meet if not chosen.isdisjoint(use.name for use in pair) for use in pair}
    return [use.model_copy(update={"rotate": True}) if use.name in turns else use for use in uses]
