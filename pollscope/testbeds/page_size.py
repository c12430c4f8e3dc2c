# SPDX-License-Identifier: BSD-3-Clause
"""Make the EAL arguments that allow memory pages of one size only."""

PAGE_BYTES = {"4 KiB": 4 << 10, "2 MiB": 2 << 20, "1 GiB": 1 << 30}
SMALL = "4 KiB"


def page_arguments(page_size: str, folder: str, mib: int) -> list[str]:
    """Return the arguments for EAL.

    Args:
        page_size: a key of PAGE_BYTES.
        folder: of a hugetlbfs of this page size; not for small pages.
        mib: memory to take in small pages, all of it at the start.
    """
    if page_size == SMALL:
        return ["--no-huge", "-m", str(mib)]
    # With --in-memory EAL takes pages of every size that there are. No file outlives the process here either.
    return ["--huge-dir", folder, "--huge-unlink", "--no-shconf"]
