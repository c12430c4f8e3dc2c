# SPDX-License-Identifier: BSD-3-Clause
"""Check that `make lint` fails at words and sentences that the house does not write."""

import shutil
import subprocess
import sys
from pathlib import Path

import words


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
