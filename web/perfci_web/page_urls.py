"""Addresses of pages: readable and stable, made of names and shas, never of row ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from perfci.config import RESERVED_PROJECTS
from perfci.model import Series
from perfci.net.url_segments import encode_segment

PARAMETER_PREFIX, VARIANT_PREFIX = "p.", "v."
"""Prefixes of a parameter and of a variant axis in a query."""


def encode_project_segment(project: str) -> str:
    return encode_segment(project, RESERVED_PROJECTS)


class ProjectLinks:
    """Addresses of the pages of one project below ``root``.

    A series is addressed by benchmark, metric and parameters. Where several share these (on another
    machine, in another variant or version), the query also names what they differ in.
    """

    def __init__(self, project: str, series: Iterable[Series] = (), *, root: str = "") -> None:
        self.root = root
        self.project_url = f"{root}/{encode_project_segment(project)}"
        self._namesakes: dict[object, set[Series]] = defaultdict(set)
        for namesake in series:
            self._namesakes[_name_key(namesake)].add(namesake)

    @property
    def overview(self) -> str:
        return f"{self.project_url}/"

    def incidents(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/incidents{_format_extension(extension)}{_format_query(query)}"

    def incident(self, number: int, extension: str = "") -> str:
        return f"{self.project_url}/incidents/{number}{_format_extension(extension)}"

    def impact(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/impact{_format_extension(extension)}{_format_query(query)}"

    def benchmarks(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/benchmarks{_format_extension(extension)}{_format_query(query)}"

    def series(self, series: Series, extension: str = "", **query: object) -> str:
        path = f"{encode_segment(series.benchmark.name)}/{encode_segment(series.metric.name)}"
        query_text = _format_query(query, self._distinguishing_query(series))
        return f"{self.project_url}/s/{path}{_format_extension(extension)}{query_text}"

    def compare(self, base: str, head: str, extension: str = "", **query: object) -> str:
        pair = f"{encode_segment(base)}...{encode_segment(head)}"
        return f"{self.project_url}/compare/{pair}{_format_extension(extension)}{_format_query(query)}"

    def unresolved_results(self) -> str:
        return f"{self.project_url}/unresolved-results"

    def calibration(self, extension: str = "") -> str:
        return f"{self.project_url}/calibration{_format_extension(extension)}"

    def commit(self, sha: str, **query: object) -> str:
        return f"{self.project_url}/commit/{encode_segment(sha)}{_format_query(query)}"

    @property
    def invalid_mark(self) -> str:
        return f"{self.project_url}/invalid-mark"

    def _distinguishing_query(self, series: Series) -> dict[str, str]:
        """Return the parameters of a series, and as few qualifiers as exclude every namesake."""
        query = {f"{PARAMETER_PREFIX}{name}": value for name, value in series.parameters}
        own = series_url_qualifiers(series)
        others = [
            series_url_qualifiers(namesake) for namesake in self._namesakes[_name_key(series)] - {series}
        ]
        for key in dict.fromkeys(key for values in (own, *others) for key in values):
            same_value = [values for values in others if values.get(key, "") == own.get(key, "")]
            if len(same_value) < len(others):
                query[key] = own.get(key, "")
                others = same_value
        return query


def series_url_qualifiers(series: Series) -> dict[str, str]:
    """Return what can distinguish two series of one name, as written into an address."""
    machine = series.machine
    return {
        "machine": machine.label,
        **{f"{VARIANT_PREFIX}{name}": value for name, value in series.variant.values},
        "version": series.benchmark.version,
        "cpu": machine.cpu,
        "cores": str(machine.cores or ""),
        "memory": str(machine.memory_gb or ""),
        "accelerator": f"{machine.accelerators}x {machine.accelerator}" if machine.accelerator else "",
        "harness": series.harness,
        "unit": series.metric.unit,
        "direction": series.metric.direction,
    }


def series_matches_url_query(series: Series, query: Mapping[str, str]) -> bool:
    """Whether an address means a series: every key of the query that names something of it must agree."""
    own = series_url_qualifiers(series) | {
        f"{PARAMETER_PREFIX}{name}": value for name, value in series.parameters
    }
    prefixes = (PARAMETER_PREFIX, VARIANT_PREFIX)
    relevant = {key: value for key, value in query.items() if key in own or key.startswith(prefixes)}
    # A quoted text parameter may be typed without its quotes.
    return all(value in {own.get(key, ""), own.get(key, "").strip("'\"")} for key, value in relevant.items())


def _name_key(series: Series) -> object:
    return (series.benchmark.name, series.metric.name, series.parameters)


def _format_extension(extension: str) -> str:
    return f".{extension}" if extension else ""


def _format_query(values: Mapping[str, object], names: Mapping[str, str] | None = None) -> str:
    """Format a query; empty ``values`` are left out, ``names`` are kept even when empty."""
    query = dict(names or {}) | {key: str(value) for key, value in values.items() if value not in ("", None)}
    # Slash, colon and comma may stand in a query as they are, and read better.
    return f"?{urlencode(query, safe='/:,')}" if query else ""
