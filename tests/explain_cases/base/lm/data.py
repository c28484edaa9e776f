"""Batches of text from a slow disk."""

import queue
import threading
import time

import torch

from lm.text import encode

READING_S = 0.02
LENGTH = 65


class Texts:
    def __init__(self, text, count):
        self.text, self.count = text, count

    def read(self, index):
        time.sleep(READING_S)
        words = self.text[index % 7 :]
        numbers = encode(words)
        return torch.tensor(numbers[: 4 * LENGTH]).view(4, LENGTH)


class Plain:
    def __init__(self, dataset):
        self.dataset, self.count = dataset, dataset.count

    def __iter__(self):
        for index in range(self.count):
            yield self.dataset.read(index)


class Prefetched:
    def __init__(self, dataset, depth):
        self.dataset, self.count = dataset, dataset.count
        self.ready = queue.Queue(depth)

    def __iter__(self):
        threading.Thread(target=self.fill, daemon=True).start()
        for _ in range(self.count):
            yield self.ready.get()

    def fill(self):
        for index in range(self.count):
            self.ready.put(self.dataset.read(index))


def open_loader(text, count):
    dataset = Texts(text, count)
    return Prefetched(dataset, depth=8)
