"""Training of the decoder."""

import contextlib

import torch
from torch.nn import functional


def compute_loss(model, tokens, targets):
    logits = model(tokens)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def train_step(model, optimizer, tokens, targets, mark=contextlib.nullcontext):
    with mark("forward"):
        loss = compute_loss(model, tokens, targets)
    with mark("backward"):
        optimizer.zero_grad()
        loss.backward()
    with mark("optimizer"):
        optimizer.step()
    return loss.detach()


def train_epoch(model, optimizer, loader, mark=contextlib.nullcontext):
    batches = iter(loader)
    for _ in range(loader.count):
        with mark("data"):
            batch = next(batches)
        train_step(model, optimizer, batch[:, :-1], batch[:, 1:], mark)
