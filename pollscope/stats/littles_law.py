# SPDX-License-Identifier: BSD-3-Clause
"""Compute the number of requests under way from their rate and latency (Little's law).

Little (1961): the mean number of requests in a system is their arrival rate times the mean time that each stays in it,
whatever the distributions are.
"""

import math

BITS_PER_BYTE = 8
NS_PER_S = 1e9


def outstanding_requests(rate_bits_per_s: float, latency_ns: float, request_bytes: float) -> float:
    """Return the mean number of requests under way: rate x latency / size of a request.

    Args:
        rate_bits_per_s: data that the requests move, in bits per second.
        latency_ns: mean time from request to completion.
        request_bytes: data that one request moves.

    Raises:
        ValueError: rate or latency is negative or no number, or the size is not positive.
    """
    for name, value in (("rate_bits_per_s", rate_bits_per_s), ("latency_ns", latency_ns)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}; it must be a number of at least 0")
    if not (math.isfinite(request_bytes) and request_bytes > 0):
        raise ValueError(f"request_bytes is {request_bytes}; it must be a number above 0")
    return rate_bits_per_s * (latency_ns / NS_PER_S) / (request_bytes * BITS_PER_BYTE)
