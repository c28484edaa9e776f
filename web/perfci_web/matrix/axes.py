"""What the series of one benchmark and metric differ in: parameters, axes of variants, and the machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from perfci.model import Series
from perfci_web.lens import AXIS_PREFIX, MACHINE_KEY
from perfci_web.page_urls import PARAMETER_PREFIX
from perfci_web.place_slugs import machine_slug

NOT_SET = "(none)"
"""The value of a parameter or variant axis that a series does not have."""


@dataclass(frozen=True, slots=True)
class AxisValue:
    """A value as addresses spell it, and as a reader sees it."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Something that series differ in: ``p.batch``, ``axis.python`` or ``machine``, with its values."""

    key: str
    label: str
    values: tuple[AxisValue, ...]

    def label_of(self, value: str) -> str:
        return next((each.label for each in self.values if each.value == value), value)

    def value_named(self, text: str) -> str | None:
        """The value that an address means: as it is spelled there, or as it is shown."""
        spelled = (each.value for each in self.values if text in (each.value, each.label))
        return next(spelled, None)


def list_axes(series: Collection[Series]) -> list[Axis]:
    """List the axes with two or more values: parameters in their order, variants, then machines."""
    parameters = dict.fromkeys(f"{PARAMETER_PREFIX}{name}" for each in series for name, _ in each.parameters)
    variants = sorted({f"{AXIS_PREFIX}{name}" for each in series for name, _ in each.variant.values})
    axes = (_build_axis(key, series) for key in (*parameters, *variants, MACHINE_KEY))
    return [axis for axis in axes if len(axis.values) > 1]


def axis_value(series: Series, key: str) -> str:
    """The value of a series on an axis."""
    if key == MACHINE_KEY:
        return machine_slug(series.machine)
    if key.startswith(PARAMETER_PREFIX):
        return dict(series.parameters).get(key.removeprefix(PARAMETER_PREFIX), NOT_SET)
    return str(dict(series.variant.values).get(key.removeprefix(AXIS_PREFIX), NOT_SET))


def find_axis(axes: Iterable[Axis], name: str) -> Axis | None:
    """Find the axis that an address means: by its key, or by its name alone."""
    return next((axis for axis in axes if name in (axis.key, axis.label)), None)


def _build_axis(key: str, series: Iterable[Series]) -> Axis:
    labels = {axis_value(each, key): _value_label(each, key) for each in series}
    if len(set(labels.values())) < len(labels):
        labels = {value: value for value in labels}
    values = (AxisValue(value, labels[value]) for value in sorted(labels, key=_sort_key))
    return Axis(key, key.removeprefix(PARAMETER_PREFIX).removeprefix(AXIS_PREFIX), tuple(values))


def _value_label(series: Series, key: str) -> str:
    return series.machine.label if key == MACHINE_KEY else axis_value(series, key).strip("'\"")


def _sort_key(value: str) -> tuple[bool, float, str]:
    """Numbers by size, before texts by name."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value
