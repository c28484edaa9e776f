"""Results artifact: files that the untrusted measuring job leaves for the reporting job."""

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
from perfci.formats.run_document import require_json_limits
from perfci.model import Commit, PerfciError
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.not_measured_comment import NotMeasuredReason
from perfci.service.uploads.send_to_server import load_runs_of_session
from perfci.store import Store

RESULTS_FILE, RUNS_FOLDER = "findings.json", "runs"

MAX_BYTES = 32 * 1024 * 1024
"""Maximum size of the results file: over twenty thousand verdicts of about 1.5 KB."""


@dataclass(frozen=True, slots=True)
class PullResults:
    """Results of a pull request: findings, or the reason why there are none, with a detail text."""

    project: str
    base: Commit
    head: Commit
    findings: Findings | None = None
    not_measured: NotMeasuredReason | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        for commit in (self.base, self.head):
            if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit.sha):
                raise PerfciError(f"A full sha was expected, got {commit.sha[:80]!r}.")
        if (self.findings is None) == (self.not_measured is None):
            raise PerfciError("There are findings, or a reason why there are none.")

    @property
    def findings_or_reason(self) -> Findings | NotMeasuredReason:
        outcome = self.findings or self.not_measured
        assert outcome is not None
        return outcome


def write_pull_results(folder: Path, results: PullResults) -> None:
    """Write the results file into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULTS_FILE).write_bytes(_get_type_adapter().dump_json(results) + b"\n")


def write_run_documents(folder: Path, store: Store, sessions: Iterable[str]) -> None:
    """Write measured sessions as the run documents that ``perfci upload`` sends."""
    runs = folder / RUNS_FOLDER
    runs.mkdir(parents=True, exist_ok=True)
    for uid in sessions:
        for number, run in enumerate(load_runs_of_session(store, uid)):
            (runs / f"{uid}-{number}.json").write_text(run_document.dump_run(run), encoding="utf-8")


def read_pull_results_if_any(folder: Path) -> PullResults | None:
    """Read the results file of a folder; None if there is none."""
    path = folder / RESULTS_FILE
    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PerfciError(f"{path} cannot be read: {error.strerror}") from None
    return parse_pull_results(raw, str(path))


def parse_pull_results(raw: bytes, source: str) -> PullResults:
    """Parse untrusted results: size, shape and numbers are checked.

    The author of the pull request may have written them. Texts are escaped wherever they are shown, and
    fields that only the reporting side can know (links, acceptances) are cleared.
    """
    if len(raw) > MAX_BYTES:
        raise PerfciError(
            f"{source} is larger than any comparison: {MAX_BYTES // 2**20} MiB at most were expected"
        )
    try:
        require_json_limits(raw, "it")
        results = _get_type_adapter().validate_python(
            json.loads(raw, parse_constant=_reject_constant, parse_float=_parse_finite)
        )
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise PerfciError(
            f"{source} is not what `perfci github compare` writes: {place}: {fault['msg']}"
        ) from None
    except (ValueError, RecursionError, PerfciError) as error:
        raise PerfciError(f"{source} is not what `perfci github compare` writes: {error}") from None
    if results.findings is None:
        return results
    trusted = dataclasses.replace(
        results.findings,
        report_url="",
        accept_command="",
        acceptance="",
        expected_changes=(),
        reproduce_command=(),
        identical_inputs=False,
        separate_runs=None,
    )
    return dataclasses.replace(results, findings=trusted)


@cache
def _get_type_adapter() -> TypeAdapter[PullResults]:
    return TypeAdapter(PullResults)


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no number")
    return number
