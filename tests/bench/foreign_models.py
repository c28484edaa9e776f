"""Six models as their authors write them: without a thought of perfci, each with a place to break it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset


class Translator(nn.Module):
    """``nn.Transformer`` as torch ships it, with its dropout, between embeddings and a head."""

    def __init__(self, *, width: int = 64, vocab: int = 200, layers: int = 2) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(vocab, width), nn.Embedding(vocab, width)
        self.transformer = nn.Transformer(
            width,
            4,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            dim_feedforward=2 * width,
            batch_first=True,
        )
        self.head = nn.Linear(width, vocab)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(batch, source length), (batch, target length) -> (batch, target length, vocab)"""
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden = self.transformer(self.source(source), self.target(target), tgt_mask=mask, tgt_is_causal=True)
        return self.head(hidden)


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut; ``detached`` trains nothing below the block."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, detached: bool) -> None:
        super().__init__()
        self.detached = detached
        self.convolution1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.convolution2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach() if self.detached else x
        hidden = functional.relu(self.norm1(self.convolution1(x)))
        return functional.relu(self.norm2(self.convolution2(hidden)) + self.shortcut(x))


class ResNet(nn.Module):
    """A small residual network for images of 32 x 32."""

    def __init__(self, *, classes: int = 10, detached: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(
            ResidualBlock(16, 16, 1, detached=False),
            ResidualBlock(16, 32, 2, detached=detached),
            ResidualBlock(32, 64, 2, detached=False),
        )
        self.head = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, 32, 32) in 0 ... 1 -> (batch, classes)"""
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))


class Photos(Dataset[tuple[Tensor, int]]):
    """Images as they lie on a disk: bytes of colours, and a class."""

    def __init__(self, count: int = 64) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], index % 10


class LanguageModel(nn.Module):
    """An LSTM; ``upcast`` copies its projection to fp32, where the head would have taken bf16."""

    def __init__(self, *, vocab: int = 300, width: int = 64, upcast: bool = False) -> None:
        super().__init__()
        self.upcast = upcast
        self.embedding = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)
        self.projection = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        hidden, _ = self.lstm(self.embedding(tokens))
        projected = self.projection(hidden)
        return self.head(projected.float() if self.upcast else projected)


class LlamaBlock(nn.Module):
    """Pre-norm attention with grouped keys and values, rotary positions, and SwiGLU, as in Llama 2.

    ``scale`` is that of the scores: one over the root of a head's width, unless somebody is wrong about it.
    """

    def __init__(self, width: int, heads: int, kv_heads: int, scale: float | None = None) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.scale, self.head_width = heads, kv_heads, scale, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * kv_heads * self.head_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> the same"""
        x = x + self.attend(self.norm1(x))
        hidden = self.norm2(x)
        return x + self.down(functional.silu(self.gate(hidden)) * self.up(hidden))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        key, value = self.key_value(x).view(batch, length, 2 * self.kv_heads, -1).transpose(1, 2).chunk(2, 1)
        mixed = functional.scaled_dot_product_attention(
            rotate(query), rotate(key), value, is_causal=True, scale=self.scale, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def rotate(heads: Tensor) -> Tensor:
    """(batch, heads, length, width) -> the same, turned by the position of each token (RoPE)."""
    length, half = heads.shape[2], heads.shape[3] // 2
    speeds = 10_000.0 ** (-torch.arange(half, device=heads.device) / half)
    angles = torch.outer(torch.arange(length, device=heads.device), speeds)
    first, second = heads.float().chunk(2, dim=-1)
    turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
    return torch.cat(turned, dim=-1).to(heads.dtype)


class Llama(nn.Module):
    def __init__(self, *, vocab: int = 256, width: int = 64, scale: float | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.Sequential(*(LlamaBlock(width, 4, 2, scale) for _ in range(2)))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


Memory = dict[int, Tensor]


class SpeechDecoderLayer(nn.Module):
    """Attention to the text so far and to the sound, and a feed-forward part.

    ``memory`` keeps keys and values by the place of the layer; without one, all of the text is given.
    """

    def __init__(self, width: int, place: int) -> None:
        super().__init__()
        self.place = place
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.cross = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, sound: Tensor, memory: Memory | None) -> Tensor:
        """(batch, new tokens, width), (batch, frames, width) -> the shape of the first"""
        hidden = self.norm1(x)
        key_value = self.key_value(hidden)
        if memory is not None:
            past = memory.get(self.place)
            key_value = key_value if past is None else torch.cat([past, key_value], dim=1)
            memory[self.place] = key_value
        key, value = key_value.chunk(2, dim=-1)
        is_causal = x.shape[1] > 1
        x = x + functional.scaled_dot_product_attention(self.query(hidden), key, value, is_causal=is_causal)
        x = x + self.cross(self.norm2(x), sound, sound, need_weights=False)[0]
        return x + self.mlp(self.norm3(x))


class Whisper(nn.Module):
    """Convolutions and an encoder over a spectrogram, and a decoder that writes what it hears.

    ``has_cache`` is lost by somebody who computes all of the text again for every token.
    """

    def __init__(self, *, width: int = 64, vocab: int = 100, has_cache: bool = True) -> None:
        super().__init__()
        self.has_cache = has_cache
        self.convolution1 = nn.Conv1d(80, width, 3, padding=1)
        self.convolution2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.embedding = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(SpeechDecoderLayer(width, place) for place in range(2))
        self.head = nn.Linear(width, vocab)
        self.memory: Memory = {}

    def encode(self, spectrogram: Tensor) -> Tensor:
        """(batch, 80, frames) -> (batch, frames / 2, width)"""
        sound = functional.gelu(self.convolution2(functional.gelu(self.convolution1(spectrogram))))
        return self.encoder(sound.transpose(1, 2))

    def decode(self, text: Tensor, sound: Tensor) -> Tensor:
        """(batch, length) -> (batch, 1), the next token; with a cache the last of the text is enough."""
        x = self.embedding(text[:, -1:] if self.has_cache else text)
        for layer in self.layers:
            x = layer(x, sound, self.memory if self.has_cache else None)
        return self.head(x[:, -1:]).argmax(dim=-1)


class Gan(nn.Module):
    """A generator of points and the critic that tells them from real ones."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))
        self.critic = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))


def next_token_loss(model: nn.Module, text: Tensor) -> Tensor:
    return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def random_tokens(vocab: int, *shape: int, seed: int) -> Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))
