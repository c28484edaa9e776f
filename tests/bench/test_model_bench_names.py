"""A misspelt group, hook, setting or parameter of a model benchmark is an error that names the right one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from torch import nn

from perfci.bench import ModelBench
from perfci.model import PerfciError


def define_benchmark(**attributes: Any) -> type[ModelBench]:
    def build(self: ModelBench, p: Mapping[str, Any]) -> nn.Module:
        return nn.Linear(2, 2)

    grid = {"batch": [1, 2], "dtype": ["fp32", "bf16"]}
    body = {"__module__": __name__, "build": build, "params": grid, **attributes}
    return type("Net", (ModelBench,), body)


def any_hook(self: ModelBench, *arguments: Any) -> None:
    """Stands for a method of the author's."""


MISSPELT = {
    "a group": (
        {"groups": ("trainig",)},
        "Net.groups names 'trainig', which is no metric group; did you mean 'training'?",
    ),
    "groups as a string": ({"groups": "numerics"}, "Net.groups is a string; write groups = ('numerics',)"),
    "a hook": (
        {"strem": any_hook},
        "Net.strem is nothing that ModelBench knows; did you mean 'stream'? Call it _strem if it is your own",
    ),
    "a hook in British spelling": (
        {"optimiser": any_hook},
        "Net.optimiser is nothing that ModelBench knows; did you mean 'optimizer'? "
        "Call it _optimiser if it is your own",
    ),
    "a setting": (
        {"budgets_s": 1.0},
        "Net.budgets_s is nothing that ModelBench knows; did you mean 'budget_s'? "
        "Call it _budgets_s if it is your own",
    ),
    "a number by the name of a hook": (
        {"prompt": 16},
        "Net.prompt is 16, but ModelBench calls prompt as a hook; make it a method, or call it _prompt if "
        "it is your own",
    ),
    "a reference": (
        {"reference": {"dtpye": "fp32"}},
        "Net.reference sets 'dtpye', which is no parameter of it; did you mean 'dtype'?",
    ),
    "a reference that is like nothing": (
        {"reference": {"fast": False}},
        "Net.reference sets 'fast', which is no parameter of it; known are batch, dtype",
    ),
    "the parameter of the number format": (
        {"params": {"dtypes": ["fp32", "bf16"]}},
        "Net.params has 'dtypes'; did you mean 'dtype'? A number format under another name has no effect",
    ),
}


@pytest.mark.parametrize(("attributes", "sentence"), MISSPELT.values(), ids=MISSPELT)
def test_a_misspelt_name_is_an_error_with_a_suggestion(attributes: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(PerfciError, match=f"^{re.escape(sentence)}$"):
        define_benchmark(**attributes)


def test_an_unknown_group_is_listed_with_all_groups() -> None:
    with pytest.raises(PerfciError, match=r"no metric group; known are training, step_counts, numerics, "):
        define_benchmark(groups=("speed",))


@pytest.mark.parametrize(
    "attributes",
    [
        {"batch": any_hook, "batches": any_hook},
        {"_strem": any_hook},
        {"request": any_hook},
        {"types": ["a", "b"], "make_tokens": any_hook},
        {"params": {"decision": ["fp", "b"]}},
        {"params": {}, "reference": {"fast": False}},
    ],
)
def test_names_of_the_authors_own_are_left_alone(attributes: Mapping[str, Any]) -> None:
    define_benchmark(**attributes)


def test_a_parameter_that_a_hook_misspells_is_an_error_with_a_suggestion() -> None:
    benchmark: Any = define_benchmark(batch=lambda self, p, i: p["bacth"])

    hooks = benchmark().bind_hooks({"batch": 2, "dtype": "bf16"})

    with pytest.raises(KeyError, match="the benchmark has no parameter 'bacth'; did you mean 'batch'"):
        hooks.batch(0)
