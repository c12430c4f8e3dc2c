# SPDX-License-Identifier: BSD-3-Clause
"""Fetch a page of a server on this host.

The URL may come from a runner elsewhere, and the agent that fetches it may be root: it must not read a file
(`file:///etc/shadow`), nor reach a host that only this one can reach.
"""

import urllib.request
from http.client import HTTPException
from ipaddress import ip_address
from urllib.error import HTTPError
from urllib.parse import urlsplit

from pollscope.base.errors import UsageError

_MOST_BYTES = 64 << 20


def check_loopback_url(url: str) -> str:
    """Return the URL.

    Raises:
        UsageError: it is no http or https URL of this host.
    """
    try:
        parts = urlsplit(url)
        allowed = parts.scheme in ("http", "https") and _is_loopback(parts.hostname or "") and parts.username is None
    except (ValueError, AttributeError):
        allowed = False
    if not allowed:
        raise UsageError("only http and https to this host are read", f"url {url}", "http://localhost:PORT/PATH")
    return url


def fetch(url: str, seconds: float) -> bytes:
    """Return the body of the answer; redirects are not followed, and no proxy is asked.

    Raises:
        OSError: there is no answer, or one that is too long.
    """
    opener = urllib.request.OpenerDirector()  # build_opener adds handlers for file:, ftp: and data:
    for handler in (urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    request = urllib.request.Request(check_loopback_url(url), headers={"Accept": "text/plain"})
    try:
        with opener.open(request, timeout=seconds) as answer:
            if answer.status != 200:
                raise HTTPError(url, answer.status, answer.reason, answer.headers, None)
            body = bytes(answer.read(_MOST_BYTES + 1))
    except HTTPException as error:
        raise OSError(f"no HTTP answer: {error}") from error
    if len(body) > _MOST_BYTES:
        raise OSError(f"the answer is longer than {_MOST_BYTES >> 20} MiB")
    return body


def _is_loopback(host: str) -> bool:
    return host == "localhost" or ip_address(host).is_loopback
