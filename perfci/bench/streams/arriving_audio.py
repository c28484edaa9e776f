"""Sound that arrives while a request runs: a piece can be read once it has been spoken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from perfci.bench.devices.torch_devices import Device
from perfci.bench.streams.request_metrics import InputAudio
from perfci.bench.streams.stream_clock import ClockReadings

AudioPieces = Iterable[tuple[Any, float]]
"""Pieces of sound in the order they are spoken, each with its length in seconds."""


class ArrivingAudio:
    """Yields pieces of sound as a microphone would, without waiting for them.

    A program that has done its work would sleep until the next piece has been spoken. That sleep is left
    out of the measurement and added to its clocks: by them a request meets every piece at its real time, and
    30 seconds of speech cost no 30 seconds. Where the work takes longer than the sound nothing is added, and
    the program falls behind as it would live.
    """

    def __init__(self, pieces: AudioPieces, device: Device, read_clocks: Callable[[], ClockReadings]) -> None:
        self._pieces = [(piece, float(seconds)) for piece, seconds in pieces]
        if not self._pieces or not all(seconds > 0 for _, seconds in self._pieces):
            lengths = [seconds for _, seconds in self._pieces]
            raise ValueError(f"audio_in has to give pieces of sound with their seconds, not {lengths}")
        self._device, self._read_clocks = device, read_clocks
        self._spoken_s = 0.0
        self._skipped = (0.0, 0.0)
        self._started = read_clocks()
        self._arrivals: list[ClockReadings] = []

    def __iter__(self) -> Iterator[Any]:
        for piece, seconds in self._pieces:
            self._device.synchronize()
            self._spoken_s += seconds
            spoken_at = (self._started[0] + self._spoken_s, self._started[1] + self._spoken_s)
            now = self.read_clocks()
            self._skipped = (
                self._skipped[0] + max(0.0, spoken_at[0] - now[0]),
                self._skipped[1] + max(0.0, spoken_at[1] - now[1]),
            )
            self._arrivals.append(spoken_at)
            yield piece

    def start(self) -> None:
        """Begin to speak now."""
        self._started = self._read_clocks()

    def read_clocks(self) -> ClockReadings:
        """Wall and CPU seconds, with the waiting for sound that was left out."""
        wall, cpu = self._read_clocks()
        return wall + self._skipped[0], cpu + self._skipped[1]

    @property
    def newest_arrival(self) -> ClockReadings:
        """When the newest piece that was read had been spoken, by both clocks."""
        return self._arrivals[-1] if self._arrivals else self._started

    def build_input_audio(self, ended_at: ClockReadings) -> tuple[InputAudio, ...]:
        """Describe the sound of a request that ended then, by each clock.

        Raises ``ValueError`` where the stream read nothing of it.
        """
        if not self._arrivals:
            raise ValueError("the stream read none of the sound that audio_in gave it")
        clocks = zip(self._started, self._arrivals[-1], ended_at, self._skipped, strict=True)
        return tuple(
            InputAudio(self._spoken_s, arrival, ended - started - skipped)
            for started, arrival, ended, skipped in clocks
        )
