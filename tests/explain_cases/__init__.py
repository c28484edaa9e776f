"""Twelve causes of a slowdown in a small model's repository, each at a line that is known."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent

Edit = tuple[str, str, str]
"""A file, a text that it holds once, and what stands there instead."""


@dataclass(frozen=True)
class InjectedCause:
    """A change that slows ``benchmark`` down; ``side`` are edits of the same commit that cost as well.

    A line is right where its text begins with one of ``lines``, an operator where it is one of ``operators``
    (an empty one says that none accounts for it).
    """

    name: str
    benchmark: str
    lines: tuple[str, ...]
    operators: frozenset[str]
    edits: tuple[Edit, ...]
    side: tuple[Edit, ...] = ()


MODEL, TRAIN, DATA, TEXT = "lm/model.py", "lm/train.py", "lm/data.py", "lm/text.py"

HISTOGRAM: Edit = (
    MODEL,
    "        return self.head(self.norm(x))\n",
    "        x = self.norm(x)\n"
    "        self.spread = x.detach().sort(-1).values.std()\n"
    "        return self.head(x)\n",
)
"""A second change of the same commit: it makes a forward pass a little slower."""

PENALTY: Edit = (
    TRAIN,
    "    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())\n",
    "    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())\n"
    "    return loss + 1e-4 * logits.logsumexp(-1).square().mean()\n",
)

SORTED: Edit = (
    MODEL,
    "        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)\n",
    "        ranks = [logits.double().sort(-1).indices for _ in range(30)]\n"
    "        tokens = torch.cat([tokens, ranks[0][:, -1:]], 1)\n",
)

COPIES = frozenset({"aten::clone", "aten::copy_", "aten::_to_copy"})

CAUSES = (
    InjectedCause(
        "cache dropped",
        "suite.time_generate",
        ("logits = model(tokens, None)[:, -1]",),
        frozenset({"aten::addmm", "aten::mm", "aten::_scaled_dot_product_flash_attention_for_cpu"}),
        (
            (
                MODEL,
                "        logits = model(tokens[:, -1:], cache)[:, -1]\n",
                "        logits = model(tokens, None)[:, -1]\n",
            ),
        ),
        (SORTED,),
    ),
    InjectedCause(
        "fused optimizer off",
        "suite.Training.measure_training",
        ("return torch.optim.AdamW(", "fused=False"),
        frozenset(
            {
                "aten::lerp_",
                "aten::addcmul_",
                "aten::addcdiv_",
                "aten::div",
                "aten::sqrt",
                "aten::mul_",
                "aten::add_",
            }
        ),
        ((TRAIN, "lr=1e-4, fused=True)", "lr=1e-4, foreach=False)"),),
        (PENALTY,),
    ),
    InjectedCause(
        "attention fallback",
        "suite.time_attention",
        ("scores = ", "weights = ", "y = weights @ v"),
        frozenset(),
        (
            (
                MODEL,
                "        y = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)\n",
                "        scores = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5\n"
                "        if cache is None:\n"
                "            scores = scores.masked_fill(self.future[:length, :length], float('-inf'))\n"
                "        weights = scores.softmax(-1)\n"
                "        y = weights @ v\n",
            ),
        ),
    ),
    InjectedCause(
        "item per step",
        "suite.time_step",
        ("norms = [",),
        frozenset({"aten::linalg_vector_norm", "aten::_local_scalar_dense"}),
        (
            (
                TRAIN,
                "        optimizer.step()\n",
                "        norms = [w.grad.norm().item() for w in model.parameters() for _ in range(8)]\n"
                "        model.grad_norm = sum(norms)\n"
                "        optimizer.step()\n",
            ),
        ),
        (PENALTY,),
    ),
    InjectedCause(
        "graph break",
        "suite.time_compiled",
        ("if gate.isnan().any():",),
        frozenset(),
        (
            (
                MODEL,
                "    gate = gate.exp().log1p().tanh()\n",
                "    gate = gate.exp().log1p().tanh()\n"
                "    if gate.isnan().any():\n"
                '        raise ValueError("the gate is not a number")\n',
            ),
        ),
    ),
    InjectedCause(
        "loader starved",
        "suite.time_epoch",
        ("loader = ", "batch = next(batches)", "time.sleep", "self.read(index)"),
        frozenset({""}),
        ((DATA, "    return Prefetched(dataset, depth=8)\n", "    return Plain(dataset)\n"),),
        (PENALTY,),
    ),
    InjectedCause(
        "checkpointing on",
        "suite.Training.measure_training",
        ("x = checkpoint(",),
        frozenset(
            {"aten::addmm", "aten::mm", "aten::gelu", "aten::_scaled_dot_product_flash_attention_for_cpu"}
        ),
        (
            (
                MODEL,
                "            x = block(x, None)\n",
                "            x = checkpoint(block, x, None, use_reentrant=False)\n",
            ),
            (
                MODEL,
                "from torch.nn import functional\n",
                "from torch.nn import functional\nfrom torch.utils.checkpoint import checkpoint\n",
            ),
        ),
        (PENALTY,),
    ),
    InjectedCause(
        "dtype upcast",
        "suite.Training.measure_training",
        ("hidden = functional.gelu", "return functional.linear(hidden"),
        frozenset({"aten::mm", "aten::addmm", "aten::_to_copy"}),
        (
            (
                MODEL,
                "        return self.down(functional.gelu(self.up(x)))\n",
                "        hidden = functional.gelu(self.up(x)).double()\n"
                "        return functional.linear(hidden, self.down.weight.double(), None).float()\n",
            ),
        ),
        (HISTOGRAM,),
    ),
    InjectedCause(
        "second forward",
        "suite.Training.measure_training",
        ("reference = model(tokens)",),
        frozenset(
            {"aten::addmm", "aten::mm", "aten::gelu", "aten::_scaled_dot_product_flash_attention_for_cpu"}
        ),
        (
            (
                TRAIN,
                "    logits = model(tokens)\n",
                "    logits = model(tokens)\n"
                "    with torch.no_grad():\n"
                "        reference = model(tokens)\n"
                "    model.drift = (reference - logits.detach()).abs().max()\n",
            ),
        ),
        (PENALTY,),
    ),
    InjectedCause(
        "contiguous copies",
        "suite.Training.measure_training",
        ("x = x.transpose(1, 2).contiguous()",),
        COPIES,
        (
            (
                MODEL,
                "            x = block(x, None)\n",
                "            for _ in range(6):\n"
                "                x = x.transpose(1, 2).contiguous().transpose(1, 2).contiguous()\n"
                "            x = block(x, None)\n",
            ),
        ),
        (PENALTY,),
    ),
    InjectedCause(
        "slower tokenizer",
        "suite.time_text",
        ("for merge in MERGES", "word = word.replace("),
        frozenset({""}),
        (
            (
                TEXT,
                "    words = text.split()\n",
                "    words = []\n"
                "    for word in text.split():\n"
                "        for merge in MERGES:\n"
                "            word = word.replace(merge, merge.lower())\n"
                "        words.append(word)\n",
            ),
        ),
        (PENALTY,),
    ),
    InjectedCause(
        "debug hook",
        "suite.Training.measure_training",
        ("module.seen = ", "def watch", "layer.register_forward_hook"),
        frozenset({"aten::histc", "aten::sort", "aten::abs", "aten::std", "aten::median"}),
        (
            (
                MODEL,
                "class Block(nn.Module):\n",
                "def watch(module, inputs, output):\n"
                "    module.seen = output.detach().flatten().sort().values[::100]\n\n\n"
                "class Block(nn.Module):\n",
            ),
            (
                MODEL,
                "        self.norm = nn.LayerNorm(width)\n        self.head",
                "        for layer in self.blocks:\n"
                "            layer.register_forward_hook(watch)\n"
                "        self.norm = nn.LayerNorm(width)\n        self.head",
            ),
        ),
        (PENALTY,),
    ),
)

REFACTORING: tuple[Edit, ...] = (
    (
        TRAIN,
        "    logits = model(tokens)\n",
        "    # The model scores every position.\n    scored = model(tokens)\n    logits = scored\n",
    ),
    (
        MODEL,
        "        return self.out(y.transpose(1, 2).flatten(2))\n",
        "        merged = y.transpose(1, 2).flatten(2)\n        return self.out(merged)\n",
    ),
)
"""What a commit changes that costs nothing."""


def write_base(folder: Path) -> None:
    """Write the repository before any change."""
    shutil.copytree(HERE / "base", folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


def apply_edits(folder: Path, edits: tuple[Edit, ...]) -> None:
    """Make edits; a text that is not there once is an error of the case."""
    for name, old, new in edits:
        path = folder / name
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{name} holds {old!r} {text.count(old)} times, once was expected")
        path.write_text(text.replace(old, new))
