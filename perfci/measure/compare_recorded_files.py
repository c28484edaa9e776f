"""Compare two recorded files; nothing is measured or stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from perfci.formats import run_document
from perfci.formats.bounded_files import read_decompressed
from perfci.formats.format_registry import detect_format, find_result_files, read_imported_runs
from perfci.formats.format_types import ImportDefaults
from perfci.history.comparisons.complete_process_pairs import PairedProcesses
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


def compare_files(
    base_paths: Sequence[Path], head_paths: Sequence[Path], policy: Policy, on_message: OnMessage
) -> FileComparison:
    """Judge the files and folders of the head against those of the base.

    Several files of one tool on a side are its processes. A file that is given twice counts once.
    """
    runs = [_read_side(paths, on_message) for paths in (base_paths, head_paths)]
    variants = [list(dict.fromkeys(run.variant for run in side)) for side in runs]
    # One variant on each side and not the same one: the variant is compared, so it is no part of a series.
    differ = all(len(side) == 1 for side in variants) and variants[0] != variants[1]
    if differ:
        labels = [side[0].label or "unknown" for side in variants]
        on_message(f"the environments differ: {labels[0]} → {labels[1]}")
    base, head = (collect_recorded_series(side, by_variant=not differ) for side in runs)
    if not base.keys() & head.keys():
        raise PerfciError(
            f"{_join_paths(base_paths)} and {_join_paths(head_paths)} have no result in common: "
            f"one holds {_describe_results(base)}, the other {_describe_results(head)}"
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


def _read_side(paths: Sequence[Path], on_message: OnMessage) -> list[Run]:
    """All runs of one side, which have to be of one commit."""
    files = [file for path in paths for file in _find_files(path, on_message)]
    # For files that name no commit the hash of their content tells the two sides apart.
    hashes = sorted(sha256(read_decompressed(file)).hexdigest() for file, _ in files if file.is_file())
    defaults = ImportDefaults("files", Commit(sha256("".join(hashes).encode()).hexdigest()[:40]))
    runs: dict[str, Run] = {}
    for file, format_name in files:
        if format_name == "perfci":
            # Its own runs may be written in parts, so that each counts.
            runs |= {f"{file} {number}": run for number, run in enumerate(run_document.read_runs(file))}
            continue
        for document in read_imported_runs(file, format_name, defaults, on_message):
            runs[document.idempotency_key] = document.run
            if document.unresolved:
                on_message(
                    f"{file}: {len(document.unresolved)} results of unknown unit are not compared, "
                    f"the first since {document.unresolved[0].reason}"
                )
    shas = list(dict.fromkeys(run.commit.sha for run in runs.values()))
    if not runs:
        raise PerfciError(f"{_join_paths(paths)} holds no run")
    if len(shas) > 1:
        raise PerfciError(
            f"{_join_paths(paths)} holds runs of {len(shas)} commits, among them {shas[0][:10]} and "
            f"{shas[1][:10]}; files of one commit were expected"
        )
    return list(runs.values())


def _find_files(path: Path, on_message: OnMessage) -> list[tuple[Path, str]]:
    return find_result_files(path, on_message) if path.is_dir() else [(path, detect_format(path))]


def _join_paths(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def _describe_results(results: dict[SeriesKey, RecordedSeries]) -> str:
    names = sorted({result.series.cell for result in results.values()})
    if not names:
        return "nothing"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
