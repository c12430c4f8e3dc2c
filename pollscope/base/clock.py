# SPDX-License-Identifier: BSD-3-Clause
"""The moment, as it is written down."""

from datetime import UTC, datetime


def utc_now() -> str:
    """Return the present time as ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
