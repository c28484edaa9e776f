"""Which cells are variants of each other, and what is wrong with an axis."""

from __future__ import annotations

import pytest

from perfci.config import AblationTable
from perfci.measure.measure_ablation_steps import expand_step_assignments
from perfci.measure.variant_groups import (
    VariantAxis,
    build_assignments,
    group_variants,
    validate_variant_assignments,
)
from perfci.model import PerfciError
from perfci.runner.suite_cells import Cell, DiscoveredBenchmark, expand_cells


def cells(**grid: tuple[str, ...]) -> list[Cell]:
    benchmark = DiscoveredBenchmark(
        "model.Gpt.measure_training", "1", "track", (), tuple(grid), tuple(grid.values()), None, None, None
    )
    return expand_cells([benchmark], "", 60.0)


GRID = {"attn": ("'sdpa'", "'flash'", "'math'"), "batch": ("1", "8")}


def test_groups_cells_that_differ_only_in_varied_parameters() -> None:
    variants = group_variants(cells(**GRID), build_assignments([VariantAxis.parse("attn=sdpa,flash")]))

    assert [
        (family.shared_parameters, [cell.name for cell in family.cells.values()]) for family in variants
    ] == [
        (
            (("batch", "1"),),
            ["model.Gpt.measure_training('sdpa', 1)", "model.Gpt.measure_training('flash', 1)"],
        ),
        (
            (("batch", "8"),),
            ["model.Gpt.measure_training('sdpa', 8)", "model.Gpt.measure_training('flash', 8)"],
        ),
    ]


def test_several_axes_make_every_combination_and_the_first_is_the_baseline() -> None:
    assignments = build_assignments([VariantAxis.parse("attn=sdpa,flash"), VariantAxis.parse("batch=1,8")])

    (variant,) = group_variants(cells(**GRID), assignments)

    assert [(assignment["attn"], assignment["batch"]) for assignment in assignments] == [
        ("sdpa", "1"),
        ("sdpa", "8"),
        ("flash", "1"),
        ("flash", "8"),
    ]
    assert (list(variant.cells), variant.varied_parameters) == ([0, 1, 2, 3], ("attn", "batch"))


MALFORMED = ["attn", "attn=", "attn=sdpa", "attn=sdpa,sdpa", "=a,b", "attn=a,"]


@pytest.mark.parametrize("text", MALFORMED)
def test_refuses_an_axis_that_compares_nothing(text: str) -> None:
    with pytest.raises(PerfciError) as error:
        VariantAxis.parse(text)

    assert str(error.value) == (
        f"--vary {text!r}: a parameter and two or more different values were expected, such as "
        f"attn=sdpa,flash"
    )


UNKNOWN = {
    "atn=sdpa,flash": "--vary: no benchmark here has a parameter 'atn' (did you mean 'attn'?); "
    "there are attn and batch",
    "attn=sdpa,flsh": "--vary: attn has no value 'flsh' (did you mean 'flash'?); it has sdpa, flash and math",
    "batch=1,9": "--vary: batch has no value '9'; it has 1 and 8",
}


@pytest.mark.parametrize(("text", "sentence"), UNKNOWN.items())
def test_lists_the_existing_parameters_and_values(text: str, sentence: str) -> None:
    with pytest.raises(PerfciError) as error:
        validate_variant_assignments(cells(**GRID), build_assignments([VariantAxis.parse(text)]), "--vary")

    assert str(error.value) == sentence


def test_reports_that_no_benchmark_has_both_sides() -> None:
    apart = [*cells(attn=("'sdpa'",), batch=("1",)), *cells(attn=("'flash'",), batch=("8",))]

    with pytest.raises(PerfciError) as error:
        validate_variant_assignments(
            apart, build_assignments([VariantAxis.parse("attn=sdpa,flash")]), "--vary"
        )

    assert str(error.value) == (
        "--vary: no benchmark has both attn=sdpa and another of the variants, all else being equal"
    )


def test_an_ablation_step_keeps_the_parameters_it_does_not_set() -> None:
    steps = [
        {"name": "baseline", "set": {"dtype": "fp32", "checkpoint": False}},
        {"name": "+bf16", "set": {"dtype": "bf16"}},
        {"name": "+checkpointing", "set": {"checkpoint": True}},
    ]

    result = expand_step_assignments(AblationTable.model_validate({"name": "speed", "steps": steps}))

    assert result == [
        {"dtype": "fp32", "checkpoint": "False"},
        {"dtype": "bf16", "checkpoint": "False"},
        {"dtype": "bf16", "checkpoint": "True"},
    ]


def test_an_ablation_must_start_with_every_parameter_it_changes() -> None:
    steps = [{"name": "baseline", "set": {"dtype": "fp32"}}, {"name": "+flash", "set": {"attn": "flash"}}]

    with pytest.raises(PerfciError) as error:
        expand_step_assignments(AblationTable.model_validate({"name": "speed", "steps": steps}))

    assert str(error.value) == (
        "the ablation 'speed': the step '+flash' sets attn, which the first step does not; "
        "the first step has to set every parameter that a later step changes"
    )
