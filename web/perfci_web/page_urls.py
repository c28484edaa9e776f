"""Where everything is: readable, stable addresses made of names and shas, never of row ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from perfci.config import RESERVED_PROJECTS
from perfci.model import Series
from perfci.net.url_segments import segment

PARAMETER, VARIANT = "p.", "v."
"""What stands before the name of a parameter or of a chosen environment axis in a query."""


def project_segment(project: str) -> str:
    return segment(project, RESERVED_PROJECTS)


class Links:
    """The addresses of one project's pages below ``root``.

    A series is named by benchmark, metric and parameters; where that leaves several (another machine, variant or
    version), the address also names whatever they differ in.
    """

    def __init__(self, project: str, series: Iterable[Series] = (), *, root: str = "") -> None:
        self.root = root
        self.project = f"{root}/{project_segment(project)}"
        self._namesakes: dict[object, set[Series]] = defaultdict(set)
        for one in series:
            self._namesakes[_name(one)].add(one)

    @property
    def overview(self) -> str:
        return f"{self.project}/"

    def incidents(self, twin: str = "", **knobs: object) -> str:
        return f"{self.project}/incidents{_suffix(twin)}{_query(knobs)}"

    def incident(self, number: int, twin: str = "") -> str:
        return f"{self.project}/incidents/{number}{_suffix(twin)}"

    def ledger(self, twin: str = "", **knobs: object) -> str:
        return f"{self.project}/ledger{_suffix(twin)}{_query(knobs)}"

    def benchmarks(self, twin: str = "", **knobs: object) -> str:
        return f"{self.project}/benchmarks{_suffix(twin)}{_query(knobs)}"

    def series(self, series: Series, twin: str = "", **knobs: object) -> str:
        place = f"{segment(series.benchmark.name)}/{segment(series.metric.name)}"
        return f"{self.project}/s/{place}{_suffix(twin)}{_query(knobs, self._told_apart(series))}"

    def compare(self, base: str, head: str, twin: str = "") -> str:
        return f"{self.project}/compare/{segment(base)}...{segment(head)}{_suffix(twin)}"

    def calibration(self, twin: str = "") -> str:
        return f"{self.project}/calibration{_suffix(twin)}"

    def commit(self, sha: str) -> str:
        return f"{self.project}/commit/{segment(sha)}"

    def _told_apart(self, series: Series) -> dict[str, str]:
        """Its parameters, and as few qualifiers as exclude every namesake."""
        named, own = {f"{PARAMETER}{name}": value for name, value in series.parameters}, qualifiers(series)
        others = [qualifiers(one) for one in self._namesakes[_name(series)] - {series}]
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
        **{f"{VARIANT}{name}": value for name, value in series.variant.values},
        "version": series.benchmark.version,
        "cpu": machine.cpu,
        "cores": str(machine.cores or ""),
        "memory": str(machine.memory_gb or ""),
        "accelerator": f"{machine.accelerators}x {machine.accelerator}" if machine.accelerator else "",
        "harness": series.harness,
        "unit": series.metric.unit,
        "direction": series.metric.direction,
    }


def answers_to(series: Series, query: Mapping[str, str]) -> bool:
    """Whether a series is meant by an address: every key that names something must agree, others mean nothing here."""
    own = qualifiers(series) | {f"{PARAMETER}{name}": value for name, value in series.parameters}
    telling = {key: value for key, value in query.items() if key in own or key.startswith((PARAMETER, VARIANT))}
    return all(_same(own.get(key, ""), value) for key, value in telling.items())


def _same(own: str, asked: str) -> bool:
    """A quoted text parameter may be typed without its quotes."""
    return asked in {own, own.strip("'\"")}


def _name(series: Series) -> object:
    return (series.benchmark.name, series.metric.name, series.parameters)


def _suffix(twin: str) -> str:
    return f".{twin}" if twin else ""


def _query(knobs: Mapping[str, object], names: Mapping[str, str] | None = None) -> str:
    """Knobs left as they are stay out of the address; a name says something even when it is empty."""
    told = dict(names or {}) | {key: str(value) for key, value in knobs.items() if value not in ("", None)}
    return f"?{urlencode(told, safe='/:,')}" if told else ""
