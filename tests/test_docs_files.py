# SPDX-License-Identifier: BSD-3-Clause
"""Check what every committed file must and must not contain."""

import re
import subprocess
from pathlib import Path

import pytest

# Written in pieces, so that this file does not hold what it forbids.
HOSTS = ("py" "pi.org", "python" "hosted.org", "de" "b.debian.org", "debian" ".org/debian", "security.de" "bian.org",
         "archive.ub" "untu.com", "ports.ub" "untu.com", "cra" "tes.io/api", "registry.np" "mjs")  # fmt: skip
# Sources that a distribution's own mirror may lack; both come with their hashes.
ELSEWHERE = {"archive.ub" "untu.com": ["apps/pmd/fetch-driver-sdk", "tests/chroot/debian.py"]}  # fmt: skip
SOURCES = (".py", ".c", ".h", ".yml", ".yaml", ".toml", ".cfg", ".sh")
NAMES = ("Makefile", "meson.build", "meson_options.txt", ".clang-format", ".clang-tidy", ".ansible-lint")
# Recorded outputs of other programs are kept as they came, and so are files that are wrong on purpose.
RECORDED = re.compile(r"(^|/)(data|fixtures|golden|testdata|recorded|bad)/")


def tracked(checkout: Path) -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=checkout, capture_output=True, text=True, check=True)
    paths = [checkout / name for name in done.stdout.rstrip("\0").split("\0")]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def is_source(path: Path, checkout: Path) -> bool:
    if RECORDED.search(str(path.relative_to(checkout))):
        return False
    return path.suffix in SOURCES or path.name in NAMES or text_of(path).startswith("#!")


@pytest.mark.parametrize("forbidden", HOSTS)
def test_no_file_names_a_package_host(checkout: Path, forbidden: str) -> None:
    holders = [str(path.relative_to(checkout)) for path in tracked(checkout) if forbidden in text_of(path)]
    assert holders == ELSEWHERE.get(forbidden, [])


def test_no_file_names_a_path_of_this_machine(checkout: Path) -> None:
    pattern = re.compile(re.escape(str(checkout)) + r"\b")
    assert [str(path) for path in tracked(checkout) if pattern.search(text_of(path))] == []


def test_every_source_file_names_its_licence(checkout: Path) -> None:
    sources = [path for path in tracked(checkout) if is_source(path, checkout)]
    assert len(sources) > 20
    bare = [str(path) for path in sources if "SPDX-License-Identifier: BSD-3-Clause" not in text_of(path)[:300]]
    assert bare == []


def test_links_between_documents_lead_somewhere(checkout: Path) -> None:
    dead = []
    for page in (path for path in tracked(checkout) if path.suffix == ".md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page)):
            if "://" not in target and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(checkout)}: {target}")
    assert dead == []


def _anchors(page: Path) -> set[str]:
    """Return what a link may name behind `#`: the headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_to_a_heading_lead_to_one(checkout: Path) -> None:
    dead = []
    for page in (path for path in tracked(checkout) if path.suffix == ".md"):
        for file, anchor in re.findall(r"\]\(([^)#\s:]*\.md|)#([^)\s]+)\)", text_of(page)):
            if anchor not in _anchors(page.parent / file if file else page):
                dead.append(f"{page.relative_to(checkout)}: {file}#{anchor}")
    assert dead == []


def test_every_page_begins_with_its_readers(checkout: Path) -> None:
    for page in sorted((checkout / "docs").rglob("*.md")):
        lines = page.read_text(encoding="utf-8").splitlines()
        first = next(line for line in lines if line and not line.startswith(("#", "<!--")))
        assert re.match(r"For anyone who ", first), f"{page.name}: {first}"


def test_the_readme_is_two_screens_with_one_picture(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
    assert text.count("![") == 1


def test_pages_stay_within_their_limits(checkout: Path) -> None:
    pages = [path for path in tracked(checkout) if path.parent == checkout / "docs" and path.suffix == ".md"]
    assert len(pages) <= 15
    assert sum(len(text_of(page).split()) for page in pages) <= 40_000
