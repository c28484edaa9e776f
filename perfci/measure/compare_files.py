"""Two files that somebody recorded, judged against each other; nothing is measured or stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from perfci.formats import ImportDefaults, detect_format, read_documents, run_document
from perfci.formats.input_files import read_bytes
from perfci.measure.open_session import OnMessage
from perfci.measure.variant_session import PairedProcesses
from perfci.model import Commit, PerfciError, Run, Series, Verdict
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.recorded_runs import (
    RecordedSeries,
    SeriesKey,
    collect_recorded_series,
    judge_recorded_series,
)
from perfci.verdicts.policy import Policy


@dataclass(frozen=True, slots=True)
class FileComparison:
    """What two recorded runs showed; ``sides`` are all their processes by series, for goals."""

    base: Commit
    head: Commit
    verdicts: Sequence[Verdict]
    sides: dict[Series, PairedProcesses]


def compare_files(base_path: Path, head_path: Path, policy: Policy, on_message: OnMessage) -> FileComparison:
    """Judge the second file against the first."""
    runs = [_read_runs(path, on_message) for path in (base_path, head_path)]
    chosen = [list(dict.fromkeys(run.variant for run in side)) for side in runs]
    of_variants = all(len(side) == 1 for side in chosen) and chosen[0] != chosen[1]
    if of_variants:
        on_message(
            f"the environments differ: {chosen[0][0].label or 'unknown'} → {chosen[1][0].label or 'unknown'}"
        )
    base, head = (collect_recorded_series(side, by_variant=not of_variants) for side in runs)
    if not base.keys() & head.keys():
        raise PerfciError(
            f"{base_path} and {head_path} have no result in common: one holds {_describe_results(base)}, the other {_describe_results(head)}"
        )
    commits = [side[0].commit for side in runs]
    sessions = {run.session for side in runs for run in side}
    shas = (commits[0].sha, commits[1].sha)
    found = judge_recorded_series(base, head, shas, policy, one_session=len(sessions) == 1)
    return FileComparison(
        commits[0],
        commits[1],
        control_false_discoveries(found, FALSE_DISCOVERY_RATE),
        _pair_processes(base, head),
    )


def _read_runs(path: Path, on_message: OnMessage) -> list[Run]:
    """All runs of a file, which have to be of one commit."""
    name = detect_format(path)
    if name == "perfci":
        runs = [run_document.read_run(path)]
    else:
        given = ImportDefaults("files", None if path.is_dir() else _build_content_commit(path))
        runs = [document.run for document in read_documents(path, name, given, on_message)]
    shas = list(dict.fromkeys(run.commit.sha for run in runs))
    if not runs:
        raise PerfciError(f"{path} holds no run")
    if len(shas) > 1:
        raise PerfciError(
            f"{path} holds runs of {len(shas)} commits, among them {shas[0][:10]} and {shas[1][:10]}; a file of one "
            "commit was expected"
        )
    return runs


def _describe_results(results: dict[SeriesKey, RecordedSeries]) -> str:
    names = sorted({one.series.cell for one in results.values()})
    if not names:
        return "nothing"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _build_content_commit(path: Path) -> Commit:
    """A file that names no commit stands for itself: the hash of what it holds tells it from the other one."""
    return Commit(sha256(read_bytes(path)).hexdigest()[:40])


def _pair_processes(
    base: dict[SeriesKey, RecordedSeries], head: dict[SeriesKey, RecordedSeries]
) -> dict[Series, PairedProcesses]:
    return {
        head[key].series: (list(base[key].processes), list(head[key].processes))
        for key in head
        if key in base
    }
