"""The files that `perfci init` writes: a configuration, a suite for the repository's model, two workflows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfci.scaffold.install_source import INDEX_SOURCE, set_install_source
from perfci.scaffold.workflow_templates import REPORT_WORKFLOW, render_measure_workflow

SKIPPED_FOLDERS = {"tests", "test", "benchmarks", "docs", "examples", "build", "dist", "site-packages"}


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A torch module that can be built without arguments, by its import path."""

    module: str
    name: str


def render_starter_files(
    root: Path, project: str, branch: str = "", runner: str = "", install_source: str | None = INDEX_SOURCE
) -> dict[str, str]:
    """Map the name of each starter file to its text.

    ``branch`` is the one whose history is measured, ``runner`` the label of machines of the user's own,
    ``install_source`` what jobs install perfci from, see ``find_install_source``.
    """
    model = find_torch_model(root)
    suite = MODEL_SUITE_TEMPLATE.format(module=model.module, name=model.name) if model else EXAMPLE_SUITE
    return {
        "perfci.toml": CONFIG_TEMPLATE.format(project=project),
        "benchmarks/__init__.py": "",
        "benchmarks/starter.py": suite,
        ".github/workflows/perf.yml": set_install_source(
            render_measure_workflow(branch, runner), install_source
        ),
        ".github/workflows/perf-report.yml": set_install_source(REPORT_WORKFLOW, install_source),
    }


def falls_back_to_default_branches(branch: str) -> bool:
    """Whether the workflow measures ``main`` and ``master``, for lack of a plain branch name."""
    return render_measure_workflow(branch) == render_measure_workflow()


def find_torch_model(root: Path) -> TorchModel | None:
    """Pick the module that no other module of the repository is built from: most likely the whole model."""
    candidates: list[tuple[TorchModel, str]] = []
    called: set[str] = set()
    for path in _python_files(root):
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue  # a template, or another Python's
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called.add(_last_name(node.func))
            elif isinstance(node, ast.ClassDef):
                is_torch_module = any(_last_name(base) == "Module" for base in node.bases)
                if is_torch_module and _is_buildable_without_arguments(node):
                    candidates.append((TorchModel(_import_path(root, path), node.name), node.name))
    whole = [model for model, name in candidates if name not in called] or [model for model, _ in candidates]
    return whole[-1] if whole else None


def _python_files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        skipped = any(part.startswith((".", "test_")) or part in SKIPPED_FOLDERS for part in parts)
        in_environment = any(
            (root.joinpath(*parts[:i]) / "pyvenv.cfg").exists() for i in range(1, len(parts))
        )
        if not skipped and not in_environment:
            yield path


def _is_buildable_without_arguments(node: ast.ClassDef) -> bool:
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            arguments = function.args
            optional = len(arguments.defaults)
            required_keywords = [default for default in arguments.kw_defaults if default is None]
            return len(arguments.posonlyargs) + len(arguments.args) - 1 <= optional and not required_keywords
    return True


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _import_path(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" and len(parts) > 1 else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


CONFIG_TEMPLATE = """\
# perfci: docs/settings.md in its repository describes every key and its default.
[project]
name = "{project}"

[suite]
path = "benchmarks"
"""

MODEL_SUITE_TEMPLATE = '''\
"""Speed and memory of {name}. Written by `perfci init`: make `example_batch` look like your data."""

import functools

import torch
from perfci.bench import ModelBench, skip_exception

from {module} import {name}


class {name}Bench(ModelBench):
    """Step time and its phases, memory, exact counts, the loss.

    Give `stream` as well if the model generates.
    """

    groups = ("training", "step_counts", "numerics")  # "cold_start" takes some seconds more per process
    budget_s = 0.5  # seconds of timed steps in one process

    def build(self, p):
        return {name}().to(self.device)

    def batch(self, p, i):
        return example_batch().to(self.device)

    def loss(self, model, batch):
        return loss_of(model(batch))


def example_batch():
    """An input that the model takes, guessed from its first layers; replace it by a batch of yours."""
    return guess_input()(generator=torch.Generator().manual_seed(0))


@functools.cache
def guess_input():
    model = {name}()
    guesses = []
    for layer in model.modules():
        if isinstance(layer, torch.nn.Embedding):
            guesses.append(functools.partial(torch.randint, layer.num_embeddings, (4, 32)))
        elif isinstance(layer, torch.nn.Linear):
            shapes = (32, layer.in_features), (4, 32, layer.in_features)
            guesses += [functools.partial(torch.randn, shape) for shape in shapes]
        elif isinstance(layer, torch.nn.Conv2d):
            shapes = [(4, layer.in_channels, size, size) for size in (32, 28, 64, 224)]
            guesses += [functools.partial(torch.randn, shape) for shape in shapes]
        elif isinstance(layer, torch.nn.Conv1d):
            guesses.append(functools.partial(torch.randn, (4, layer.in_channels, 128)))
    guesses += [functools.partial(torch.randn, (4, 16)), functools.partial(torch.randint, 16, (4, 16))]
    for guess in guesses:
        try:
            model(guess())
            return guess
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
    raise skip_exception("edit example_batch in benchmarks/starter.py: no guessed input suits the model")


def loss_of(output):
    """Reduce whatever the model returns to one number; replace it by your loss."""
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        return sum(loss_of(part) for part in output if torch.is_tensor(part) and part.is_floating_point())
    return output.float().square().mean()
'''

EXAMPLE_SUITE = '''\
"""Written by `perfci init`, which found no torch module that can be built without arguments:
measure yours here.

Give `stream` as well if the model generates; functions named time_, mem_, peakmem_ or track_
are benchmarks as in asv.
"""

import torch
from perfci.bench import ModelBench


class Example(ModelBench):
    """Replace the layers by `from your_package import YourModel`, the batch and the loss by yours."""

    groups = ("training", "step_counts", "numerics")  # "cold_start" takes some seconds more per process
    budget_s = 0.5  # seconds of timed steps in one process

    def build(self, p):
        layers = torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 128)
        return torch.nn.Sequential(*layers).to(self.device)

    def batch(self, p, i):
        return torch.randn(64, 128, generator=torch.Generator().manual_seed(i)).to(self.device)

    def loss(self, model, batch):
        return model(batch).square().mean()
'''
