"""The documents that the filters read: their schema, and what is answered to an invalid part."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from perfci.formats.value_parsing import describe_first_error
from perfci.model import PerfciError

Document = dict[str, Any]
"""A JSON object."""

MAX_LOG_RATIO = math.log(sys.float_info.max)
"""Values further apart than this have no ratio that a number can express."""

MAX_PAIRS_CAP = 10_000
"""Largest ``max_pairs``: far beyond what anybody measures, and its looks are still planned at once."""

Name = str | int | FiniteFloat | None
Share = Annotated[FiniteFloat, Field(ge=0)]
Sample = Annotated[FiniteFloat, Field(gt=0)]
LogRatio = Annotated[FiniteFloat, Field(gt=-MAX_LOG_RATIO, lt=MAX_LOG_RATIO)]
Side = Annotated[list[Annotated[list[Sample], Field(min_length=1)]], Field(min_length=1)]


class FilterDocument(BaseModel):
    """A document or a part of one; unknown fields are ignored, and no text is read as a number."""

    model_config = ConfigDict(strict=True, frozen=True)


class CaseDocument(FilterDocument):
    """Samples of both sides, one list a process, and the log ratios of earlier A/A runs."""

    id: Name = None
    group: Name = None
    base: Side
    head: Side
    aa: list[LogRatio] | None = None


class SeriesDocument(FilterDocument):
    """Values of a series, oldest first."""

    id: Name = None
    values: Annotated[list[FiniteFloat], Field(min_length=1)]


class PositiveSeriesDocument(SeriesDocument):
    """Values of which ratios are formed."""

    values: Annotated[list[Sample], Field(min_length=1)]


class JudgeDocument(FilterDocument):
    """Cases to compare, or to decide with further pairs."""

    op: Literal["compare", "decide"] = "compare"
    cases: list[Document]
    min_effect: Share = 0.05
    max_pairs: Annotated[int, Field(ge=1, le=MAX_PAIRS_CAP)] = 20


class DetectDocument(FilterDocument):
    """Series to find change points in; 0 asks for every change, of which no ratio is needed."""

    series: list[Document]
    min_effect: Share = 0.05


AnyDocument = TypeVar("AnyDocument", bound=FilterDocument)
Parsed = TypeVar("Parsed")


def parse_document(schema: type[AnyDocument], document: Mapping[str, Any]) -> AnyDocument:
    """Parse what was read from standard input; raises ``PerfciError``."""
    try:
        return schema.model_validate(document)
    except ValidationError as error:
        raise PerfciError(f"another document was expected: {describe_first_error(error)}") from None


def parse_items_or_errors(
    items: Sequence[Document], parse: Callable[[Document], Parsed]
) -> tuple[dict[int, Parsed], dict[int, Document]]:
    """Valid items by their place, and the answers to the others: each fails alone."""
    parsed, errors = {}, {}
    for place, item in enumerate(items):
        try:
            parsed[place] = parse(item)
        except ValueError as error:
            is_invalid = isinstance(error, ValidationError)
            text = describe_first_error(error) if is_invalid else str(error)  # type: ignore[arg-type]
            name = item.get("id")
            # an id that is no JSON itself cannot be answered
            is_json = not isinstance(name, float) or math.isfinite(name)
            errors[place] = {"id": name if is_json else None, "error": text}
    return parsed, errors


def require_representable_ratio(logarithms: Sequence[float]) -> None:
    """Refuse logarithms of values that have no ratio."""
    if not all(map(math.isfinite, logarithms)) or max(logarithms) - min(logarithms) >= MAX_LOG_RATIO:
        raise ValueError("expected values close enough for a ratio, found some too far apart for any number")
