# SPDX-License-Identifier: BSD-3-Clause
"""Check that every spec of specs/good.txt loads and every one of specs/bad.txt fails with the message above it."""

import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from shipped_specs import EXPERIMENTS, shipped

from pollscope.analysis.claims.model import Claim, load_claims
from pollscope.base.errors import UsageError
from pollscope.spec import Overrides, SpecError, find_specs, load_file, load_text
from pollscope.spec.advice import advice, offered_load
from pollscope.spec.model import LOADS, Parameters, Spec

CHECKOUT = Path(__file__).parent.parent
HEAD = "# five lines, as in a file\nformat: 1\nname: x\nrow: S-F5\ntitle: t\n"


def blocks_of_the_document() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (CHECKOUT / "docs/reference-spec.md").read_text(), re.DOTALL)


def specs(kind: str) -> list[Any]:
    """Return what specs/KIND.txt holds: the message, if any, and the text of each spec."""
    _, *blocks = re.split(r"^== ", (CHECKOUT / f"tests/specs/{kind}.txt").read_text(), flags=re.MULTILINE)
    found: list[Any] = []
    for block in blocks:
        title, text = block.split("\n", 1)
        name, _, message = title.partition(": ")
        head = HEAD if text and not text.startswith(("format:", "- ")) else ""
        found.append(pytest.param(message, head + text, id=name))
    return found


def load_both(path: Path) -> None:
    if load_file(path).spec.quick is not None:
        load_file(path, Overrides(quick=True))


@pytest.mark.parametrize(("message", "text"), specs("good"))
def test_good_specs_load(tmp_path: Path, message: str, text: str) -> None:
    assert message == ""
    (tmp_path / "x.yaml").write_text(text)
    load_both(tmp_path / "x.yaml")


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_shipped_experiments_load(path: Path) -> None:
    if shipped(path).spec.quick is not None:
        shipped(path, quick=True)


@pytest.mark.parametrize(("message", "text"), specs("bad"))
def test_bad_specs_say_where_and_what(tmp_path: Path, message: str, text: str) -> None:
    assert message
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        load_both(tmp_path / "x.yaml")
    problems = caught.value.problems if isinstance(caught.value, SpecError) else [caught.value]
    lines = [str(problem) for problem in problems]
    assert any(message in line for line in lines), lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("block", blocks_of_the_document(), ids=count())
def test_examples_of_the_document_load(tmp_path: Path, block: str) -> None:
    (tmp_path / "x.yaml").write_text(block)
    load_both(tmp_path / "x.yaml")


def test_the_reference_explains_every_key() -> None:
    reference = max(blocks_of_the_document(), key=len)
    keys = [info.alias or name for model in (Spec, Parameters) for name, info in model.model_fields.items()]
    missing = [key for key in keys if not re.search(rf"\b{key}\b", reference)]
    assert missing == []
    assert all(load in reference for load in LOADS)


def test_rows_are_found_and_unique() -> None:
    names: dict[str, Path] = {}
    for path in EXPERIMENTS:
        spec = shipped(path).spec
        for name in (spec.name, *spec.all_rows):
            assert names.setdefault(name, path) == path, f"{name} is in {names[name]} and in {path}"


def test_rows_that_were_measured_on_nics_are_meant_for_nics() -> None:
    specs = [shipped(path).spec for path in EXPERIMENTS]
    on_nics = [spec for spec in specs if any(row.startswith(("S-", "H-F3")) for row in spec.all_rows)]
    assert on_nics
    for spec in on_nics:
        assert {"loopback", "vm-pair", "pair"} <= set(spec.testbeds), spec.name


# Too slow for a quick run: gigabytes over one flow, and emulated nodes that restart for another page size.
ONLY_WHOLE = ("C-T5.", "I-IOMMU.large-pages")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_a_quick_run_has_the_levels_that_claims_name(path: Path) -> None:
    loaded, quick = shipped(path), shipped(path, quick=True).spec
    lacking = [
        f"{claim.id}: {factor} {level}"
        for claim in load_claims()
        if claim.row in quick.all_rows and not claim.id.startswith(ONLY_WHOLE)
        for factor, level in levels_named(claim)
        if level in loaded.spec.levels.get(factor, ()) and level not in quick.levels[factor]
    ]
    assert lacking == []


def levels_named(claim: Claim) -> list[tuple[str, object]]:
    """Return the single levels that a claim's conditions and its predicate name."""
    ends = [getattr(claim.predicate, name, None) for name in ("first", "last")]
    factor = str(getattr(claim.predicate, "factor", ""))
    return [*claim.where.items(), *((factor, end) for end in ends if end is not None)]


def test_a_claim_has_a_collector_for_its_metric() -> None:
    """Each metric of a claim about a NIC is derived from the node's numbers or collected by the row's spec."""
    collected = {"dram_bytes_per_s": "perf-uncore", "nic_pcie_latency_ns": "neohost", "iotlb_misses_per_s": "vtd-pmu"}
    by_row = {row: shipped(path).spec for path in EXPERIMENTS for row in shipped(path).spec.all_rows}
    lacking = [
        claim.id
        for claim in load_claims()
        if claim.row in by_row
        and (needed := collected.get(claim.metric))
        and needed not in {use.name for use in by_row[claim.row].collectors}
    ]
    assert lacking == []


OWN = "format: 1\nname: own\ntitle: t\nparameters: {load_pps: 2 Mpps}\nfactors: {burst: [1, 2, 4, 8, 32]}\n"
RISES = "{kind: trend, factor: queues, direction: rises}"


def claimed(where: str, predicate: str) -> str:
    return f"claims=[{{id: c, statement: s, metric: rx_pps, where: {where}, predicate: {predicate}}}]"


def test_any_spec_has_a_quick_form_that_says_what_it_leaves_out() -> None:
    loaded = load_text(OWN, "own.yaml", Overrides(quick=True))
    assert loaded.spec.levels == {"burst": (1, 4, 32)}
    assert loaded.spec.trial.window_ns == 200_000_000
    assert loaded.left_out == (
        "burst: 3 of 5 levels",
        "windows of 200 ms instead of 1 s",
        "3 repeats instead of 5 repeats",
    )
    assert load_text(OWN, "own.yaml").left_out == ()
    rivals = load_file(CHECKOUT / "experiments/corec/c-rivals.yaml", Overrides(quick=True))
    assert rivals.left_out[0] == "another lookups, generator_burst, generator_sleep"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("parameters.load_pps=5", "did you mean 5 Mpps?"),
        ("parameters.load_pps=500", "500 packets/s are 500 packets in a window of 1 s"),
        ("collectors=[{name: kernel-load, interval: 2 s}]", "kernel-load delivers every 2 s, but a window lasts 1 s"),
        (
            "collectors={rotate: [pcm, pcm-iio, pcm-memory, pcm-pcie, pcm-power, perf-uncore]}",
            "collectors: 6 rotate over 5 repeats: perf-uncore may never run",
        ),
        ("row=S-F55", "no claim is known of S-F55, so the run has none of it; did you mean S-F5 or S-F5w?"),
        ("rows=[S-F5, H-F3q]", "known of H-F3q, so the run has none of it; did you mean H-F3"),
        ("row=Q-SWEEP", "known of Q-SWEEP, so the run has none of it"),
        ("show=[{x: queues, y: rx_pps, at: {burst: 16}}]", "show[0].at.burst: no level is 16, so this figure"),
        ("show=[{x: burst, y: rx_pps, ratio_to: 3}]", "show[0].ratio_to: no level is 3, so this figure"),
        ("show=[{x: burst, y: rx_pps, ratio_to: queues=5}]", "(levels of queues: 1, 4)"),
        (claimed("{burst: 16}", RISES), "claims 'c', where: no level is 16, so it cannot be judged"),
        (claimed("{burst: {above: 32}}", RISES), "claims 'c', where: no level is above 32"),
        (claimed("{}", "{kind: ratio, factor: burst, from: 1, to: 64, low: 1}"), "claims 'c', to: no level is 64"),
        (claimed("{}", "{kind: crosses, factor: burst, across: queues, of: 2, over: 4}"), "claims 'c', of: no level"),
    ],
)
def test_a_probable_slip_is_reported(change: str, sentence: str) -> None:
    two = "factors.queues=[1, 4]"
    (said,) = advice(load_text(OWN, "own.yaml", Overrides(settings=(two, change))).spec)
    assert sentence in said
    assert advice(load_text(OWN, "own.yaml", Overrides(settings=(two,))).spec) == []


@pytest.mark.parametrize(
    "change",
    [
        "rows=[S-F5, S-F13q, SANITY]",
        "show=[{x: queues, y: rx_pps, at: {burst: 8}}]",
        "show=[{x: burst, y: rx_pps, ratio_to: queues=4}]",
        "show=[{x: burst, y: rx_pps, by: queues, ratio_to: 32}]",
        "factors.load_of_max=[0 %, 50 %]\nshow=[{x: burst, y: rx_pps, at: {load_of_max: 50 %}}]",
        claimed("{burst: {above: 8}}", RISES),
        claimed("{frame: 64}", RISES),
        claimed("{}", "{kind: ratio, factor: burst, from: 1, to: 32, low: 1}"),
    ],
)
def test_levels_that_are_there_are_no_slip(change: str) -> None:
    settings = ("factors.queues=[1, 4]", *change.split("\n"))
    text = OWN.replace("load_pps: 2 Mpps", "frame: 64 B") if "load_of_max" in change else OWN
    assert advice(load_text(text, "own.yaml", Overrides(settings=settings)).spec) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("parameters.load_pps=0", "load: no packet"),
        ("parameters.load_pps=5", "load: 5 packets/s"),
        ("parameters.load_pps=2500000", "load: 2.5 Mpps"),
    ],
)
def test_the_load_is_described_in_words(change: str, text: str) -> None:
    assert offered_load(load_text(OWN, "own.yaml", Overrides(settings=(change,))).spec) == text


def test_names_and_rows_are_found_in_any_case() -> None:
    assert find_specs("s-f5") == find_specs("S-F5") == find_specs("S-F5-POLLING-TAX")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("title: t\nname: own # mine\nrow: X-F1\n", "X-F1"),
        ("name: own\nrows:\n- X-F1\n\n# two\n- X-F2", "X-F2"),
        ("rows: [X-F1,\n  X-F2]\nname: own\n", "X-F2"),
        ('{"name": "own", "row": "X-F1"}', "X-F1"),
        ("title: &row X-F1\nname: own\nrow: *row\n", "X-F1"),
        ("name: own\nfactors: [1\n", "own"),
    ],
    ids=["keys", "list", "flow", "JSON", "alias", "broken elsewhere"],
)
def test_a_spec_is_found_by_its_names_however_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, word: str
) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "own.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert find_specs(word) == [Path("experiments/own.yaml")]
