"""The filter ``perfci detect``: change points of series."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfci.formats.json_filters.input_documents import (
    DetectDocument,
    Document,
    Name,
    PositiveSeriesDocument,
    SeriesDocument,
    parse_document,
    parse_items_or_errors,
    require_representable_ratio,
)
from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.stats.location_estimates import Floats
from perfci.stats.step_size import LevelStep


@dataclass(frozen=True, slots=True)
class FilterSeries:
    """Values of a series, shape (n,)."""

    id: Name
    values: Floats

    @classmethod
    def parse(cls, item: Document) -> FilterSeries:
        """Parse values that may be zero or less."""
        return cls._from_document(SeriesDocument.model_validate(item))

    @classmethod
    def parse_positive(cls, item: Document) -> FilterSeries:
        """Parse positive values."""
        return cls._from_document(PositiveSeriesDocument.model_validate(item))

    @classmethod
    def _from_document(cls, series: SeriesDocument) -> FilterSeries:
        values = np.array(series.values, dtype=float)
        # of zero every value is a multiple beyond all numbers, so zeros do not count
        sizes = np.abs(values[values != 0]) if values.min() <= 0 else values
        if len(sizes):
            require_representable_ratio([math.log(sizes.min()), math.log(sizes.max())])
        return cls(series.id, values)


def detect_change_points_json(document: Mapping[str, Any]) -> Document:
    """Detect the change points of every series; an invalid series gets an error of its own."""
    request = parse_document(DetectDocument, document)
    parse = FilterSeries.parse_positive if request.min_effect > 0 else FilterSeries.parse
    series, errors = parse_items_or_errors(request.series, parse)
    steps = detect_change_points_in_many([item.values for item in series.values()], request.min_effect)
    answers = {
        place: {"id": item.id, "change_points": [_serialize_step(step) for step in item_steps]}
        for (place, item), item_steps in zip(series.items(), steps, strict=True)
    }
    answers |= errors
    return {"results": [answers[place] for place in range(len(answers))]}


def _serialize_step(step: LevelStep) -> Document:
    """A step with its size after / before - 1 and the 95 % interval of that; None where the level before is
    zero or less, of which nothing is a share."""
    size = step.relative_change if step.before > 0 else math.inf
    return {
        "index": step.index,
        "rel": size if math.isfinite(size) else None,
        "before": step.before,
        "after": step.after,
        "rel_ci": None if step.lower is None else [step.lower, step.upper],
    }
