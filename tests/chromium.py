# SPDX-License-Identifier: BSD-3-Clause
"""Drive a headless Chromium for tests: measures of a laid-out page, screenshots, and pages on paper."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 120  # seconds on a loaded machine; a page usually takes two


class Chromium:
    """The Chromium of this host, with a profile of its own below `folder`."""

    def __init__(self, program: str, folder: Path) -> None:
        self._folder = folder
        self._command = [program, "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        self._command += [f"--user-data-dir={folder / 'profile'}", "--disable-dev-shm-usage"]
        if os.geteuid() == 0:
            self._command.append("--no-sandbox")  # Chromium refuses to run with it as root; it opens our own pages

    def measured(self, page: str, width_px: int, script: str) -> Any:
        """Return what a JavaScript function body returns for a page's `document` in a window of that width.

        The page is laid out in a frame, because a headless window has a least width above that of a phone.
        """
        frame = (
            f'<iframe id="page" style="border:0;width:{width_px}px;height:900px" srcdoc="{html.escape(page)}"></iframe>'
        )
        call = (
            f"JSON.stringify((function (document, window) {{ {script} }})(frame.contentDocument, frame.contentWindow))"
        )
        onload = f'let frame = document.getElementById("page"); document.getElementById("out").textContent = {call};'
        outer = f'<!DOCTYPE html><body><pre id="out"></pre>{frame}<script>window.onload = () => {{ {onload} }}</script>'
        path = self._folder / "frame.html"
        path.write_text(outer, encoding="utf-8")
        shown = self._run("--dump-dom", path.as_uri())
        found = re.search(r'<pre id="out">(.+?)</pre>', shown, re.DOTALL)
        assert found, f"the script did not end: {script}"
        return json.loads(html.unescape(found[1]))

    def console(self, page: Path) -> list[str]:
        """Return the console's lines while the page loads: errors of its scripts, and files that it could not load."""
        shown = self._done("--enable-logging=stderr", "--dump-dom", page.as_uri()).stderr
        return [line for line in shown.splitlines() if ":CONSOLE" in line]

    def printed(self, page: Path) -> bytes:
        """Return the page as PDF."""
        target = self._folder / "page.pdf"
        self._run(f"--print-to-pdf={target}", "--no-pdf-header-footer", page.as_uri())
        return target.read_bytes()

    def screenshot(self, page: Path, target: Path, width_px: int, height_px: int) -> None:
        """Return a picture of the top of the page."""
        self._run(f"--window-size={width_px},{height_px}", f"--screenshot={target}", page.as_uri())

    def _run(self, *arguments: str) -> str:
        return self._done(*arguments).stdout

    def _done(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return done


def chromium_or_skip(folder: Path) -> Chromium:
    """Return this host's Chromium; skip the test if there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed: the page cannot be laid out (apt-get install chromium)")
    return Chromium(program, folder)


def pages_of(pdf: bytes) -> int:
    """Return the number of pages of a PDF from Chromium."""
    return len(re.findall(rb"/Type /Page\b", pdf))
