"""What one job measured, for another one to report: the measuring job runs foreign code and holds no credential."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from perfci.formats import run_document
from perfci.formats.json_limits import require_bounded
from perfci.model import Commit, PerfciError
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.placeholder_comment import NotMeasured
from perfci.service.uploads.send_runs import runs_of_session
from perfci.store import Store

NAME, RUNS = "findings.json", "runs"

MOST_BYTES = 32 * 1024 * 1024
"""Room for twenty thousand verdicts and more: one takes about a kilobyte and a half."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What became of a pull request: findings, or why there are none, with what a machine said of it."""

    project: str
    base: Commit
    head: Commit
    findings: Findings | None = None
    ending: NotMeasured | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        for one in (self.base, self.head):
            if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", one.sha):
                raise PerfciError(f"A full sha was expected, got {one.sha[:80]!r}.")
        if (self.findings is None) == (self.ending is None):
            raise PerfciError("There are findings, or a reason why there are none.")

    @property
    def outcome(self) -> Findings | NotMeasured:
        found = self.findings or self.ending
        assert found is not None
        return found


def hand_over(folder: Path, handed: HandedOver) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(_shape().dump_json(handed) + b"\n")


def hand_over_runs(folder: Path, store: Store, sessions: Iterable[str]) -> None:
    """What was measured, as the run documents that ``perfci upload`` sends."""
    runs = folder / RUNS
    runs.mkdir(parents=True, exist_ok=True)
    for uid in sessions:
        for number, run in enumerate(runs_of_session(store, uid)):
            (runs / f"{uid}-{number}.json").write_text(run_document.write(run), encoding="utf-8")


def take_over(folder: Path) -> HandedOver | None:
    """Read what one job left in a folder for another; nothing where it left nothing."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise PerfciError(f"{path} cannot be read: {error.strerror}") from None
    return handed_over(raw, str(path))


def handed_over(raw: bytes, what: str) -> HandedOver:
    """Read what was measured elsewhere and believe nothing of it: size, shape and numbers are checked.

    Whoever opened the pull request may have written it. Its words are foreign words wherever they are shown, and what
    only the reporting side can know (links, who accepted what) is taken from there.
    """
    if len(raw) > MOST_BYTES:
        raise PerfciError(f"{what} is larger than any comparison: {MOST_BYTES // 2**20} MiB at most were expected")
    try:
        require_bounded(raw, "it")
        handed = _shape().validate_python(json.loads(raw, parse_constant=_refused, parse_float=_finite))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise PerfciError(f"{what} is not what `perfci github compare` writes: {place}: {fault['msg']}") from None
    except (ValueError, RecursionError, PerfciError) as error:
        raise PerfciError(f"{what} is not what `perfci github compare` writes: {error}") from None
    if handed.findings is None:
        return handed
    bare = dataclasses.replace(handed.findings, page="", accept="", accepted="", announced=(), command=(), alike=False)
    return dataclasses.replace(handed, findings=bare)


@cache
def _shape() -> TypeAdapter[HandedOver]:
    return TypeAdapter(HandedOver)


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no number")
    return number
