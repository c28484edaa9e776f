"""Hooks by dotted name: what is called, with what, and what is said when it is not there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfci.bench.config_hooks import call_hook, import_model_hook

DEVICE = "cuda:0"

HOOKS = """
VALUE = 7

def plain(p, i):
    return p, i

def placed(p, i, device="cpu"):
    return p, i, device

def anything(p, **options):
    return p, options

def whole(model, batch):
    return model, batch

def step(model, batch, optimizer):
    return model, batch, optimizer

class Net:
    @classmethod
    def build(cls, p, *, device):
        return p, device
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "hooks.py").write_text(HOOKS)
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("hooks", "broken"):
        sys.modules.pop(name, None)
    import_model_hook.cache_clear()


def test_passes_the_hooks_arguments_on() -> None:
    assert call_hook(DEVICE, "gpt", "batch", "hooks:plain", {"size": 1}, 3) == ({"size": 1}, 3)


def test_gives_the_device_to_a_function_that_names_it() -> None:
    assert call_hook(DEVICE, "gpt", "batch", "hooks:placed", {}, 3) == ({}, 3, "cuda:0")
    assert call_hook(DEVICE, "gpt", "build", "hooks:Net.build", {}) == ({}, "cuda:0")
    assert call_hook(DEVICE, "gpt", "build", "hooks:anything", {}) == ({}, {})


def test_gives_a_step_only_what_it_names() -> None:
    offered = {"optimizer": "adam", "p": {}, "scaler": None}

    assert call_hook(DEVICE, "gpt", "step", "hooks:step", "net", "x", **offered) == ("net", "x", "adam")
    assert call_hook(DEVICE, "gpt", "step", "hooks:whole", "net", "x", **offered) == ("net", "x")


WRONG = {
    "hooks:placd": "but hooks has no 'placd'; did you mean 'placed'?",
    "hooks:Net.fit": "but Net has no 'fit'",
    "hooks:VALUE": "but that is a int and cannot be called",
    "nowhere.at_all:build": (
        "but importing nowhere.at_all failed with ModuleNotFoundError: No module named 'nowhere'"
    ),
    "broken:build": (
        "but importing broken failed with ModuleNotFoundError: No module named 'nowhere_to_be_found'"
    ),
}


@pytest.mark.parametrize(("dotted", "sentence"), WRONG.items())
def test_reports_which_name_does_not_resolve(dotted: str, sentence: str) -> None:
    with pytest.raises(LookupError) as failed:
        call_hook(DEVICE, "gpt", "build", dotted, {})

    assert str(failed.value) == f"model 'gpt' in perfci.toml has build = {dotted!r}, {sentence}"
