# SPDX-License-Identifier: BSD-3-Clause
"""Check that `make lint` finds each word and each kind of sentence that the house does not write."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import words

# A sentence that breaks each rule, as it would stand in a file of that name.
PLANTED = {
    "anew": ("docs/a.md", "The run begins anew."),
    "in vain": ("apps/a.c", "/* A poll that looks in vain costs 20 ns. */"),
    "for want of": ("docs/a.md", "It is left out for want\nof CPUs."),
    "to and fro": ("pollscope/a.py", "# A line moves to and fro\nNAME = 1\n"),
    "a for per": ("docs/a.md", "It sends 10 packets a second."),
    "comment: What": ("apps/a.c", "/* What a packet takes more where several cores take from its queue */"),
    "canary": ("configs/a.yaml", "canaries: 3"),
    "ground": ("pollscope/a.py", "from pollscope.run.ground_watch import GroundWatch\n"),
    "dear": ("docs/a.md", "The poll is dearer there."),
    "cheap ground": ("docs/a.md", "On cheap CPUs it gains."),
    "told": ("docs/a.md", "A told core wakes."),
    "visit": ("configs/a.yaml", "visit_gap_max_ns: 3"),
    "slice": ("docs/a.md", "The timed slices hold it."),
    "lap": ("apps/a.c", "/* the lap before */"),
    "supply": ("experiments/a.yaml", "rx_supply: 256"),
    "lease": ("docs/a.md", "The lease lapses."),
    "facts": ("pollscope/a.py", "from pollscope.analysis import host_facts\n"),
    "trouble": ("pollscope/a.py", "import trouble\n"),
    "go on": ("pollscope/a.py", "import go_on\n"),
    "same place": ("pollscope/a.py", "import same_place\n"),
    "of before": ("docs/a.md", "Runs of before are read."),
    "the text": ("data/claims/a.yaml", "reason: the text\n  says nothing"),
    "emulated NIC": ("docs/a.md", "The emulated NIC copies."),
    "headless who": ("docs/a.md", "They cost who polls, too."),
    "docstring: What": ("pollscope/a.py", '"""What a run took."""\n'),
}
# Near the patterns, and right.
RIGHT = (
    ("docs/a.md", "A user who measures, and those\nwho read, know it. Who holds the lock? `who` lists logins."),
    ("docs/a.md", "In the background, ground truth and release notes."),
    ("docs/a.md", "A packet per second; a poll takes 20 ns and a core 3 W. A power supply. An overlap. `iommu=pt`"),
    ("pollscope/a.py", 'class V:\n    """Return names."""\n\n    def visit_Name(self) -> None: ...\n'),
    ("playbooks/a.yml", "gather_facts: true # the facts of Ansible"),
    ("pollscope/a.py", "who = 3  # what: a name\n"),
    ("data/papers/a.yaml", "# the text of the page"),
)


@pytest.mark.parametrize("rule", [*(each.name for each in (*words.RULES, words.WHO, words.DOCSTRING))])
def test_a_planted_sentence_is_found(rule: str) -> None:
    path, text = PLANTED[rule]
    found = [each.rule.name for each in words.findings(path, text)]
    assert found == [rule] or (rule == "lease" and "lease" in found)


@pytest.mark.parametrize(("path", "text"), RIGHT)
def test_a_right_sentence_passes(path: str, text: str) -> None:
    assert [str(each) for each in words.findings(path, text)] == []


def test_the_check_fails_with_file_line_and_remedy_until_an_exception_is_listed(tmp_path: Path) -> None:
    """An exception that nothing needs any more fails as well."""

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    def check(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "tests/words.py", *arguments]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    git("init", "--quiet")
    (tmp_path / "tests").mkdir()
    shutil.copy(words.__file__, tmp_path / "tests" / "words.py")
    exceptions = tmp_path / "tests" / "words_exceptions.txt"
    exceptions.write_text("")
    page = tmp_path / "page.md"
    page.write_text("One line.\nIt begins anew.\n")  # not yet known to git
    assert check() == (1, "page.md:2: anew: 'It begins anew.' (write again)\n")
    assert check("tests") == (0, "")
    code, counted = check("--count")
    assert code == 0 and "1  anew" in counted and "1  in all" in counted
    exceptions.write_text("*.md: begins anew\n")
    assert check() == (0, "")
    page.write_text("It begins again.\n")
    code, said = check()
    assert code == 1 and "no finding matches '*.md: begins anew' (delete the line)" in said
