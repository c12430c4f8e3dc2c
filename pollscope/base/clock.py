# SPDX-License-Identifier: BSD-3-Clause
"""The present time in the form of all records."""

from datetime import UTC, datetime


def utc_now() -> str:
    """Return the present time as ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
