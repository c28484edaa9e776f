"""The ``[[model]]`` tables of perfci.toml become a module of the suite, so that everything else finds a plain suite."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfci.config import ModelTable
from perfci.model import PerfciError
from perfci.runner.frozen_suite import IGNORED, Suite, find_suite, freeze

MODULE = "entries.py"

HEAD = '''"""The [[model]] tables of perfci.toml, written down by perfci: edit those, not this."""

from perfci.bench import ModelBench, entry_points
'''

HOOK = """
    def {hook}(self, *arguments):
        return entry_points.call(self, {model!r}, {hook!r}, {dotted!r}, *arguments)
"""


def freeze_with_models(folder: Path, models: Sequence[ModelTable], private: Path) -> Suite:
    """Freeze a suite with its models; where there are models, the folder itself need not exist."""
    if not models:
        return freeze(find_suite(folder), private)
    with tempfile.TemporaryDirectory(prefix="perfci-suite-") as scratch:
        whole = Path(scratch) / folder.name
        if folder.exists():
            own = find_suite(folder)
            whole = Path(scratch) / own.resolve().name
            shutil.copytree(own, whole, ignore=shutil.ignore_patterns(*IGNORED))
        if (whole / MODULE).exists():
            raise PerfciError(
                f"the suite {folder} has a module {MODULE}, where perfci writes the [[model]] tables of perfci.toml; "
                "give yours another name"
            )
        whole.mkdir(exist_ok=True)
        (whole / MODULE).write_text(models_module(models))
        return freeze(whole, private)


def models_module(models: Sequence[ModelTable]) -> str:
    """One ModelBench for each table; its hooks' text holds their dotted names, which the version follows."""
    return HEAD + "".join(f"\n\nclass {model.name}(ModelBench):\n{''.join(_body(model))}" for model in models)


def _body(model: ModelTable) -> Iterator[str]:
    yield from (f"    {name} = {value!r}\n" for name, value in model.said.items())
    for hook, dotted in model.hooks.items():
        yield HOOK.format(hook=hook, model=model.name, dotted=dotted)
