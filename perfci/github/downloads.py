"""Fetch a file from the host that GitHub keeps it on: without the token, in bounded size and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from perfci.github.errors import Refused, Unanswered
from perfci.model import PerfciError


@dataclass(frozen=True, slots=True)
class Limits:
    """What perfci takes of a file that anybody may have written."""

    most_bytes: int
    within_s: float = 120.0


def download(door: httpx.Client, url: str, what: str, limits: Limits, now: Callable[[], float]) -> bytes:
    """The address is as good as a key to the file, so no sentence tells more of it than the host."""
    target = _checked(url, what, door.base_url.scheme)
    request = door.build_request("GET", target, headers={"Accept-Encoding": "identity"})
    deadline = now() + limits.within_s
    try:
        found = door.send(request, stream=True)
        try:
            if found.status_code != 200:
                raise Refused(f"{target.host} did not hand over {what}: {found.status_code}. Try again later.", 503)
            return _read(found, what, limits, lambda: now() > deadline)
        finally:
            found.close()
    except httpx.HTTPError as error:
        raise Unanswered(f"{target.host} broke off {what} ({type(error).__name__}). Try again later.") from None


def _read(found: httpx.Response, what: str, limits: Limits, is_late: Callable[[], bool]) -> bytes:
    got = bytearray()
    for piece in found.iter_raw():
        got += piece
        if len(got) > limits.most_bytes:
            raise PerfciError(f"{what} is larger than {limits.most_bytes:,} bytes, the most that perfci takes.")
        if is_late():
            raise PerfciError(f"{what} did not come within {limits.within_s:g} s; perfci gave up on it.")
    return bytes(got)


def _checked(url: str, what: str, scheme: str) -> httpx.URL:
    """https, but where GitHub itself is asked without it."""
    target = httpx.URL(url)
    if not target.host or target.scheme not in ("https", scheme):
        raise PerfciError(f"GitHub named no https address to fetch {what} from.")
    return target
