"""Is it the code or the runner? What moved with the last change of a series, and what did not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Series
from perfci.report.number_format import format_all_of, format_count
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import ChangeMark
from perfci.store.queries.project_status import load_change_points_of_series
from perfci.store.queries.query_records import SeriesRecord
from perfci.store.queries.series_commits_machines import load_commit_ids_by_sha
from perfci.store.queries.series_search import load_listed_series
from perfci_web.application_context import web_context
from perfci_web.load_series_trends import SeriesTrend, load_series_trends
from perfci_web.series.load_series import LoadedSeries

MAX_PLACES = 12
"""Places whose trends a page shows."""


@dataclass(frozen=True, slots=True)
class CauseEvidence:
    """What speaks for the code or for the runner, as one sentence and the facts behind it."""

    sentence: str
    facts: tuple[str, ...]


def load_trends_elsewhere(
    tx: Session, project: str, namesakes: Sequence[SeriesRecord]
) -> dict[int, SeriesTrend]:
    """Load the trends of the same series in several places; none where there is one place only."""
    if len(namesakes) < 2:
        return {}
    return load_series_trends(tx, project, [record.id for record in namesakes[:MAX_PLACES]])


def load_cause_evidence(
    tx: Session, project: str, loaded: LoadedSeries, elsewhere: Iterable[SeriesTrend]
) -> CauseEvidence | None:
    """Load what moved together with the last change of a series; None where it has none."""
    marks = [mark for mark in loaded.trend.marks if mark.state != "refuted"]
    if not marks:
        return None
    mark, series = marks[-1], loaded.record.series
    window = _commit_window(loaded, mark)
    window_ids = set(load_commit_ids_by_sha(tx, project, window).values())
    same_machine = {
        stored.id: stored.series
        for stored in load_listed_series(tx, project)
        if stored.series.machine == series.machine
        and stored.series.variant == series.variant
        and stored.series.key_without_metric != series.key_without_metric
        and not stored.never_measured
    }
    changes = load_change_points_of_series(tx, list(same_machine))
    moved = {change.series for change in changes if _lies_in(change, window)}
    canaries = web_context().load_policies(loaded.project).history.canaries
    return build_cause_evidence(
        mark,
        _label_places(
            series,
            {
                trend.series: _moved_there(trend, window, window_ids)
                for trend in elsewhere
                if trend.series != series
            },
        ),
        len(moved),
        len(same_machine),
        _canary_fact(canaries, set(same_machine.values()), moved),
        loaded.environment_changes.get(mark.commit, ""),
    )


def build_cause_evidence(
    mark: ChangeMark,
    moved_elsewhere: Mapping[str, bool | None],
    moved_here: int,
    others_here: int,
    canary_fact: str,
    environment_change: str,
) -> CauseEvidence:
    """Weigh what moved together; ``moved_elsewhere`` is None for a place that was not measured then."""
    compared = {place: moved for place, moved in moved_elsewhere.items() if moved is not None}
    yes = sum(compared.values())
    facts = [_places_fact(compared)] if compared else ["No other place was measured at this change"]
    if others_here:
        facts.append(
            f"On this machine {moved_here:,} of {others_here:,} series of other benchmarks moved at the same "
            "commits"
        )
    facts += [canary_fact] if canary_fact else []
    facts.append(
        f"The environment changed with it: {environment_change}"
        if environment_change
        else "The environment shows no recorded change"
    )
    facts.append(
        f"Confirmed by A/B rerun ({format_count(mark.verdict.pairs, 'pair')})"
        if mark.state == "confirmed" and mark.verdict
        else "No A/B rerun has confirmed it"
    )
    return CauseEvidence(
        _weigh(mark, len(compared), yes, moved_here, others_here, environment_change), tuple(facts)
    )


def _weigh(
    mark: ChangeMark, places: int, moved_places: int, moved_here: int, others_here: int, environment: str
) -> str:
    if mark.state == "confirmed":
        return "It is the code: fresh pairs on one machine confirmed it"
    if environment:
        return "Maybe the runner: its environment changed with it"
    if places and moved_places == places:
        return f"Probably the code: it moved in {format_all_of(places + 1, 'place')}"
    if others_here >= 4 and moved_here > others_here / 2:
        return "Probably the runner: most benchmarks of this machine moved with it"
    if places and moved_places == 0:
        return f"Maybe the runner: it moved here and {_in_no_other_place(places)}"
    if places:
        return f"Not clear: it moved in {moved_places + 1} of {places + 1} places"
    return "Not clear: there is no other place to compare with"


def _in_no_other_place(others: int) -> str:
    return "not in the other place" if others == 1 else f"in none of {others:,} other places"


def _label_places(series: Series, moved_elsewhere: Mapping[Series, bool | None]) -> dict[str, bool | None]:
    """Name each place by what tells it apart from the others and from that of the series."""
    places = SeriesPlaces([series, *moved_elsewhere])
    return {places.label(other) or other.machine.label: moved for other, moved in moved_elsewhere.items()}


def _places_fact(compared: Mapping[str, bool]) -> str:
    texts = [f"{place}: {'yes' if moved else 'no'}" for place, moved in compared.items()]
    return f"Moved elsewhere: {', '.join(sorted(texts))}"


def _canary_fact(canaries: Sequence[str], others: set[Series], moved: set[Series]) -> str:
    """Whether benchmarks that no commit can move have moved."""
    chosen = [series for series in others if any(re.search(text, series.label) for text in canaries)]
    count = sum(series in moved for series in chosen)
    return f"Canaries: {count} of {len(chosen)} moved" if chosen else ""


def _commit_window(loaded: LoadedSeries, mark: ChangeMark) -> set[str]:
    """The commits that may have made a change: after the last good one, up to the first changed one."""
    shas = [commit.sha for commit in loaded.commits]
    if mark.last_good in shas and mark.commit in shas:
        return set(shas[shas.index(mark.last_good) + 1 : shas.index(mark.commit) + 1])
    return {mark.commit}


def _lies_in(change: ChangePoint, window: set[str]) -> bool:
    return change.commit in window


def _moved_there(trend: SeriesTrend, window: Collection[str], window_ids: Collection[int]) -> bool | None:
    """Whether a series moved at these commits; None where it was not measured at them and before."""
    if any(mark.commit in window and mark.state != "refuted" for mark in trend.marks):
        return True
    measured = trend.columns["commit_id"][~np.isnan(trend.columns["level"])]
    is_inside = np.isin(measured, list(window_ids))
    return False if is_inside.any() and not is_inside[0] else None
