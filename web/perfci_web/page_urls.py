"""Where everything is: readable, stable addresses made of names and shas, never of row ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from perfci.config import RESERVED_PROJECTS
from perfci.model import Series
from perfci.net.url_segments import encode_segment

PARAMETER_PREFIX, VARIANT_PREFIX = "p.", "v."
"""What stands before the name of a parameter or of a chosen environment axis in a query."""


def project_segment(project: str) -> str:
    return encode_segment(project, RESERVED_PROJECTS)


class Links:
    """The addresses of one project's pages below ``root``.

    A series is named by benchmark, metric and parameters; where that leaves several (another machine, variant or
    version), the address also names whatever they differ in.
    """

    def __init__(self, project: str, series: Iterable[Series] = (), *, root: str = "") -> None:
        self.root = root
        self.project_url = f"{root}/{project_segment(project)}"
        self._namesakes: dict[object, set[Series]] = defaultdict(set)
        for one in series:
            self._namesakes[_name_key(one)].add(one)

    @property
    def overview(self) -> str:
        return f"{self.project_url}/"

    def incidents(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/incidents{_format_extension(extension)}{_format_query(query)}"

    def incident(self, number: int, extension: str = "") -> str:
        return f"{self.project_url}/incidents/{number}{_format_extension(extension)}"

    def impact(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/ledger{_format_extension(extension)}{_format_query(query)}"

    def benchmarks(self, extension: str = "", **query: object) -> str:
        return f"{self.project_url}/benchmarks{_format_extension(extension)}{_format_query(query)}"

    def series(self, series: Series, extension: str = "", **query: object) -> str:
        place = f"{encode_segment(series.benchmark.name)}/{encode_segment(series.metric.name)}"
        return f"{self.project_url}/s/{place}{_format_extension(extension)}{_format_query(query, self._distinguishing_query(series))}"

    def compare(self, base: str, head: str, extension: str = "") -> str:
        return f"{self.project_url}/compare/{encode_segment(base)}...{encode_segment(head)}{_format_extension(extension)}"

    def calibration(self, extension: str = "") -> str:
        return f"{self.project_url}/calibration{_format_extension(extension)}"

    def commit(self, sha: str) -> str:
        return f"{self.project_url}/commit/{encode_segment(sha)}"

    def _distinguishing_query(self, series: Series) -> dict[str, str]:
        """Its parameters, and as few qualifiers as exclude every namesake."""
        named, own = (
            {f"{PARAMETER_PREFIX}{name}": value for name, value in series.parameters},
            qualifiers(series),
        )
        others = [qualifiers(one) for one in self._namesakes[_name_key(series)] - {series}]
        for key in dict.fromkeys(key for told in (own, *others) for key in told):
            left = [one for one in others if one.get(key, "") == own.get(key, "")]
            if len(left) < len(others):
                named[key], others = own.get(key, ""), left
        return named


def qualifiers(series: Series) -> dict[str, str]:
    """What can tell two series of the same name apart, as it is written into an address."""
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


def matches_query(series: Series, query: Mapping[str, str]) -> bool:
    """Whether a series is meant by an address: every key that names something must agree, others mean nothing here."""
    own = qualifiers(series) | {f"{PARAMETER_PREFIX}{name}": value for name, value in series.parameters}
    telling = {
        key: value
        for key, value in query.items()
        if key in own or key.startswith((PARAMETER_PREFIX, VARIANT_PREFIX))
    }
    return all(_equals_unquoted(own.get(key, ""), value) for key, value in telling.items())


def _equals_unquoted(value: str, requested: str) -> bool:
    """A quoted text parameter may be typed without its quotes."""
    return requested in {value, value.strip("'\"")}


def _name_key(series: Series) -> object:
    return (series.benchmark.name, series.metric.name, series.parameters)


def _format_extension(extension: str) -> str:
    return f".{extension}" if extension else ""


def _format_query(values: Mapping[str, object], names: Mapping[str, str] | None = None) -> str:
    """Knobs left as they are stay out of the address; a name says something even when it is empty."""
    told = dict(names or {}) | {key: str(value) for key, value in values.items() if value not in ("", None)}
    return f"?{urlencode(told, safe='/:,')}" if told else ""
