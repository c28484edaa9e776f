"""Addresses of pages: readable and stable, made of names and shas, never of row ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from perfci.config import RESERVED_PROJECTS
from perfci.model import Series
from perfci.net.url_segments import encode_segment
from perfci.report.incidents.week_report import Week
from perfci_web.place_slugs import machine_slug, variant_slug

PARAMETER_PREFIX = "p."
"""Prefix of a parameter in a query."""

MACHINE_KEY, VARIANT_KEY, VERSION_KEY = "m", "v", "version"

VERSION_LENGTH = 8
"""Characters of a version, a hash of a benchmark's code, that an address has."""


def encode_project_segment(project: str) -> str:
    return encode_segment(project, RESERVED_PROJECTS)


class ProjectLinks:
    """Addresses of the pages of one project below ``root``.

    A series is addressed by benchmark, metric, parameters, machine and variant, always by all of them: an
    address goes on to mean the same series when another machine measures the benchmark. Only a series that
    another version, harness or unit of its benchmark shares all these with has more in its query.
    """

    def __init__(self, project: str, series: Iterable[Series] = (), *, root: str = "") -> None:
        self.root = root
        self.project_url = f"{root}/{encode_project_segment(project)}"
        self._namesakes: dict[object, set[Series]] = defaultdict(set)
        for namesake in series:
            self._namesakes[_name_key(namesake)].add(namesake)
        self._queries: dict[Series, dict[str, str]] = {}

    @property
    def overview(self) -> str:
        return f"{self.project_url}/"

    def overview_with(self, **query: object) -> str:
        return f"{self.overview}{format_query(query)}"

    def search(self, **query: object) -> str:
        return f"{self.project_url}/search{format_query(query)}"

    def incidents(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/incidents{_format_extension(extension)}{format_query(query)}"

    def incident(self, number: int, extension: str = "", **query: object) -> str:
        path = f"{self.project_url}/incidents/{number}{_format_extension(extension)}"
        return f"{path}{format_query(query)}"

    def changes(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/changes{_format_extension(extension)}{format_query(query)}"

    def week(self, week: Week, extension: str = "") -> str:
        return f"{self.project_url}/week/{week}{_format_extension(extension)}"

    def weeks_feed(self) -> str:
        return f"{self.project_url}/week.atom"

    def this_week(self) -> str:
        """The week of today, whichever that is when it is opened."""
        return f"{self.project_url}/week"

    def benchmarks(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/benchmarks{_format_extension(extension)}{format_query(query)}"

    def benchmark(self, name: str, extension: str = "", **query: object) -> str:
        """The page of all series of one benchmark."""
        path = f"{self.project_url}/b/{encode_segment(name)}{_format_extension(extension)}"
        return f"{path}{format_query(query)}"

    def series(self, series: Series, extension: str = "", **query: object) -> str:
        path = f"{encode_segment(series.benchmark.name)}/{encode_segment(series.metric.name)}"
        query_text = format_query(query, self._identifying_query(series))
        return f"{self.project_url}/s/{path}{_format_extension(extension)}{query_text}"

    def series_part(self, series: Series, part: str, **query: object) -> str:
        """A part of the page of a series: what its chart or its panel is made of."""
        path = f"{encode_segment(series.benchmark.name)}/{encode_segment(series.metric.name)}/{part}"
        return f"{self.project_url}/s/{path}{format_query(query, self._identifying_query(series))}"

    def point(self, series: Series, sha: str, extension: str = "", **query: object) -> str:
        """The page of one result of a series."""
        path = f"{encode_segment(series.benchmark.name)}/{encode_segment(series.metric.name)}"
        commit = f"{encode_segment(sha)}{_format_extension(extension)}"
        query_text = format_query(query, self._identifying_query(series))
        return f"{self.project_url}/point/{path}/{commit}{query_text}"

    def waterfall(self, series: Series, extension: str = "", **query: object) -> str:
        """The page of what moved a series since a commit."""
        path = f"{encode_segment(series.benchmark.name)}/{encode_segment(series.metric.name)}"
        query_text = format_query(query, self._identifying_query(series))
        return f"{self.project_url}/waterfall/{path}{_format_extension(extension)}{query_text}"

    def waterfall_fields(self, series: Series) -> list[tuple[str, str]]:
        """The fields of a form that leads to the waterfall of a series."""
        return list(self._identifying_query(series).items())

    def graph(self, series: Iterable[Series], extension: str = "", *, norm: str = "", **query: object) -> str:
        """The page of several series in one chart, absolute or against the first level of each."""
        names = [("s", self.series_key(each)) for each in series]
        others = [
            (key, str(value)) for key, value in {"norm": norm, **query}.items() if value not in ("", None)
        ]
        query_text = urlencode([*names, *others], safe="/:,")
        return f"{self.project_url}/graph{_format_extension(extension)}?{query_text}"

    def graph_part(self, part: str) -> str:
        """A part of the graph page, whose query is that of the page itself."""
        return f"{self.project_url}/graph/{part}"

    def series_key(self, series: Series) -> str:
        """A series as one value of a query: what stands behind ``/s/`` in its address."""
        return self.series(series).removeprefix(f"{self.project_url}/s/")

    def compare(self, base: str, head: str, extension: str = "", **query: object) -> str:
        pair = f"{encode_segment(base)}...{encode_segment(head)}"
        return f"{self.project_url}/compare/{pair}{_format_extension(extension)}{format_query(query)}"

    def pull_requests(self, extension: str = "") -> str:
        return f"{self.project_url}/pulls{_format_extension(extension)}"

    def pull_request(self, number: int | str) -> str:
        return f"{self.project_url}/pr/{number}"

    def run(self, key: str, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/run/{key}{_format_extension(extension)}{format_query(query)}"

    def choose_matrix(self, **query: object) -> str:
        return f"{self.project_url}/matrix{format_query(query)}"

    def matrix(self, benchmark: str, metric: str, extension: str = "", **query: object) -> str:
        path = f"{encode_segment(benchmark)}/{encode_segment(metric)}{_format_extension(extension)}"
        return f"{self.project_url}/matrix/{path}{format_query(query)}"

    def variants(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/variants{_format_extension(extension)}{format_query(query)}"

    def goals_csv(self, **query: object) -> str:
        return f"{self.project_url}/goals.csv{format_query(query)}"

    def disagreements(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/disagreements{_format_extension(extension)}{format_query(query)}"

    def fleet(self, extension: str = "") -> str:
        return f"{self.project_url}/fleet{_format_extension(extension)}"

    def environment(self, extension: str = "") -> str:
        return f"{self.project_url}/env{_format_extension(extension)}"

    def settings(self, form: str = "") -> str:
        """The page of settings, or where one of its forms goes."""
        return f"{self.project_url}/settings{f'/{form}' if form else ''}"

    def unresolved_results(self) -> str:
        return f"{self.project_url}/unresolved-results"

    def noise(self, extension: str = "") -> str:
        return f"{self.project_url}/noise{_format_extension(extension)}"

    def choose_comparison(self) -> str:
        return f"{self.project_url}/compare"

    def api_description(self) -> str:
        return f"{self.root}/api/v1/openapi.json"

    def short_links(self) -> str:
        return f"{self.project_url}/short-links"

    def short_link(self, code: str) -> str:
        return f"{self.root}/x/{code}"

    def renames(self) -> str:
        return f"{self.project_url}/renames"

    def commit(self, sha: str, extension: str = "", **query: object) -> str:
        path = f"{self.project_url}/commit/{encode_segment(sha)}{_format_extension(extension)}"
        return f"{path}{format_query(query)}"

    def orders(self, **query: object) -> str:
        return f"{self.project_url}/orders{format_query(query)}"

    @property
    def notes(self) -> str:
        """Where the form of a note goes."""
        return f"{self.project_url}/notes"

    @property
    def invalid_mark(self) -> str:
        return f"{self.project_url}/invalid-mark"

    def _identifying_query(self, series: Series) -> dict[str, str]:
        """Return machine, variant and parameters of a series, and what excludes its known namesakes."""
        query = self._queries.get(series)
        if query is None:
            query = self._queries[series] = self._build_identifying_query(series)
        return query

    def _build_identifying_query(self, series: Series) -> dict[str, str]:
        query = {
            MACHINE_KEY: machine_slug(series.machine),
            **({VARIANT_KEY: variant} if (variant := variant_slug(series.variant)) else {}),
            **{f"{PARAMETER_PREFIX}{name}": value for name, value in series.parameters},
        }
        own = _tie_breakers(series)
        others = [_tie_breakers(namesake) for namesake in self._namesakes[_name_key(series)] - {series}]
        for key, value in own.items():
            remaining = [values for values in others if values[key] == value]
            if len(remaining) < len(others):
                query[key] = value
                others = remaining
        return query


def series_matches_url_query(series: Series, query: Mapping[str, str]) -> bool:
    """Whether an address means a series: all that its query names of a series must agree.

    An address without a variant means the series that have none.
    """
    own = {
        MACHINE_KEY: machine_slug(series.machine),
        **_tie_breakers(series),
        **{f"{PARAMETER_PREFIX}{name}": value for name, value in series.parameters},
    }
    relevant = {key: value for key, value in query.items() if key in own or key.startswith(PARAMETER_PREFIX)}
    has_variant = MACHINE_KEY not in query or query.get(VARIANT_KEY, "") == variant_slug(series.variant)
    # A quoted text parameter may be typed without its quotes.
    return has_variant and all(
        value in {own.get(key, ""), own.get(key, "").strip("'\"")} for key, value in relevant.items()
    )


def names_place(query: Mapping[str, str]) -> bool:
    """Whether the query of a series names the machine, without which it may mean any of them."""
    return MACHINE_KEY in query


def _name_key(series: Series) -> object:
    return (series.benchmark.name, series.metric.name, series.parameters, series.machine, series.variant)


def _tie_breakers(series: Series) -> dict[str, str]:
    """What can differ between two series of one benchmark, metric, machine and variant."""
    return {
        VERSION_KEY: series.benchmark.version[:VERSION_LENGTH],
        "harness": series.harness,
        "unit": series.metric.unit,
        "direction": series.metric.direction,
    }


def _format_extension(extension: str) -> str:
    return f".{extension}" if extension else ""


def format_query(values: Mapping[str, object], names: Mapping[str, str] | None = None) -> str:
    """Format a query; empty ``values`` are left out, ``names`` are kept even when empty."""
    query = dict(names or {}) | {key: str(value) for key, value in values.items() if value not in ("", None)}
    # Slash, colon and comma may stand in a query as they are, and read better.
    return f"?{urlencode(query, safe='/:,')}" if query else ""
