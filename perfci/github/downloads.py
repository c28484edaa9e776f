"""Fetch a file from the host that GitHub keeps it on: without the token, in bounded size and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from perfci.github.errors import GitHubError, GitHubNoResponse
from perfci.model import PerfciError


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """What perfci takes of a file that anybody may have written."""

    max_bytes: int
    timeout_s: float = 120.0


def download_file(
    http: httpx.Client, url: str, file_label: str, limits: DownloadLimits, now: Callable[[], float]
) -> bytes:
    """The address is as good as a key to the file, so no sentence tells more of it than the host."""
    target = _check_url(url, file_label, http.base_url.scheme)
    request = http.build_request("GET", target, headers={"Accept-Encoding": "identity"})
    deadline = now() + limits.timeout_s
    try:
        response = http.send(request, stream=True)
        try:
            if response.status_code != 200:
                raise GitHubError(
                    f"{target.host} did not hand over {file_label}: {response.status_code}. Try again later.",
                    503,
                )
            return _read_body(response, file_label, limits, lambda: now() > deadline)
        finally:
            response.close()
    except httpx.HTTPError as error:
        raise GitHubNoResponse(
            f"{target.host} broke off {file_label} ({type(error).__name__}). Try again later."
        ) from None


def _read_body(
    response: httpx.Response, file_label: str, limits: DownloadLimits, is_late: Callable[[], bool]
) -> bytes:
    got = bytearray()
    for piece in response.iter_raw():
        got += piece
        if len(got) > limits.max_bytes:
            raise PerfciError(
                f"{file_label} is larger than {limits.max_bytes:,} bytes, the most that perfci takes."
            )
        if is_late():
            raise PerfciError(
                f"{file_label} did not come within {limits.timeout_s:g} s; perfci gave up on it."
            )
    return bytes(got)


def _check_url(url: str, file_label: str, scheme: str) -> httpx.URL:
    """https, but where GitHub itself is asked without it."""
    target = httpx.URL(url)
    if not target.host or target.scheme not in ("https", scheme):
        raise PerfciError(f"GitHub named no https address to fetch {file_label} from.")
    return target
