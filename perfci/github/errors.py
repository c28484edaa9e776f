"""What GitHub says when it does not do what was asked, and what a user can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from perfci.github.operations import Operation
from perfci.github.shapes import Unexpected, read
from perfci.model import PerfciError

SECONDARY_WAIT_S = 60.0
"""GitHub's advice for a secondary limit that names no time:
https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api"""


class Unreachable(PerfciError):
    """No connection was made: nothing was done."""


class Unanswered(PerfciError):
    """The connection ended before the answer: nobody knows whether it was done."""


class Refused(PerfciError):
    """GitHub answered, and not with what was asked for; ``after_s`` is how long it wants to be left alone."""

    def __init__(self, sentence: str, status: int, *, limited: bool = False, after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.status, self.limited, self.after_s = status, limited, after_s

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.limited or self.status >= 500

    @property
    def lacks_permission(self) -> bool:
        return self.status == 403 and not self.limited


@dataclass(frozen=True, slots=True)
class Fault:
    """One of the things that GitHub found wrong with a request."""

    message: str = ""
    field: str = ""
    code: str = ""

    def __str__(self) -> str:
        return self.message or f"{self.field} {self.code}".strip()


@dataclass(frozen=True, slots=True)
class Said:
    message: str = ""
    errors: tuple[Fault | str, ...] | str = ()

    def __str__(self) -> str:
        faults = self.errors if isinstance(self.errors, str) else "; ".join(str(one) for one in self.errors)
        return _printable(f"{self.message} ({faults})" if faults else self.message)


def refusal(operation: Operation, where: Mapping[str, str | int], answer: httpx.Response, now: float) -> Refused:
    """The answer as an exception that speaks to whoever asked."""
    said = _said(answer)
    aim, told = operation.aim_at(where), f"{answer.status_code} {said or answer.reason_phrase}".rstrip()
    if is_limit(answer, said):
        return _limit(aim, told, answer, now)
    needs = _needs(operation, answer)
    sentence = {
        401: f"GitHub does not take the token that was to {aim} ({told}): it is wrong, has ended, or was revoked. "
        "Give a new one.",
        403: f"GitHub refused to {aim}: {told}.{needs}",
        404: f"GitHub has nothing there to {aim} ({told}): it does not exist, or the token may not see it.{needs}",
    }.get(answer.status_code, f"GitHub refused to {aim}: {told}.")
    if answer.is_redirect:
        sentence = f"GitHub knows it by another address, so perfci did not {aim}: use the repository's name of today."
    elif answer.is_server_error:
        sentence = f"GitHub could not {aim}: {told}. Try again later; www.githubstatus.com says how GitHub is."
    return Refused(sentence, answer.status_code, after_s=_retry_after(answer))


def is_limit(answer: httpx.Response, said: str) -> bool:
    """Limits come as 429, and as a 403 that otherwise means a missing permission."""
    if answer.status_code == 429:
        return True
    told = "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
    return answer.status_code == 403 and (told or "rate limit" in said.lower())


def _limit(aim: str, told: str, answer: httpx.Response, now: float) -> Refused:
    after_s = _retry_after(answer)
    if after_s is None:
        after_s = max(1.0, _reset(answer) - now) if _spent(answer) else SECONDARY_WAIT_S
    until = datetime.fromtimestamp(now + after_s, UTC)
    sentence = f"GitHub lets perfci {aim} only after {until:%Y-%m-%d %H:%M:%S} UTC: {told}. Try again then."
    return Refused(sentence, answer.status_code, limited=True, after_s=after_s)


def _spent(answer: httpx.Response) -> bool:
    return answer.headers.get("x-ratelimit-remaining") == "0" and _reset(answer) > 0


def _reset(answer: httpx.Response) -> float:
    return _number(answer.headers.get("x-ratelimit-reset", "")) or 0.0


def _retry_after(answer: httpx.Response) -> float | None:
    """In seconds; GitHub sends no dates here."""
    return _number(answer.headers.get("retry-after", ""))


def _number(text: str) -> float | None:
    """No more than ten digits: what is later than every clock is no time."""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


def _needs(operation: Operation, answer: httpx.Response) -> str:
    """GitHub names the permission for some tokens; else it is the one that its documentation names."""
    named = answer.headers.get("x-accepted-github-permissions", "")
    needs = [" and ".join(_named(one)) for one in named.split(";")] if named else operation.needs
    return f" The token needs the permission {_printable(' or '.join(needs))}." if needs else ""


def _named(permissions: str) -> list[str]:
    return [one.strip().replace("=", ": ") for one in permissions.split(",")]


def _said(answer: httpx.Response) -> str:
    try:
        return str(read(Said, answer.content))
    except Unexpected:
        return ""


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]
