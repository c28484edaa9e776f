"""Addresses to pages: parse, ask the store, call one function, render."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.routing import BaseConverter, ValidationError
from werkzeug.wrappers import Response as Answer

from perfci.config import RESERVED_PROJECTS
from perfci.model import ChangePoint, Commit, ObservedChange, PerfciError, Point, Run, Verdict
from perfci.net.slugs import TWINS, name_of, segment
from perfci.report.calibration import calibration_fields
from perfci.report.comment import comment
from perfci.report.fields import trend_fields
from perfci.report.findings import Findings
from perfci.report.names import csv_cell
from perfci.report.svg import trend_svg
from perfci.report.trend import Trend, of_witness, thinned, trend_of
from perfci.service.calibrating import calibrated
from perfci.service.judged_points import JudgedLines
from perfci.service.judging import Standards
from perfci.service.small_trends import Decided, small_trends
from perfci.store import Store, reads, standing
from perfci.store.members import namesakes
from perfci.store.projects import Project
from perfci.store.records import RunRecord, SeriesRecord
from perfci.verdicts.calibration import Calibration
from perfci_web.admission import no_such_project, seen_projects
from perfci_web.missing import Missing, Offer, nearest
from perfci_web.pages import benchmarks, commit, compare, incidents, measured, overview, series
from perfci_web.pages.cells import Cell
from perfci_web.urls import Links, project_segment

MOST_POINTS = 1000
"""What a browser draws at most; a chart that asks for more gets neighbours merged."""


class NameConverter(BaseConverter):
    """A name in a URL: exactly one spelling, and never one that ends like a twin."""

    regex = "[^/]+?" + "".join(rf"(?<!\.{twin})" for twin in TWINS)
    refused: frozenset[str] = frozenset()

    def to_python(self, value: str) -> str:
        try:
            name = name_of(value, self.refused)
            name.encode()
        except ValueError as error:
            raise ValidationError from error
        if "\x00" in name:  # which no database keeps, and one of them does not even compare with
            raise ValidationError
        return name

    def to_url(self, value: str) -> str:
        return segment(value, self.refused)


class ProjectConverter(NameConverter):
    refused = RESERVED_PROJECTS


StandardsOf = Callable[[Project], Standards]


def add_routes(app: Flask, store: Store, clock: Callable[[], datetime], standards_of: StandardsOf) -> None:
    """Bind every page to the store."""
    app.url_map.converters |= {"name": NameConverter, "project": ProjectConverter}

    def page(rule: str, view: Callable[..., Any], **defaults: str) -> None:
        endpoint = ".".join([view.__name__, *defaults.values()])
        app.add_url_rule(rule, endpoint, partial(view, store), defaults=defaults or None)

    page("/", projects_page)
    page("/<project:project>/benchmarks", benchmarks_page)
    page("/<project:project>/benchmarks.json", benchmarks_json)
    page("/<project:project>/benchmarks.csv", benchmarks_csv)
    page("/<project:project>/s/<name:benchmark>/<name:metric>", series_page)
    page("/<project:project>/s/<name:benchmark>/<name:metric>.json", series_json)
    page("/<project:project>/s/<name:benchmark>/<name:metric>.svg", series_svg)
    page("/<project:project>/s/<name:benchmark>/<name:metric>.csv", series_csv)
    page("/<project:project>/compare", compare_chooser)
    page("/<project:project>/compare/<name:base>...<name:head>", compare_page)
    page("/<project:project>/compare/<name:base>...<name:head>.json", compare_json)
    page("/<project:project>/compare/<name:base>...<name:head>.md", compare_markdown)
    page("/<project:project>/commit/<name:sha>", commit_page)
    app.add_url_rule("/<project:project>/", "overview", partial(overview_page, store, standards_of))
    for rule, view in (("calibration", calibration_page), ("calibration.json", calibration_json)):
        app.add_url_rule(f"/<project:project>/{rule}", rule, partial(view, store, clock, standards_of))


def projects_page(store: Store) -> str | Answer:
    with store.read() as tx:
        seen = {one.slug for one in seen_projects(tx)}
        known = [record for record in reads.projects(tx) if record.slug in seen]
    if len(known) == 1:
        return redirect(f"{request.script_root}/{project_segment(known[0].slug)}/")
    return render_template("projects.html", projects=known, links_of=partial(Links, root=request.script_root))


def overview_page(store: Store, standards_of: StandardsOf, project: str) -> str:
    with store.read() as tx:
        known = _known(tx, project)
        [record] = reads.projects(tx, project)
        moved = JudgedLines.of(tx, standing.series_that_moved(tx, project, overview.MOST_MOVERS))
        decided = Decided.of(tx, moved.points)
        trends = sorted(small_trends(tx, moved, decided).values(), key=lambda trend: trend.series.label)
        found = incidents.open_on_overview(tx, known, standards_of(known))
        page = overview.overview(
            record,
            overview.coverage_of(standing.at_head(tx, project)),
            standing.tally(tx, project),
            decided,
            trends,
            reads.commits(tx, project, limit=overview.RECENT_COMMITS),
            reads.commits_of(tx, project, overview.marked_commits(trends)),
            found.count,
        )
        links = Links(project, namesakes(tx, project, page.linked), root=request.script_root)
    return render_template(
        "overview.html", page=page, incidents=found.entries, links=links, most_not_run=overview.MOST_NOT_RUN
    )


def benchmarks_page(store: Store, project: str) -> str:
    knobs = _knobs()
    with store.read() as tx:
        everything, selection, rows = _selected(tx, project, knobs)
    never = selection.show == benchmarks.UNAVAILABLE
    return render_template(
        "unavailable.html" if never else "benchmarks.html",
        project=project,
        page=selection,
        cells=rows,
        reasons=benchmarks.reasons(everything, selection.query) if never else (),
        sorts=benchmarks.SORTS,
        sparkline_commits=benchmarks.SPARKLINE_COMMITS,
        unavailable=benchmarks.UNAVAILABLE,
        links=_links(project, everything),
    )


def benchmarks_json(store: Store, project: str) -> Response:
    with store.read() as tx:
        _, selection, cells = _selected(tx, project, _knobs())
    found = {
        "project": project,
        "page": selection.page,
        "pages": selection.pages,
        "total": selection.total,
        "unavailable": selection.unavailable,
    }
    return jsonify(found | {"series": [benchmarks.row_fields(row) for cell in cells for row in cell.rows]})


def benchmarks_csv(store: Store, project: str) -> Response:
    """All results of the search, not only one page."""
    query, never = request.args.get("q", ""), request.args.get("show") == benchmarks.UNAVAILABLE
    with store.read() as tx:
        _known(tx, project)
        found = reads.series_of_project(tx, project, search=query)
        records = [record for record in found if record.never_measured == never]
        rows = _rows(tx, project, records, records, _decided(tx, project))
    fields = [benchmarks.row_fields(rows[record.id]) for record in records]
    flat = [row | {"parameters": _flat(row["parameters"]), "variant": _flat(row["variant"])} for row in fields]
    return _csv(flat[0].keys() if flat else ("benchmark",), flat, f"{segment(project)}-benchmarks.csv")


def series_page(store: Store, project: str, benchmark: str, metric: str) -> str:
    with store.read() as tx:
        record, records = _series(tx, project, benchmark, metric)
        twin = series.twin_of(record, records)
        trends, judged = _shown(tx, project, record, twin)
        verdicts = reads.verdict_records(tx, project, series_id=record.id)
    beside = trends[twin.id] if twin else None
    page = series.series_page(project, trends[record.id], verdicts, records, beside=beside, judged=judged)
    return render_template("series.html", page=page, links=_links(project, records))


def series_json(store: Store, project: str, benchmark: str, metric: str) -> Response:
    """The whole series; ``?most=N`` merges neighbours down to about N points, as a chart wants them."""
    trend = _trend(store, project, benchmark, metric)
    most = request.args.get("most", type=int)
    drawn = thinned(trend, min(max(2, most), MOST_POINTS)) if most else trend
    return jsonify({"project": project} | trend_fields(drawn))


def series_svg(store: Store, project: str, benchmark: str, metric: str) -> Response:
    trend = _trend(store, project, benchmark, metric)
    return Response(trend_svg(trend, alone=True), content_type="image/svg+xml; charset=utf-8")


def series_csv(store: Store, project: str, benchmark: str, metric: str) -> Response:
    rows = trend_fields(_trend(store, project, benchmark, metric))["points"]
    return _csv(series.POINT_COLUMNS, rows, f"{segment(benchmark)}-{segment(metric)}.csv")


def compare_chooser(store: Store, project: str) -> str | Answer:
    """Two shas typed into a form become the address of their comparison."""
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    links = _links(project)
    if base and head:
        return redirect(links.compare(base, head))
    with store.read() as tx:
        _known(tx, project)
        known = reads.commits(tx, project, limit=50)
        verdicts = reads.verdict_records(tx, project)
    pairs = compare.compared_pairs(verdicts, known)
    return render_template("choose.html", project=project, pairs=pairs, commits=known, links=links)


def compare_page(store: Store, project: str, base: str, head: str) -> str:
    page, links = _comparison(store, project, base, head)
    return render_template("compare.html", page=page, links=links)


def compare_json(store: Store, project: str, base: str, head: str) -> Response:
    page, _ = _comparison(store, project, base, head)
    return jsonify(compare.comparison_fields(page))


def compare_markdown(store: Store, project: str, base: str, head: str) -> Response:
    page, links = _comparison(store, project, base, head)
    address = f"{request.host_url.rstrip('/')}{links.compare(page.base.sha, page.head.sha)}"
    environment = [ObservedChange(*row) for row in page.environment]
    findings = Findings(page.verdicts, page.base, page.head, environment=environment, page=address)
    return Response(comment(findings), content_type="text/markdown; charset=utf-8")


def commit_page(store: Store, project: str, sha: str) -> str:
    with store.read() as tx:
        found = _commit(tx, project, sha)
        records = reads.runs_of_commit(tx, project, found.sha)
        page = commit.commit_page(
            project,
            found,
            reads.commits(tx, project),
            records,
            _runs(tx, records),
            [
                *reads.verdict_records(tx, project, head=found.sha),
                *reads.verdict_records(tx, project, base=found.sha),
            ],
        )
        links = Links(project, namesakes(tx, project, page.linked), root=request.script_root)
    return render_template("commit.html", page=page, links=links)


def calibration_page(store: Store, clock: Callable[[], datetime], standards_of: StandardsOf, project: str) -> str:
    found, records = _calibration(store, clock, standards_of, project)
    return render_template("calibration.html", project=project, found=found, links=_links(project, records))


def calibration_json(store: Store, clock: Callable[[], datetime], standards_of: StandardsOf, project: str) -> Response:
    found, _ = _calibration(store, clock, standards_of, project)
    return jsonify(calibration_fields(project, found))


def _calibration(
    store: Store, clock: Callable[[], datetime], standards_of: StandardsOf, project: str
) -> tuple[Calibration, list[SeriesRecord]]:
    with store.read() as tx:
        known = _known(tx, project)
        found = calibrated(tx, project, standards_of(known).policy, clock())
        return found, reads.series_of_project(tx, project) if found.floors else []


def nothing_here(store: Store, path: str) -> Missing:
    """No page answers to this path; say what does."""
    first = path.split("/")[1]
    text = f"There is no page at {path}."
    if first in RESERVED_PROJECTS:
        return Missing(text)
    try:
        project = name_of(first, RESERVED_PROJECTS)
        with store.read() as tx:
            _known(tx, project)
    except ValueError:
        return Missing(text)
    except Missing as error:
        return error
    links = _links(project)
    offers = [Offer("Overview", links.overview), Offer("Benchmarks", links.benchmarks())]
    return Missing(text, offers, "This project has")


def _links(project: str, records: Iterable[SeriesRecord] = ()) -> Links:
    return Links(project, (record.series for record in records), root=request.script_root)


def _known(tx: Session, project: str) -> Project:
    """Refuse a project that is not there, or not for this caller."""
    for one in seen_projects(tx):
        if one.slug == project:
            return one
    raise no_such_project(tx, project)


def _commit(tx: Session, project: str, sha: str) -> Commit:
    _known(tx, project)
    try:
        found = reads.find_commit(tx, project, sha)
    except PerfciError as error:
        raise Missing(str(error)) from error
    if found is None:
        known = reads.commits(tx, project, limit=8)
        offers = [Offer(f"{one.short} {one.subject}".strip(), _links(project).commit(one.sha)) for one in known]
        raise Missing(f"The project {project} knows no commit that starts with {sha}.", offers, "Its newest commits")
    return found


def _series(tx: Session, project: str, benchmark: str, metric: str) -> tuple[SeriesRecord, list[SeriesRecord]]:
    """The series an address names, and all series of the same benchmark."""
    _known(tx, project)
    records = reads.find_series(tx, project, benchmark)
    alike = [record for record in records if record.series.metric.name == metric]
    if not alike:
        raise _no_benchmark(tx, project, f"{benchmark} · {metric}")
    fitting = series.chosen(alike, request.args)
    if not fitting:
        links = _links(project, alike)
        offers = [Offer(f"{one.series.label}, {one.series.machine.label}", links.series(one.series)) for one in alike]
        text = f"{benchmark} · {metric} has {len(alike)} series; the address names none of them exactly."
        raise Missing(text, offers, "Choose one")
    return fitting[0], records


def _trend(store: Store, project: str, benchmark: str, metric: str) -> Trend:
    with store.read() as tx:
        record, records = _series(tx, project, benchmark, metric)
        trends, _ = _shown(tx, project, record, series.twin_of(record, records))
    return trends[record.id]


def _shown(tx: Session, project: str, record: SeriesRecord, twin: SeriesRecord | None) -> tuple[dict[int, Trend], bool]:
    """A series and its twin as every page shows them, and whether the series itself is judged."""
    both = [record, *([twin] if twin else [])]
    histories = reads.histories(tx, [one.id for one in both])
    judged = measured.judged_of({one.series: histories[one.id] for one in both})
    trends = _trends(tx, project, both, histories)
    shown = {row_id: trend if trend.series in judged else of_witness(trend) for row_id, trend in trends.items()}
    return shown, record.series in judged and not record.witness


def _no_benchmark(tx: Session, project: str, asked: str) -> Missing:
    records = reads.series_of_project(tx, project)
    links = _links(project, records)
    offers = {record.series.label: Offer(record.series.label, links.series(record.series)) for record in records}
    return Missing(
        f"The project {project} has no benchmark {asked}.", nearest(asked, list(offers.values())), "Did you mean"
    )


@dataclass(frozen=True, slots=True)
class _Decided:
    """What was decided about a project, or about one series of it."""

    verdicts: list[Verdict]
    changes: list[ChangePoint]


def _decided(tx: Session, project: str, series_id: int | None = None) -> _Decided:
    records = reads.verdict_records(tx, project, series_id=series_id)
    return _Decided([record.verdict for record in records], reads.change_points(tx, project, series_id))


def _trends(
    tx: Session,
    project: str,
    records: Iterable[SeriesRecord],
    histories: Mapping[int, Sequence[Point]] | None = None,
    decided: _Decided | None = None,
) -> dict[int, Trend]:
    """The trends of some series, by id; what the caller has read already is not read again."""
    series_of = {record.id: record.series for record in records}
    points = reads.histories(tx, list(series_of)) if histories is None else histories
    one = next(iter(series_of)) if len(series_of) == 1 else None
    known = _decided(tx, project, one) if decided is None else decided
    verdicts, changes = defaultdict(list), defaultdict(list)
    for verdict in known.verdicts:
        verdicts[verdict.series].append(verdict)
    for change in known.changes:
        changes[change.series].append(change)
    return {
        row_id: trend_of(named, points[row_id], changes[named], verdicts[named]) for row_id, named in series_of.items()
    }


def _knobs() -> dict[str, Any]:
    return {
        "query": request.args.get("q", "").strip(),
        "sort": request.args.get("sort", "name"),
        "page": request.args.get("page", 1, type=int),
        "show": request.args.get("show", ""),
    }


def _selected(
    tx: Session, project: str, knobs: Mapping[str, Any]
) -> tuple[list[SeriesRecord], benchmarks.Selection, list[Cell[benchmarks.Row]]]:
    """All series of a project, the page of them a request asks for, and its rows."""
    _known(tx, project)
    everything = reads.series_of_project(tx, project)
    decided = _decided(tx, project)
    sizes = benchmarks.sizes_of_changes(decided.changes, decided.verdicts)
    selection = benchmarks.selection(everything, sizes, **knobs)
    rows = _rows(tx, project, selection.records, everything, decided)
    return (
        everything,
        selection,
        [Cell(cell.series, tuple(rows[record.id] for record in cell.rows)) for cell in selection.cells],
    )


def _rows(
    tx: Session,
    project: str,
    records: Sequence[SeriesRecord],
    everything: Iterable[SeriesRecord],
    decided: _Decided,
) -> dict[int, benchmarks.Row]:
    """The rows of some series by id, with what tells whether they are judged."""
    read = benchmarks.with_twins(records, everything)
    histories = reads.histories(tx, [record.id for record in read])
    judged = measured.judged_of({record.series: histories[record.id] for record in read})
    trends = _trends(tx, project, records, histories, decided)
    return {record.id: benchmarks.row(record, trends[record.id], judged=record.series in judged) for record in records}


def _comparison(store: Store, project: str, base: str, head: str) -> tuple[compare.Comparison, Links]:
    with store.read() as tx:
        before, after = _commit(tx, project, base), _commit(tx, project, head)
        page = compare.comparison(
            project,
            before,
            after,
            reads.verdict_records(tx, project, base=before.sha, head=after.sha),
            _runs(tx, reads.runs_of_commit(tx, project, before.sha)),
            _runs(tx, reads.runs_of_commit(tx, project, after.sha)),
            reads.commits(tx, project),
        )
        everything = reads.series_of_project(tx, project)
    return page, _links(project, everything)


def _runs(tx: Session, records: Iterable[RunRecord]) -> list[Run]:
    return [reads.load_run(tx, record.id) for record in records]


def _csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], name: str) -> Response:
    """Numbers as they are, absent as empty, foreign words so that no spreadsheet runs them."""
    names = list(columns)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in names])
    response = Response(out.getvalue(), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'inline; filename="{name}"'
    return response


def _cell(value: object) -> str:
    if value is None:
        return ""
    return csv_cell(value) if isinstance(value, str) else repr(value)


def _flat(named: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in named.items())
