# SPDX-License-Identifier: BSD-3-Clause
"""The rule by which bounds follow from what a paper states, and that all shipped claims follow it."""

import json
import re

import pytest

from pollscope.analysis.claims.model import OF_RATIO, Claim, load_claims, parse_claims
from pollscope.base.errors import UsageError
from pollscope.spec.predicates import StatedBounds
from pollscope.stats.tolerance import EFFECT_SHARE, WORDS, bounds_of

BOUNDED = [claim for claim in load_claims() if claim.paper and isinstance(claim.predicate, StatedBounds)]
# A claim that states one number, as a ratio or a quantity, and perhaps a scale behind it.
NUMBER = re.compile(r"([\d.e]+)(?: / ([\d.e]+))?( %)?( lower| higher)?(?: x ([\d.]+) / ([\d.]+))?")


@pytest.mark.parametrize(
    ("stated", "of_ratio", "bounds"),
    [
        ("4.1", True, (3.325, 4.875)),  # an effect of 3.1, a quarter of it to either side
        ("30 % lower", True, (0.625, 0.775)),
        ("23 % higher", True, (1.172, 1.288)),
        ("17.68 / 16.43", True, (1.057, 1.095)),
        ("5.07 / 5.04", True, (1.004, 1.008)),  # the digits leave more open than a quarter of 0.006
        ("69 / 70", True, (0.9715, 0.9999)),
        ("1.6e6", False, (1.2e6, 2.0e6)),
        ("29 %", False, (0.2175, 0.3625)),
        ("20 % to 28 %", False, (0.2, 0.28)),
        ("2 to 2.6", False, (2.0, 2.6)),
        ("more than 6", True, (6.0, None)),
        ("at most 3 % higher", True, (None, 1.03)),
        ("at least 73 % lower", True, (None, 0.27)),
        ("less than 1 %", False, (None, 0.01)),
        ("below 100e9", False, (None, 99e9)),
        ("reaches 1", True, (0.99, None)),
        ("well below 256", False, (None, 128)),
        ("none beside 1e6", False, (None, 1e4)),
        ("some beside 1", False, (0.01, None)),
        ("exactly 0", False, (0, 0)),
        ("slightly lower", True, (0.9, 1.0)),
        ("considerably higher", True, (1.111, None)),
        ("11 % higher x 2 / 1.1", True, (1.969, 2.069)),
    ],
)
def test_bounds_follow_from_what_is_stated(
    stated: str, of_ratio: bool, bounds: tuple[float | None, float | None]
) -> None:
    assert bounds_of(stated, of_ratio) == pytest.approx(bounds)


@pytest.mark.parametrize(("stated", "of_ratio"), [("a bit", True), ("lower", False), ("4.1 times", True), ("", False)])
def test_other_words_have_no_tolerance(stated: str, of_ratio: bool) -> None:
    with pytest.raises(ValueError, match="not a number, range, comparison or word"):
        bounds_of(stated, of_ratio)


def test_every_bound_of_a_paper_comes_from_what_the_paper_states() -> None:
    assert len(BOUNDED) > 100
    assert [claim.id for claim in BOUNDED if claim.stated is None] == []


@pytest.mark.parametrize("claim", [each for each in BOUNDED if NUMBER.fullmatch(each.stated or "")], ids=lambda c: c.id)
def test_a_stated_number_lies_inside_and_no_effect_outside(claim: Claim) -> None:
    found = NUMBER.fullmatch(claim.stated or "")
    assert found is not None and isinstance(claim.predicate, StatedBounds)
    value = float(found[1]) / float(found[2] or 1) / (100 if found[3] else 1)
    value = {" lower": 1 - value, " higher": 1 + value}.get(found[4] or "", value)
    scale = float(found[5] or 1) / float(found[6] or 1)
    none = float(claim.predicate.kind in OF_RATIO)
    low, high = claim.predicate.low, claim.predicate.high
    assert low is not None and high is not None
    assert low < value * scale < high
    assert not low <= none * scale <= high
    # no wider than a quarter of the effect, unless the paper prints too few digits for that
    digits = 0.005 if found[2] is None else 0.015
    rounded = 1e-3 * high
    assert high - low <= 2 * max(EFFECT_SHARE * abs(value - none), digits) * scale + rounded


def test_words_of_direction_exclude_the_other_direction() -> None:
    for word, (low, high) in WORDS.items():
        if word.endswith("lower"):
            assert high is not None and high <= 1
        if word.endswith("higher"):
            assert low is not None and low >= 1


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"stated": "4.1", "predicate": {"kind": "within", "low": 4}}, "'stated' gives the bounds"),
        ({"stated": "about four", "predicate": {"kind": "within"}}, "not a number, range, comparison or word"),
    ],
)
def test_a_claim_states_its_bounds_once_and_by_the_rule(fields: dict[str, object], complaint: str) -> None:
    whole = {"id": "S-F5.x", "row": "S-F5", "statement": "s", "source": "t", "metric": "tax_share", **fields}
    with pytest.raises(UsageError, match=complaint):
        parse_claims(json.dumps({"paper": "socc19", "claims": [whole]}), "claims.yaml")
