"""Places of series (machine, variant and what else tells them apart), as short as a list allows.

Two series of one list never read alike: what the listed series differ in stands beside each name, what
all of them share stands once above the list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from perfci.model import Series, Variant

SHORT_VARIANT_NAMES: Mapping[str, str] = {"python": "py", "environment_type": ""}
"""Variant axes whose value says enough with a short prefix: ``py3.13`` instead of ``python=3.13``."""

VERSION_LENGTH = 8
"""Characters shown of a benchmark's version, a hash of its code; more where these are equal."""


class SeriesPlaces:
    """The places of the series of one list.

    Machine and variant axes in which any two listed series differ are shown with every series that has
    them. Series that still read alike also get what else they differ in: version, hardware, harness, unit.
    """

    def __init__(self, listed: Iterable[Series]) -> None:
        self._listed = tuple(dict.fromkeys(listed))
        self._texts_by_series = {series: _place_texts(series) for series in self._listed}

    @cached_property
    def common(self) -> str:
        """What all listed series share of machine and variant: ``ubuntu-latest · conda``; may be empty."""
        if not self._listed:
            return ""
        texts = self._texts_by_series[self._listed[0]]
        return " · ".join(text for axis, text in texts.items() if axis not in self._differing_axes and text)

    def label(self, series: Series) -> str:
        """What tells a series apart from the others of the list: ``py3.13 · H100``; may be empty."""
        return " · ".join(filter(None, (self._differing_text(series), self.tie_breaker(series))))

    def tie_breaker(self, series: Series) -> str:
        """What tells a series apart from listed ones of its name, machine and variant; may be empty."""
        return " · ".join(self._tie_breakers.get(series, ()))

    def _differing_text(self, series: Series) -> str:
        texts = self._texts_by_series.get(series) or _place_texts(series)
        return " · ".join(text for axis, text in texts.items() if axis in self._differing_axes and text)

    @cached_property
    def _differing_axes(self) -> frozenset[str]:
        texts = self._texts_by_series.values()
        axes = {axis for series_texts in texts for axis in series_texts}
        return frozenset(
            axis for axis in axes if len({series_texts.get(axis, "") for series_texts in texts}) > 1
        )

    @cached_property
    def _tie_breakers(self) -> dict[Series, list[str]]:
        """The further texts of series that agree in name and place."""
        same_label: dict[object, list[Series]] = defaultdict(list)
        for series in self._listed:
            # by what a reader sees: two different parameters may have one text
            same_label[series.cell, series.metric.name, self._differing_text(series)].append(series)
        tie_breakers: dict[Series, list[str]] = {}
        for namesakes in same_label.values():
            if len(namesakes) > 1:
                tie_breakers |= _distinguish_further(namesakes)
        return tie_breakers


def name_lines(series: Sequence[Series]) -> dict[Series, str]:
    """What tells series apart: their place alone where they share the benchmark."""
    places = SeriesPlaces(series)
    labels = {each.label for each in series}
    return {
        each: places.label(each) or each.label
        if len(labels) == 1
        else f"{each.label} {places.label(each)}".strip()
        for each in series
    }


def _place_texts(series: Series) -> dict[str, str]:
    """The texts of the machine and of each variant axis, by axis."""
    axes = {f"variant {name}": short_axis_text(name, value) for name, value in series.variant.values}
    return {"machine": series.machine.label, **axes}


def short_axis_text(name: str, value: str) -> str:
    """An axis of a variant and its value, as short as readers know it: ``py3.13``, ``torch=2.13``."""
    return f"{SHORT_VARIANT_NAMES.get(name, f'{name}=')}{value}" if value else f"{name}="


def short_variant_text(variant: Variant) -> str:
    """The values of a variant: ``conda · py3.13``; empty where there is none."""
    return " · ".join(short_axis_text(name, value) for name, value in variant.values)


def _distinguish_further(namesakes: list[Series]) -> dict[Series, list[str]]:
    """What else namesakes differ in; parameters of equal text get their place in the list."""
    columns = [
        _version_texts(namesakes),
        [series.machine.cpu for series in namesakes],
        [f"{series.machine.cores} cores" if series.machine.cores else "" for series in namesakes],
        [f"{series.machine.memory_gb} GB" if series.machine.memory_gb else "" for series in namesakes],
        [_accelerator_text(series) for series in namesakes],
        [series.machine.name for series in namesakes],
        [series.harness for series in namesakes],
        [series.metric.unit for series in namesakes],
        [f"{series.metric.direction} is better" for series in namesakes],
        [", ".join(name for name, _ in series.parameters) for series in namesakes],
    ]
    rows = [
        [text for text, column in zip(texts, columns, strict=True) if text and len(set(column)) > 1]
        for texts in zip(*columns, strict=True)
    ]
    if len(set(map(tuple, rows))) < len(rows):
        rows = [[*texts, f"#{number}"] for number, texts in enumerate(rows, start=1)]
    return dict(zip(namesakes, rows, strict=True))


def _version_texts(namesakes: Iterable[Series]) -> list[str]:
    versions = [series.benchmark.version for series in namesakes]
    length = VERSION_LENGTH
    while len({version[:length] for version in versions}) < len(set(versions)):
        length *= 2
    return [f"version {version[:length]}" if version else "without version" for version in versions]


def _accelerator_text(series: Series) -> str:
    machine = series.machine
    return f"{machine.accelerators}x {machine.accelerator}" if machine.accelerator else ""
