"""Errors of GitHub's API, with what the user can do about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from perfci.github.api_operations import GitHubOperation
from perfci.github.payloads import UnexpectedPayload, parse_payload
from perfci.model import PerfciError

SECONDARY_WAIT_S = 60.0
"""GitHub's advice for a secondary limit that names no time:
https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api"""


class GitHubUnreachable(PerfciError):
    """No connection could be made, so nothing was done."""


class GitHubNoResponse(PerfciError):
    """The connection ended before a response came, so it is unknown whether the request was carried out."""


class GitHubError(PerfciError):
    """An error response of GitHub; ``retry_after_s`` is the wait that it asks for."""

    def __init__(
        self, message: str, status: int, *, is_rate_limited: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.is_rate_limited, self.retry_after_s = status, is_rate_limited, retry_after_s

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.is_rate_limited or self.status >= 500

    @property
    def lacks_permission(self) -> bool:
        """Whether the token lacks a permission: a 403 that is no rate limit."""
        return self.status == 403 and not self.is_rate_limited


@dataclass(frozen=True, slots=True)
class ValidationFault:
    """One fault that GitHub names in a rejected request."""

    message: str = ""
    field: str = ""
    code: str = ""

    def __str__(self) -> str:
        return self.message or f"{self.field} {self.code}".strip()


@dataclass(frozen=True, slots=True)
class ErrorBody:
    message: str = ""
    errors: tuple[ValidationFault | str, ...] | str = ()

    def __str__(self) -> str:
        faults = self.errors if isinstance(self.errors, str) else "; ".join(str(part) for part in self.errors)
        return _printable(f"{self.message} ({faults})" if faults else self.message)


def build_github_error(
    operation: GitHubOperation, path_values: Mapping[str, str | int], response: httpx.Response, now: float
) -> GitHubError:
    """Build the exception for an error response, with a sentence that says what to do."""
    try:
        message = str(parse_payload(ErrorBody, response.content))
    except UnexpectedPayload:
        message = ""
    aim = operation.describe(path_values)
    status_text = f"{response.status_code} {message or response.reason_phrase}".rstrip()
    if is_rate_limit_response(response, message):
        return _rate_limit_error(aim, status_text, response, now)
    needs = _permission_hint(operation, response)
    sentence = {
        401: f"GitHub does not take the token that was to {aim} ({status_text}): it is wrong, has ended, "
        "or was revoked. Give a new one.",
        403: f"GitHub refused to {aim}: {status_text}.{needs}",
        # GitHub hides what a token may not see as if it did not exist:
        # https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api#404-not-found-for-an-existing-resource
        404: f"GitHub has nothing there to {aim} ({status_text}): it does not exist, or the token may "
        f"not see it.{needs}",
    }.get(response.status_code, f"GitHub refused to {aim}: {status_text}.")
    if response.is_redirect:
        sentence = f"GitHub moved it to another address, so perfci did not {aim}: use its current name."
    elif response.is_server_error:
        sentence = f"GitHub could not {aim}: {status_text}. "
        sentence += "Try again later; www.githubstatus.com says how GitHub is."
    return GitHubError(sentence, response.status_code, retry_after_s=_retry_after(response))


def is_rate_limit_response(response: httpx.Response, message: str) -> bool:
    """Whether a response is a rate limit: a 429, or a 403 with the headers or the text of one.

    https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
    """
    if response.status_code == 429:
        return True
    has_rate_headers = (
        "retry-after" in response.headers or response.headers.get("x-ratelimit-remaining") == "0"
    )
    return response.status_code == 403 and (has_rate_headers or "rate limit" in message.lower())


def _rate_limit_error(action: str, status_text: str, response: httpx.Response, now: float) -> GitHubError:
    after_s = _retry_after(response)
    if after_s is None:
        # A spent quota names its end; a secondary limit, which counts bursts, names nothing.
        reset_at = _parse_seconds(response.headers.get("x-ratelimit-reset", "")) or 0.0
        is_quota_spent = response.headers.get("x-ratelimit-remaining") == "0" and reset_at > 0
        after_s = max(1.0, reset_at - now) if is_quota_spent else SECONDARY_WAIT_S
    until = datetime.fromtimestamp(now + after_s, UTC)
    moment = f"{until:%Y-%m-%d %H:%M:%S} UTC"
    sentence = f"GitHub rate limit: perfci can {action} after {moment}: {status_text}. Try again then."
    return GitHubError(sentence, response.status_code, is_rate_limited=True, retry_after_s=after_s)


def _retry_after(answer: httpx.Response) -> float | None:
    """In seconds; GitHub sends no dates here."""
    return _parse_seconds(answer.headers.get("retry-after", ""))


def _parse_seconds(text: str) -> float | None:
    """No more than ten digits: what is later than every clock is no time."""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


def _permission_hint(operation: GitHubOperation, answer: httpx.Response) -> str:
    """GitHub names the permission for some tokens; else it is the one that its documentation names."""
    # "issues=write, pull_requests=write; contents=read" is two permissions together, or a third alone.
    named = answer.headers.get("x-accepted-github-permissions", "")
    needs = list(operation.permissions)
    if named:
        needs = []
        for together in named.split(";"):
            parts = [part.strip().replace("=", ": ") for part in together.split(",")]
            needs.append(" and ".join(parts))
    return f" The token needs the permission {_printable(' or '.join(needs))}." if needs else ""


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]
