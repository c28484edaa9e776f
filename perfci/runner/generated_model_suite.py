"""Render the ``[[model]]`` tables of perfci.toml as a module of the suite."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from perfci.config import ModelTable
from perfci.model import PerfciError
from perfci.runner.frozen_suite import IGNORED_NAMES, FrozenSuite, freeze_suite, resolve_suite_folder

MODULE_NAME = "perfci_models.py"

MODULE_HEADER = '''"""The [[model]] tables of perfci.toml, written down by perfci: edit those, not this."""

from perfci.bench import ModelBench, config_hooks
'''

HOOK_TEMPLATE = """
    def {hook}(self, *arguments):
        return config_hooks.call_hook(self.device, {model!r}, {hook!r}, {dotted!r}, *arguments)
"""

STEP_TEMPLATE = """
    def step(self, model, batch, optimizer, p, scaler):
        offered = {{"optimizer": optimizer, "p": p, "scaler": scaler}}
        return config_hooks.call_hook(self.device, {model!r}, {hook!r}, {dotted!r}, model, batch, **offered)
"""


def freeze_suite_with_models(folder: Path, models: Sequence[ModelTable], private_folder: Path) -> FrozenSuite:
    """Freeze a suite with its models; where there are models, the folder itself need not exist."""
    if not models:
        return freeze_suite(resolve_suite_folder(folder), private_folder)
    with tempfile.TemporaryDirectory(prefix="perfci-suite-") as scratch:
        merged = Path(scratch) / folder.name
        if folder.exists():
            own = resolve_suite_folder(folder)
            merged = Path(scratch) / own.resolve().name
            shutil.copytree(own, merged, ignore=shutil.ignore_patterns(*IGNORED_NAMES))
        if (merged / MODULE_NAME).exists():
            raise PerfciError(
                f"the suite {folder} has a module {MODULE_NAME}, where perfci writes the "
                "[[model]] tables of perfci.toml; "
                "give yours another name"
            )
        merged.mkdir(exist_ok=True)
        (merged / MODULE_NAME).write_text(render_models_module(models))
        return freeze_suite(merged, private_folder)


def render_models_module(models: Sequence[ModelTable]) -> str:
    """One ModelBench for each table; its hooks' text holds their dotted names, which the version follows."""
    parts = [MODULE_HEADER]
    for model in models:
        parts.append(f"\n\nclass {model.name}(ModelBench):\n")
        parts += [f"    {name} = {value!r}\n" for name, value in model.options_without_hooks.items()]
        for hook, dotted in model.hook_dotted_names.items():
            template = STEP_TEMPLATE if hook == "step" else HOOK_TEMPLATE
            parts.append(template.format(hook=hook, model=model.name, dotted=dotted))
    return "".join(parts)
