"""Compare two recorded files; nothing is measured or stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from perfci.formats import run_document
from perfci.formats.bounded_files import read_decompressed
from perfci.formats.format_registry import detect_format, read_imported_runs
from perfci.formats.format_types import ImportDefaults
from perfci.history.complete_process_pairs import PairedProcesses
from perfci.measure.open_measurement_session import OnMessage
from perfci.model import Commit, PerfciError, Run, Series, Verdict
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.judge_recorded_runs import (
    RecordedSeries,
    SeriesKey,
    collect_recorded_series,
    judge_recorded_series,
)
from perfci.verdicts.judging_policy import Policy


@dataclass(frozen=True, slots=True)
class FileComparison:
    """The result of comparing two recorded runs; ``sides`` holds all their processes by series, for goals."""

    base: Commit
    head: Commit
    verdicts: Sequence[Verdict]
    sides: dict[Series, PairedProcesses]


def compare_files(base_path: Path, head_path: Path, policy: Policy, on_message: OnMessage) -> FileComparison:
    """Judge the second file against the first."""
    runs = [_read_runs(path, on_message) for path in (base_path, head_path)]
    variants = [list(dict.fromkeys(run.variant for run in side)) for side in runs]
    # One variant on each side and not the same one: the variant is compared, so it is no part of a series.
    differ = all(len(side) == 1 for side in variants) and variants[0] != variants[1]
    if differ:
        labels = [side[0].label or "unknown" for side in variants]
        on_message(f"the environments differ: {labels[0]} → {labels[1]}")
    base, head = (collect_recorded_series(side, by_variant=not differ) for side in runs)
    if not base.keys() & head.keys():
        raise PerfciError(
            f"{base_path} and {head_path} have no result in common: one holds {_describe_results(base)}, "
            f"the other {_describe_results(head)}"
        )
    commits = [side[0].commit for side in runs]
    sessions = {run.session for side in runs for run in side}
    shas = (commits[0].sha, commits[1].sha)
    verdicts = judge_recorded_series(base, head, shas, policy, one_session=len(sessions) == 1)
    sides = {
        series.series: (list(base[key].processes), list(series.processes))
        for key, series in head.items()
        if key in base
    }
    return FileComparison(
        commits[0], commits[1], control_false_discoveries(verdicts, FALSE_DISCOVERY_RATE), sides
    )


def _read_runs(path: Path, on_message: OnMessage) -> list[Run]:
    """All runs of a file, which have to be of one commit."""
    name = detect_format(path)
    if name == "perfci":
        runs = [run_document.read_run(path)]
    else:
        # For a file that names no commit the hash of its content tells the two files apart.
        commit = None if path.is_dir() else Commit(sha256(read_decompressed(path)).hexdigest()[:40])
        defaults = ImportDefaults("files", commit)
        runs = [document.run for document in read_imported_runs(path, name, defaults, on_message)]
    shas = list(dict.fromkeys(run.commit.sha for run in runs))
    if not runs:
        raise PerfciError(f"{path} holds no run")
    if len(shas) > 1:
        raise PerfciError(
            f"{path} holds runs of {len(shas)} commits, among them {shas[0][:10]} and {shas[1][:10]}; "
            "a file of one commit was expected"
        )
    return runs


def _describe_results(results: dict[SeriesKey, RecordedSeries]) -> str:
    names = sorted({result.series.cell for result in results.values()})
    if not names:
        return "nothing"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
