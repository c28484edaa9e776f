"""What of the model is measured: each function gives the work of one call, with its phases."""

import contextlib

import torch
from lm.data import open_loader
from lm.model import Attention, Decoder, gated, generate
from lm.text import MERGES, encode
from lm.train import compute_loss, make_optimizer, train_epoch, train_step

from perfci.bench import ModelBench

TEXT = " ".join(MERGES).lower() + " "


class Training(ModelBench):
    groups = ("training",)

    def build(self, p):
        return Decoder()

    def batch(self, p, index):
        torch.manual_seed(index)
        return torch.randint(512, (4, 65))

    def loss(self, model, batch):
        return compute_loss(model, batch[:, :-1], batch[:, 1:])

    def optimizer(self, model, p):
        return make_optimizer(model)


def step_work():
    torch.manual_seed(0)
    model = Decoder()
    optimizer, batch = make_optimizer(model), torch.randint(512, (4, 65))
    return lambda mark: train_step(model, optimizer, batch[:, :-1], batch[:, 1:], mark)


def attention_work():
    torch.manual_seed(0)
    attention, x = Attention(128, 4, 256), torch.randn(4, 256, 128)

    def work(mark):
        with mark("forward"):
            y = attention(x, None)
        with mark("backward"):
            y.sum().backward()

    return work


def epoch_work():
    torch.manual_seed(0)
    model = Decoder()
    optimizer = make_optimizer(model)
    return lambda mark: train_epoch(model, optimizer, open_loader(TEXT * 30, 4), mark)


def text_work():
    step = step_work()

    def work(mark):
        with mark("data"):
            encode(TEXT * 60)
        return step(mark)

    return work


def generate_work():
    torch.manual_seed(0)
    model, prompt = Decoder(), torch.randint(512, (4, 24))
    return lambda mark: generate(model, prompt, 24, mark)


def compiled_work():
    compiled = torch.compile(gated)
    x, gate = torch.randn(64, 64), torch.randn(64, 64)

    def work(mark):
        with mark("forward"):
            for _ in range(40):
                y = compiled(x, gate)
        return y

    return work


def unmarked(phase):
    return contextlib.nullcontext()


def time_step():
    step_work()(unmarked)


def time_attention():
    attention_work()(unmarked)


def time_epoch():
    epoch_work()(unmarked)


def time_text():
    text_work()(unmarked)


def time_generate():
    generate_work()(unmarked)


def time_compiled():
    compiled_work()(unmarked)


time_step.build_profiled_work = step_work
time_attention.build_profiled_work = attention_work
time_epoch.build_profiled_work = epoch_work
time_text.build_profiled_work = text_work
time_generate.build_profiled_work = generate_work
time_compiled.build_profiled_work = compiled_work
