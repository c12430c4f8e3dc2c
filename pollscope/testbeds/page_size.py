# SPDX-License-Identifier: BSD-3-Clause
"""Make the arguments with which EAL takes memory pages of one size and no others."""

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
    # With --in-memory EAL takes pages of every size that there are. Here, too, no file outlives the process.
    return ["--huge-dir", folder, "--huge-unlink", "--no-shconf"]
