"""Base class of benchmarks with several metrics, each of which plain asv sees as a ``track_*`` method.

perfci runs a ``measure_*`` method once and reads all its metrics. asv knows one number per benchmark: for
it, every metric becomes a ``track_*`` method. The first that asv calls measures and leaves a file in the
directory which a shared ``setup_cache`` gives all of them; the others read that file.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfci.bench.readings import skip_exception
from perfci.model import Metric


class Bench:
    """Derive from it and write ``measure_*`` methods, each declared with ``@metrics``.

    asv's ``params``, ``param_names``, ``timeout`` and ``setup`` mean what they mean in asv. ``params`` may
    also be a mapping of names to values. Runs are planned by two attributes more: ``cost_s``, the seconds
    that a process takes (or a function of the parameters by name), and ``default_suite``, which cells guard
    every commit: True, False, or a mapping of parameters to values.
    """

    params: Any = ()
    param_names: Any = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(cls.params, dict):
            cls.param_names = tuple(cls.params)
            cls.params = tuple(list(values) for values in cls.params.values())
        for name in dir(cls):
            function = getattr(cls, name) if name.startswith("measure_") else None
            for metric in getattr(function, "metrics", ()):
                track = _build_track_method(cls, name, function, metric)
                setattr(cls, track.__name__, track)


def _build_track_method(cls: type, name: str, function: Any, metric: Metric) -> Callable[..., Any]:
    def track(self: Any, *parameters: Any) -> dict[str, Any]:
        report = _load_or_measure_report(
            f"{cls.__qualname__}.{name}", metric.name, functools.partial(function, self), parameters
        )
        row = next(row for row in report["metrics"] if row["name"] == metric.name)
        if row["status"] != "ok":
            raise skip_exception(row["reason"])
        return {"samples": row["samples"], "number": row["number"]}

    track.__name__ = f"track_{name.removeprefix('measure_')}_{metric.name}"
    track.__qualname__ = f"{cls.__qualname__}.{track.__name__}"
    track.__module__ = cls.__module__
    track.perfci_generated = True  # type: ignore[attr-defined]
    track.unit = metric.unit  # type: ignore[attr-defined]
    track.pretty_source = version_defining_source(function)  # type: ignore[attr-defined]
    track.setup_cache = _build_setup_cache(cls, function)  # type: ignore[attr-defined]
    return track


def version_defining_source(function: Any) -> str:
    """What decides the version of a benchmark: its own source, or what its class says of it."""
    return getattr(function, "pretty_source", "") or inspect.getsource(function)


def _build_setup_cache(cls: type, function: Any) -> Callable[[], None]:
    """Build a setup_cache at the measured code's line: asv shares one directory among equal ones."""

    @functools.wraps(getattr(function, "anchor", function))
    def setup_cache() -> None:
        return None

    setup_cache.__module__ = cls.__module__
    return setup_cache


def _load_or_measure_report(
    key: str, metric: str, measure: Callable[..., Any], parameters: tuple[Any, ...]
) -> dict[str, Any]:
    """Measure, or read the report of another metric's process. A metric's second read begins a new round."""
    # Parameters may hold what no file name can.
    stem = f"{key}-{hashlib.sha256(repr(parameters).encode()).hexdigest()[:16]}"
    turn = next(n for n in range(1_000_000) if not Path(f"{stem}.{n}.{metric}.read").exists())
    Path(f"{stem}.{turn}.{metric}.read").touch()
    started, file = Path(f"{stem}.{turn}.started"), Path(f"{stem}.{turn}.json")
    if not started.exists():
        started.touch()
        file.write_text(json.dumps(_run_measure(measure, parameters)))
    elif not file.exists():
        raise RuntimeError(f"the process that measured {key} ended before it had a result")
    outcome: dict[str, Any] = json.loads(file.read_text())
    if "error" in outcome:
        raise RuntimeError(outcome["error"])
    if "skipped" in outcome:
        raise skip_exception(outcome["skipped"])
    return outcome


def _run_measure(measure: Callable[..., Any], parameters: tuple[Any, ...]) -> dict[str, Any]:
    from asv_runner.benchmarks.mark import SkipNotImplemented

    try:
        report: dict[str, Any] = measure(*parameters)
    except SkipNotImplemented as skip:
        return {"skipped": str(skip) or "not implemented here"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return report
