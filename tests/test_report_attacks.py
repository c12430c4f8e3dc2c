# SPDX-License-Identifier: BSD-3-Clause
"""Attack the reader of a page: scripts in every text that a run folder of a stranger brings along."""

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from chromium import Chromium
from test_figures import tax_trials

from pollscope.analysis.figures import figures_of, save_figure
from pollscope.analysis.figures.files import Target
from pollscope.analysis.gallery import gallery_html, paper_gallery
from pollscope.analysis.report import report_html
from pollscope.store.run_folder import RunFolder, read_run

# These long names leave a figure no room; matplotlib warns about it.
pytestmark = pytest.mark.filterwarnings("ignore:constrained_layout not applied")
# Ends an attribute, an element, a style, a script, a comment or CDATA, and then runs a script.
ATTACK = (
    "\"'></title></text></style></script></svg>--> ]]><script>document.title = 'attacked'</script>"
    "<img src=x onerror=\"document.title = 'attacked'\">{{ 7 * 7 }} $\\frac{$ {x:.1f} "
)
SHORT_ATTACK = "$\\frac{$</text><script>document.title='attacked'</script>"
ROLE = f"\"><script>document.title = 'attacked'</script> {ATTACK}"


class Active(HTMLParser):
    """Collects what a browser would run, load or follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "object", "embed", "form", "base", "foreignobject", "link"):
            self.found.append(tag)
        for name, value in attrs:
            link = name in ("href", "src", "xlink:href") and not (value or "").startswith("#")
            if name.startswith("on") or link:
                self.found.append(f"{tag} {name}={value}")

    handle_startendtag = handle_starttag


def active(html: str) -> list[str]:
    parser = Active()
    parser.feed(html)
    return parser.found


def hostile_run(folder: Path, **changes: Any) -> RunFolder:
    """Return a run in which every text that its author chooses is an attack."""
    trials = []
    for level, size in itertools.product(("on", "off"), ("a", "b")):
        for repeat in range(3):
            factors = {f"knob.{ATTACK}": level, "queues": 1, "frame": f"{size} {SHORT_ATTACK}"}
            name = f"{level}{size}"
            one = synthetic.trial(f"{ATTACK}{name}{repeat}", name, repeat, factors, pps=1e6)
            one["result"]["dut"]["lcores"][0]["polls"]["empty"] *= 2 if level == "on" else 1
            one["result"]["dut"]["lcores"][0]["pmu"] = {"absent": ATTACK}
            trials.append(one)
    trials.append(synthetic.trial("failed") | {"status": "failed", "reason": ATTACK, "point": ATTACK})
    host_checks = []
    for number in range(4):
        one = synthetic.host_check(number, block=ATTACK, why=ATTACK)
        one["hosts"][0] |= {"role": ROLE, "pair": ROLE}
        host_checks.append(one)
    claim = {
        "id": "attack",
        "statement": ATTACK,
        "metric": "tax_share",
        "predicate": {"kind": "within", "low": 0.0, "high": 1.0},
    }
    show = {"x": "frame", "y": ["tax_share"], "title": ATTACK}
    return read_run(
        synthetic.write_run(
            folder / "<img src=x onerror=alert(1)>",
            trials,
            host_checks,
            run_id=ATTACK,
            title=ATTACK,
            rows=[],
            row=None,
            paper=None,
            spec_text=ATTACK,
            host={"hostname": ATTACK, "cpu_model": ATTACK, ATTACK: ATTACK, "governor": {"absent": ATTACK}},
            node_hello={"dpdk": ATTACK, "tsc_hz": synthetic.TSC_HZ, "absent": {ATTACK: ATTACK}},
            testbed={"name": ATTACK, "kind": "loopback", "shared_tsc": True},
            overrides={"quick": True, "set": [ATTACK], ATTACK: ATTACK},
            warnings=[ATTACK],
            left_out=[{"point": ATTACK, "reason": ATTACK}],
            collectors={ATTACK: {"absent": ATTACK}},
            knobs_before={ATTACK: {"value": ATTACK}},
            knobs_after={ATTACK: {"value": "other"}},
            started_utc=ATTACK,
            **({"spec": {"name": "synthetic", "claims": [claim], "show": [show]}} | changes),
        )
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return hostile_run(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def run_of_a_hostile_spec(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a run whose spec has a name that no spec may have."""
    return hostile_run(tmp_path_factory.mktemp("named"), spec_name=ATTACK, spec={"name": ATTACK})


@pytest.fixture(scope="module")
def page(run: RunFolder, run_of_a_hostile_spec: RunFolder) -> str:
    return report_html([run, run_of_a_hostile_spec])


def test_no_text_of_a_run_becomes_active_in_its_report(page: str) -> None:
    assert active(page) == ["script"], "the figures' own"
    assert "Levels of" in page
    assert "over the run" in page
    assert "&lt;script&gt;document.title" in page, "the attacks are shown as text"
    assert page.count("{{ 7 * 7 }}") > 10, "no template evaluates them"


def test_no_text_of_a_run_becomes_a_part_of_an_id(page: str) -> None:
    identifiers = re.findall(r'\sid="([^"]*)"', page)
    assert [each for each in identifiers if not re.fullmatch(r"[\w.-]+", each)] == []


def test_no_text_of_a_run_becomes_active_in_the_gallery(tmp_path: Path) -> None:
    hostile: dict[str, Any] = {"run_id": ATTACK, "host": {"cpu_model": ATTACK}, "testbed": {"name": ATTACK}}
    run = synthetic.run_of(tmp_path / "run", tax_trials(), **hostile)
    html = gallery_html([paper_gallery("socc19", [run], {"S-F8": ATTACK})])
    assert "<svg" in html
    assert active(html) == ["script"]


def test_no_text_of_a_run_becomes_active_in_a_figure_file(run: RunFolder, tmp_path: Path) -> None:
    for figure in figures_of(run):
        paths = save_figure(figure, run, Target(tmp_path, "figure", ("svg",)))
        assert active(paths[0].read_text(encoding="utf-8")) == []


def test_a_browser_runs_no_script_of_a_run(chromium: Chromium, page: str) -> None:
    counts = "['img', '.tools'].map(each => document.querySelectorAll(each).length)"
    title, images, tools = chromium.measured(page, 1280, f"return [document.title, ...{counts}];")
    assert title != "attacked"
    assert images == 0
    assert tools == page.count("<figure ") > 0, "the page's own script runs"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "planted",
    [
        "<script>document.title = 'attacked'</script>",
        "<script src='data:text/javascript,document.title=\"attacked\"'></script>",
        "<svg><script>document.title = 'attacked'</script></svg>",
        "<img src=x onerror=\"document.title = 'attacked'\">",
        "<iframe srcdoc=\"<script>parent.document.title = 'attacked'</script>\"></iframe>",
        "<style>title { display: block }</style><style>body { --planted: attacked }</style>",
    ],
)
def test_the_policy_stops_what_gets_past_the_escaping(chromium: Chromium, page: str, planted: str) -> None:
    script = "return [document.title, window.getComputedStyle(document.body).getPropertyValue('--planted')];"
    title, style = chromium.measured(page.replace("<header", f"{planted}<header", 1), 1280, script)
    assert title != "attacked"
    assert style == ""
