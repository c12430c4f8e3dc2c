# SPDX-License-Identifier: BSD-3-Clause
"""The report in a browser: on a phone, a tablet and a desk, in the dark, by keyboard, and on paper."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium, pages_of
from test_figures import poll_trials, run_of, tax_trials

from pollscope.analysis import report
from pollscope.analysis.run_section import run_section
from pollscope.store.run_folder import read_run

WIDTHS_PX = (390, 768, 1280)
PAPER_PX = 688  # of A4 between margins of 14 mm
LEAST_TYPE_PX = 9.0
LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
UNFOLD = "document.querySelectorAll('details').forEach(each => each.open = true);"
# Elements that reach beyond the page and are in no scrolling box of their own.
CUT = """
  const width = document.documentElement.clientWidth;
  return [...document.body.querySelectorAll('*')]
    .filter(each => !each.closest('%s') && !each.closest('svg *, thead'))
    .filter(each => each.getBoundingClientRect().right > width + 1)
    .map(each => each.outerHTML.slice(0, 200));
"""
CONTRASTS = """
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = part => part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4;
  const weights = [0.2126, 0.7152, 0.0722];
  const light = colour => weights.reduce((sum, weight, i) => sum + weight * linear(numbers(colour)[i]), 0);
  const clear = colour => numbers(colour)[3] === 0;
  const behind = each => {
    while (each && clear(window.getComputedStyle(each).backgroundColor)) each = each.parentElement;
    return each ? window.getComputedStyle(each).backgroundColor : 'rgb(255, 255, 255)';
  };
  const texts = 'p, li, td, th, dt, dd, h1, h2, h3, h4, span, small, summary, a, code, svg text';
  return [...document.body.querySelectorAll(texts)]
    .filter(each => each.textContent.trim())
    .map(each => {
      const style = window.getComputedStyle(each);
      const [one, two] = [light(each.closest('svg') ? style.fill : style.color), light(behind(each))];
      const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
      return [ratio, each.outerHTML.slice(0, 200)];
    });
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of two rows, with points that were left out and texts without a place to break a line."""
    folder, runs = tmp_path_factory.mktemp("runs"), []
    left_out = [{"point": "queues=4096,load_of_max=1.0", "reason": "x" * 120}]
    meta: dict[str, Any] = {"left_out": left_out, "host": {"cpu_model": "y" * 150}, "spec_text": "z" * 300}
    for row, trials in {"S-F5": tax_trials(), "S-F8": poll_trials()}.items():
        for trial in trials:
            polls = trial["result"]["dut"]["lcores"][0]["polls"]  # equal repeats have no bounded interval
            polls["empty"] = round(polls["empty"] * (1 + trial["repeat"] / 1e6))
        runs.append(run_of(folder / row, row, trials, run_id=f"run-{row}", **meta))
    return report.report_html(runs)


def altered(page: str, old: str, new: str) -> str:
    """Return the page with a change that its policy would refuse, and without the policy."""
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', page)
    assert policy is not None
    return page.replace(policy[0], "").replace(old, new)


@pytest.mark.thorough
@pytest.mark.parametrize("width_px", WIDTHS_PX)
def test_the_page_never_scrolls_sideways(chromium: Chromium, page: str, width_px: int) -> None:
    script = f"{UNFOLD} return [document.documentElement.scrollWidth, document.documentElement.clientWidth];"
    scrolled, seen = chromium.measured(page, width_px, script)
    assert (scrolled, seen) == (width_px, width_px)
    assert chromium.measured(page, width_px, UNFOLD + CUT % ".wide, pre, .skip") == []


@pytest.mark.thorough
def test_figures_on_a_phone_scroll_in_their_box_and_can_be_read(chromium: Chromium, page: str) -> None:
    script = """return [...document.querySelectorAll('figure')].map(figure => {
      const box = figure.querySelector('.wide');
      const type = [...figure.querySelectorAll('svg text')].map(text =>
        parseFloat(window.getComputedStyle(text).fontSize) * text.getScreenCTM().a).filter(each => each > 0);
      return [box.scrollWidth, box.clientWidth, Math.min(...type)];
    });"""
    for inside, box, type_px in chromium.measured(page, WIDTHS_PX[0], script):
        assert box < WIDTHS_PX[0] < inside
        assert type_px > LEAST_TYPE_PX


@pytest.mark.thorough
@pytest.mark.parametrize("dark", [False, True])
def test_all_text_stands_out_from_what_is_behind_it(chromium: Chromium, page: str, dark: bool) -> None:
    query = "(prefers-color-scheme: dark)"
    assert query in page
    shown = altered(page, query, "all" if dark else "not all")
    found = chromium.measured(shown, WIDTHS_PX[1], UNFOLD + CONTRASTS)
    assert len(found) > 100
    assert [(ratio, what) for ratio, what in found if ratio < LEAST_CONTRAST] == []


@pytest.mark.thorough
def test_every_box_that_scrolls_is_reached_by_keyboard_and_named(chromium: Chromium, page: str) -> None:
    script = """return [...document.querySelectorAll('*')]
      .filter(each => ['auto', 'scroll'].includes(window.getComputedStyle(each).overflowX))
      .filter(each => each.tabIndex !== 0 || !(each.ariaLabel || each.ariaLabelledByElements))
      .map(each => each.outerHTML.slice(0, 200));"""
    assert chromium.measured(page, WIDTHS_PX[0], UNFOLD + script) == []


@pytest.mark.thorough
def test_the_tab_key_follows_the_page_order_with_visible_focus(chromium: Chromium, page: str) -> None:
    script = """window.focus();
      return [...document.querySelectorAll('a[href], button, summary, [tabindex="0"]')]
        .filter(each => each.getClientRects().length)
        .map(each => {
          each.focus({focusVisible: true});
          const style = window.getComputedStyle(each);
          const by = document.getElementById(each.getAttribute('aria-labelledby'));
          const name = each.ariaLabel || (by || each).textContent;
          return [document.activeElement === each, each.tabIndex, style.outlineStyle, style.outlineWidth, name.trim()];
        });"""
    found = chromium.measured(page, WIDTHS_PX[2], UNFOLD + script)
    assert found[0][-1] == "To the contents"
    assert len(found) > 40
    assert [each for each in found if each[:4] != [True, 0, "solid", "2px"] or not each[4]] == []


@pytest.mark.thorough
def test_boxes_and_sections_have_names_of_their_own(chromium: Chromium, page: str) -> None:
    script = """return [...document.querySelectorAll('[role=region], section, nav, aside')].map(each =>
      each.ariaLabel || each.getAttribute('aria-labelledby') || (each.querySelector('h2') || {}).textContent);"""
    names = chromium.measured(page, WIDTHS_PX[2], script)
    assert all(names)
    regions = [name for name in names if names.count(name) > 1]
    assert regions == []


@pytest.mark.thorough
def test_every_figure_is_described_by_words_that_are_there(chromium: Chromium, page: str) -> None:
    script = """return [...document.querySelectorAll('figure svg')].map(svg =>
      [svg.getAttribute('aria-label'), document.getElementById(svg.getAttribute('aria-describedby')).textContent]);"""
    found = chromium.measured(page, WIDTHS_PX[0], script)
    assert [label for label, _ in found] == [
        "S-F5. Useful cycles and polling tax of one core against offered load",
        "S-F8. Poll rate of one core without traffic against the number of RX queues",
    ]
    assert all("values, from" in words for _, words in found)


@pytest.mark.thorough
def test_the_pages_scripts_print_nothing_to_the_console(chromium: Chromium, page: str, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    planted = altered(page, "</body>", "<script>console.error('seen')</script></body>")
    target.write_text(planted, encoding="utf-8")
    said = chromium.console(target)
    target.write_text(page, encoding="utf-8")
    assert chromium.console(target) == [], "nor does its policy refuse any of its own parts"
    assert len(said) == 1
    assert "seen" in said[0]


def test_every_figure_is_drawn_and_has_named_buttons(chromium: Chromium, page: str) -> None:
    script = """return [...document.querySelectorAll('figure')].map(figure =>
      [figure.querySelector('svg').getBoundingClientRect().height, figure.querySelector('svg').ariaLabel,
       [...figure.querySelectorAll('.tools button')].map(each => each.ariaLabel),
       figure.querySelectorAll('use').length]);"""
    found = chromium.measured(page, WIDTHS_PX[2], script)
    assert page.count("</title></use>") > 10, "without the script marks have titles"
    assert len(found) == page.count("<figure ") == 2
    for height, name, buttons, marks in found:
        assert height > 100
        assert buttons == [f"{words}: {name}" for words in ("Zoom in", "Zoom out", "Show all")]
        assert marks > 0


@pytest.mark.thorough
def test_keys_go_from_mark_to_mark_and_zoom(chromium: Chromium, page: str) -> None:
    script = """const figure = document.getElementById('r1-s-f8-figure');
      const [box, svg, readout] = ['.wide', 'svg', '.readout'].map(each => figure.querySelector(each));
      const press = key => {
        box.dispatchEvent(new window.KeyboardEvent('keydown', {key, cancelable: true}));
        return [readout.textContent, readout.getAttribute('role'), svg.getAttribute('viewBox')];
      };
      const first = [readout.textContent, readout.getAttribute('role'), svg.getAttribute('viewBox')];
      return [first, ...['ArrowRight', 'ArrowRight', 'ArrowLeft', '+', '-', '+', '0'].map(press)];"""
    first, one, two, back, *zoomed = chromium.measured(page, WIDTHS_PX[2], script)
    assert first[:2] == [first[0], "status"]
    assert "arrow keys" in first[0]
    assert "RX queues polled by the core: " in one[0]
    assert "95 %: " in one[0]
    assert "n = " in one[0]
    assert one[0] == back[0] != two[0]
    widths = [float(view.split()[2]) for _, _, view in (first, *zoomed)]
    assert widths[1] == widths[3] == pytest.approx(widths[0] / 1.5)
    assert widths[2] == widths[4] == widths[0]


@pytest.mark.thorough
def test_pointing_near_a_mark_shows_its_values(chromium: Chromium, page: str) -> None:
    script = """const figure = document.getElementById('r1-s-f8-figure');
      const area = figure.querySelector('g[id*="marks-0-0"] use').getBoundingClientRect();
      const at = {clientX: area.x + area.width / 2 + 5, clientY: area.y + area.height / 2 - 5};
      figure.querySelector('svg').dispatchEvent(new window.PointerEvent('pointermove', at));
      return figure.querySelector('.readout').textContent;"""
    assert "n = " in chromium.measured(page, WIDTHS_PX[2], script)


@pytest.mark.thorough
def test_headings_go_down_one_level_at_a_time(chromium: Chromium, page: str) -> None:
    script = "return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(each => Number(each.tagName[1]));"
    levels = chromium.measured(page, WIDTHS_PX[1], script)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


@pytest.mark.thorough
def test_on_paper_no_table_is_cut_and_buttons_are_missing(chromium: Chromium, page: str) -> None:
    assert "@media print" in page
    on_paper = altered(page, "@media print", "@media all")
    assert chromium.measured(on_paper, PAPER_PX, UNFOLD + CUT % ".skip") == []
    script = "return [...document.querySelectorAll('.tools')].map(each => window.getComputedStyle(each).display);"
    assert chromium.measured(on_paper, PAPER_PX, script) == ["none", "none"]


@pytest.mark.thorough
def test_21_runs_are_under_40_pages_on_paper(
    chromium: Chromium, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded runs, with all that a noisy host gives to say, in turn; each is analysed once."""
    runs = [read_run(path.parent) for path in sorted((checkout / "data" / "runs").glob("*/run.json"))]
    sections = {run.run_id: run_section(run, number) for number, run in enumerate(runs)}
    monkeypatch.setattr(report, "run_section", lambda run, _number: sections[run.run_id])
    target = tmp_path / "page.html"
    target.write_text(report.report_html([runs[number % len(runs)] for number in range(21)]), encoding="utf-8")
    assert 10 < pages_of(chromium.printed(target)) < 40
