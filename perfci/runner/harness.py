"""What runs inside a measured environment: a parent that imports torch, forked per commit, forked again per cell.

It is started by its path (``python harness.py FD``), since the environment that is measured need not have perfci
installed: it uses the standard library and asv_runner only. Requests and events are lines of JSON on the socket FD.

Three generations, so that torch is imported once, a commit's code once per visit, and every cell is a fresh process:
the *environment parent* watches the socket (when it closes, everything below is killed), the *commit parent* imports
the commit and the suite and supervises one *cell* at a time by a wall clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import inspect
import io
import json
import math
import numbers
import os
import pickle
import pkgutil
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import timeit
import traceback
from collections.abc import Callable, Iterator
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MADV_COLLAPSE = 25
HUGE_PAGE = 2 << 20
STDERR_TAIL = 4000  # characters of output kept with a process
Json = dict[str, Any]
Work = Callable[[io.BufferedRandom], None]


# ------------------------------------------------------------------ environment parent


def serve(control: socket.socket) -> None:
    """Answer visits until the other side hangs up; nothing that was started outlives this loop."""
    adopt_orphans()
    lines = control.makefile("r", encoding="utf-8")
    hello = json.loads(lines.readline())
    die_with_parent(hello["parent"])
    send(control, introduce(hello["preload"]))
    for line in lines:
        request = json.loads(line)
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            run_as_child(functools.partial(visit, request, control, me))
        ended, status = wait_until(pid, time.monotonic() + request["visit_timeout_s"], watch=control)
        if not ended:
            end_group(pid)
            status = reap(pid)
        sweep()
        send(control, {"event": "visited", "visit": request["visit"], "timed_out": not ended, "status": status})


def introduce(preload: list[str]) -> Json:
    """Import what every commit shares and tell what this environment is."""
    failed = {name: last_line(error) for name in preload if (error := try_import(name))}
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    import asv_runner.discovery  # noqa: F401  (its import walks every installed distribution: once is enough)

    gc.collect()
    gc.freeze()  # children must not copy pages by counting references in them
    gather_into_huge_pages()
    return {
        "event": "hello",
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "torch": getattr(torch, "__version__", ""),
        "preload_failed": failed,
        "why_spawn": why_not_fork(),
    }


def try_import(name: str) -> BaseException | None:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        return error
    return None


def gather_into_huge_pages() -> None:
    """Back the heap that torch's import left with huge pages: a fork then copies a third of the page tables.

    MADV_COLLAPSE needs Linux 6.1; where it is refused, forks are only slower (13 ms instead of 4 ms measured).
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps]
    for region in regions:
        private = region[1] == "rw-p" and (len(region) == 5 or region[5] == "[heap]")
        start, end = (int(address, 16) for address in region[0].split("-"))
        start, end = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if private and start < end:
            madvise(start, end - start, MADV_COLLAPSE)


def why_not_fork() -> str:
    """Say why a fork from here would not be a faithful fresh process, or nothing."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"{threads} threads are running after the imports"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA was initialised by the imports"
    return ""


# ------------------------------------------------------------------ commit parent


def visit(request: Json, control: socket.socket, parent: int) -> None:
    """Import one commit's code and the suite, then run the asked cells one after another."""
    adopt_orphans()
    die_with_parent(parent)
    output = os.path.join(request["scratch"], "import.log")
    with redirected(output):
        benchmarks, errors = load_suite(request)
        wrong = foreign_code(request)
    send(control, {"event": "suite", "benchmarks": [describe(b) for b in benchmarks.values()], "errors": errors})
    launch, why_spawn = choose_launch(request)
    gc.freeze()
    for cell in request["cells"]:
        if wrong:
            outcome = not_run("failed", wrong)
        elif cell["benchmark"] not in benchmarks:
            outcome = not_run("failed", missing_reason(cell["benchmark"], errors))
        else:
            outcome = supervise(benchmarks[cell["benchmark"]], cell, request, launch)
        if why_spawn:
            outcome["flags"].append("spawned: " + why_spawn)
        send(control, {"event": "cell", **cell, **outcome})


def load_suite(request: Json) -> tuple[dict[str, Any], list[Json]]:
    """Discover the suite's benchmarks by asv's own rules; a module that does not import costs only its own."""
    from asv_runner import _aux, discovery

    sys.path[:0] = request["paths"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*request["paths"], os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    os.environ.update(request["env"])
    _aux.update_sys_path(request["suite"])
    errors: list[Json] = []
    found: dict[str, Any] = {}
    for module in suite_modules(os.path.basename(request["suite"]), errors):
        try:
            found.update((b.name, b) for b in module_benchmarks(module, discovery))
        except Exception as error:
            errors.append(error_of(module.__name__, error))
    return found, errors


def suite_modules(name: str, errors: list[Json]) -> Iterator[Any]:
    error = try_import(name)
    if error is not None:
        errors.append(error_of(name, error))
        return
    module = sys.modules[name]
    yield module
    for _, child, _ in pkgutil.iter_modules(getattr(module, "__path__", []), name + "."):
        yield from suite_modules(child, errors)


def module_benchmarks(module: Any, discovery: Any) -> Iterator[Any]:
    """Yield asv benchmarks of one module (the inner loops of ``asv_runner.discovery.disc_benchmarks``)."""
    candidates: list[tuple[str, Any, Any]]
    for name, value in [(k, v) for k, v in vars(module).items() if not k.startswith("_")]:
        if inspect.isclass(value) and not inspect.isabstract(value):
            candidates = [(n, value, f) for n, f in inspect.getmembers(value) if inspect.isroutine(f)]
        elif inspect.isfunction(value):
            candidates = [(name, None, value)]
        else:
            continue
        for attribute, owner, function in candidates:
            if inspect.isfunction(function) or inspect.ismethod(function):
                benchmark = discovery._get_benchmark(attribute, module, owner, function)
                if benchmark is not None:
                    yield benchmark


def describe(benchmark: Any) -> Json:
    """Tell what perfci has to know of a benchmark to plan its cells and name its series."""
    attribute = first_attribute(benchmark)
    direction = attribute("direction") or ("higher" if attribute("higher_is_better") else "lower")
    return {
        "name": benchmark.name,
        "version": benchmark.version,
        "type": benchmark.type,
        "unit": benchmark.unit,
        "direction": direction,
        "metric": attribute("metric") or METRIC_NAMES.get(benchmark.type, "value"),
        "clock": attribute("clock"),
        "two_clocks": uses_default_timer(benchmark),
        "param_names": [str(name) for name in benchmark.param_names],
        "params": benchmark.params,
        "timeout_s": benchmark.timeout,
        "setup_cache_key": benchmark.setup_cache_key,
        "setup_cache_timeout_s": benchmark.setup_cache_timeout,
    }


CLOCKS = ("wall", "cpu", "device", "exact", "value")
METRIC_NAMES = {"time": "time", "peakmemory": "peak_memory", "memory": "memory"}


def first_attribute(benchmark: Any) -> Callable[[str], Any]:
    """Read an attribute from the function, then its class, then its module, as asv does."""

    def read(name: str) -> Any:
        for source in benchmark._attr_sources:
            value = getattr(source, name, None)
            if value is not None and not callable(value):
                return value
        return None

    return read


def foreign_code(request: Json) -> str:
    """Say which loaded module of the project did not come from the commit that is being measured."""
    own = [os.path.realpath(path) + os.sep for path in [*request["own"], request["suite"]]]
    for name in request["modules"]:
        module = sys.modules.get(name)
        origin = module_origin(module) if module is not None else ""
        if origin and not any(origin.startswith(root) for root in own):
            return f"the code measured is not this commit's: module {name} was imported from {origin}"
    return ""


def module_origin(module: Any) -> str:
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
    return os.path.realpath(path) if path else ""


def missing_reason(benchmark: str, errors: list[Json]) -> str:
    """Blame the module that failed to import, where the missing benchmark's name says it came from there."""
    for error in errors:
        inner = error["module"].partition(".")[2]
        if not inner or benchmark.startswith(inner + "."):
            return f"module {error['module']} of the suite does not import: {error['error']}"
    return "the benchmark does not exist at this commit"


def choose_launch(request: Json) -> tuple[str, str]:
    if request["launch"] == "spawn":
        return "spawn", ""
    why = why_not_fork()
    return ("spawn", why) if why else ("fork", "")


# ------------------------------------------------------------------ supervising one cell


def supervise(benchmark: Any, cell: Json, request: Json, launch: str) -> Json:
    """Run one cell in a fresh process under a wall clock and say how it ended."""
    if cell["cache_dir"]:
        problem = ensure_setup_cache(benchmark, cell, request)
        if problem is not None:
            return problem
    folder = cell["cache_dir"] or tempfile.mkdtemp(prefix="cell-", dir=request["scratch"])
    try:
        if launch == "fork":
            return in_process(lambda report: run_cell(benchmark, cell, report), cell["timeout_s"], folder, request)
        return in_process(lambda report: spawn_cell(cell, request, report), cell["timeout_s"], folder, request)
    finally:
        if not cell["cache_dir"]:
            shutil.rmtree(folder, ignore_errors=True)


def ensure_setup_cache(benchmark: Any, cell: Json, request: Json) -> Json | None:
    """Run ``setup_cache`` once per commit and directory; return the failure, if that is how it ends."""
    folder = cell["cache_dir"]
    done = os.path.join(folder, "cache.done")
    if os.path.exists(done):
        return None
    os.makedirs(folder, exist_ok=True)

    def fill(report: io.BufferedRandom) -> None:
        with open("cache.pickle", "wb") as file:
            pickle.dump(benchmark.do_setup_cache(), file)
        write_report(report, {"status": "ok"})

    outcome = in_process(fill, cell["setup_cache_timeout_s"], folder, request)
    if outcome["status"] != "ok":
        return outcome | {"reason": "setup_cache: " + outcome["reason"]}
    with open(done, "w"):
        return None


def in_process(work: Work, timeout_s: float, folder: str, request: Json) -> Json:
    """Fork, do the work in its own process group and session, and end the whole group by the clock or after it."""
    kills_before = kernel_memory_kills()
    log = os.path.join(request["scratch"], "cell.log")
    with tempfile.TemporaryFile(dir=request["scratch"]) as report:
        started = time.time()
        begin = time.monotonic()
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            run_as_child(lambda: cell_child(work, report, folder, log, me))
        ended, status = wait_until(pid, begin + timeout_s)
        end_group(pid)
        if not ended:
            status = reap(pid)
        duration = time.monotonic() - begin
        sweep()
        report.seek(0)
        outcome = read_report(report.read())
    kills_after = kernel_memory_kills()
    memory_kills = None if kills_before is None or kills_after is None else kills_after - kills_before
    outcome = classify(outcome, status, None if ended else timeout_s, memory_kills)
    outcome.update(started_at=started, duration_s=duration, exit_code=exit_code(status))
    outcome["stderr_tail"] = tail(log) if outcome["status"] not in ("ok", "skipped") else ""
    return outcome


def cell_child(work: Work, report: io.BufferedRandom, folder: str, log: str, parent: int) -> None:
    os.setsid()
    die_with_parent(parent)
    os.chdir(folder)
    # A talking benchmark writes into a file, so that no pipe can fill up or keep its parent waiting.
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        work(report)
    except BaseException as error:
        traceback.print_exc()
        memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        write_report(report, {"status": "oom" if memory else "failed", "reason": last_line(error)})
        flush_output()
        os._exit(1)
    flush_output()


def classify(outcome: Json | None, status: int, timed_out_s: float | None, memory_kills: int | None) -> Json:
    """Turn a report (or its absence) and an exit status into one status with a reason."""
    if timed_out_s is not None:
        return not_run("timeout", f"did not end within {timed_out_s:g} s")
    if outcome is not None and (outcome["status"] != "ok" or status == 0):
        return not_run("", "") | outcome
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number == signal.SIGKILL and memory_kills:
            return not_run("oom", "killed by the kernel for memory (SIGKILL)")
        if number == signal.SIGKILL and memory_kills is None:
            return not_run("oom", "killed with SIGKILL, as the kernel does when memory runs out")
        return not_run("crashed", f"ended by {name} (signal {number})")
    return not_run("failed", f"exited with code {os.waitstatus_to_exitcode(status)} before it returned a result")


def not_run(status: str, reason: str) -> Json:
    return {"status": status, "reason": reason, "metrics": [], "flags": [], "stderr_tail": "", "exit_code": None,
            "started_at": time.time(), "duration_s": 0.0, "work_s": 0.0}  # fmt: skip


def kernel_memory_kills() -> int | None:
    """How many processes the kernel has killed for memory since it booted, where it counts them."""
    try:
        with open("/proc/vmstat") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, StopIteration):
        return None


# ------------------------------------------------------------------ inside one cell


def run_cell(benchmark: Any, cell: Json, report: io.BufferedRandom) -> None:
    """Set up, run and tear down one cell, and report its samples."""
    resident = reset_peak_memory()
    begin = time.perf_counter()
    if cell["param_idx"] is not None:
        benchmark.set_param_idx(cell["param_idx"])
    benchmark.set_cache(read_cache(cell))
    write_report(report, measured_cell(benchmark, resident) | {"work_s": time.perf_counter() - begin})


def read_cache(cell: Json) -> Any:
    if not cell["cache_dir"]:
        return None
    with open("cache.pickle", "rb") as file:
        return pickle.load(file)  # written by this very suite a moment ago


def measured_cell(benchmark: Any, resident: int | None) -> Json:
    from asv_runner.benchmarks.mark import SkipNotImplemented

    stopwatch = TwoClocks() if uses_default_timer(benchmark) else None
    if benchmark.do_setup():
        return {"status": "skipped", "reason": "setup raised NotImplementedError, or its parameters are skipped"}
    try:
        if stopwatch is not None:
            benchmark.timer = stopwatch
        value = benchmark.do_run()
        metrics = read_metrics(benchmark, value, stopwatch, resident)
    except (SkipNotImplemented, NotApplicable) as skip:
        return {"status": "skipped", "reason": str(skip) or "not implemented here"}
    finally:
        benchmark.do_teardown()
    return {"status": "ok", "metrics": metrics}


class NotApplicable(Exception):
    """The machine or the benchmark cannot give this reading; the message says why."""


def uses_default_timer(benchmark: Any) -> bool:
    return benchmark.type == "time" and getattr(benchmark, "timer", None) is timeit.default_timer


class TwoClocks:
    """asv's wall timer that notes the CPU clock of the process at the same moments."""

    def __init__(self) -> None:
        self.cpu: list[float] = []

    def __call__(self) -> float:
        self.cpu.append(time.process_time())
        return timeit.default_timer()

    def samples(self, count: int, number: int, spans_per_sample: int) -> list[float]:
        """CPU seconds per call of the last ``count`` samples (warm-up readings come before them)."""
        spans = [stop - start for start, stop in zip(self.cpu[::2], self.cpu[1::2], strict=True)]
        used = spans[len(spans) - count * spans_per_sample :]
        return [sum(used[i : i + spans_per_sample]) / number for i in range(0, len(used), spans_per_sample)]


def read_metrics(benchmark: Any, value: Any, stopwatch: TwoClocks | None, resident: int | None) -> list[Json]:
    """Turn what asv's ``do_run`` returned into metrics with samples."""
    about = describe(benchmark)
    if benchmark.type == "peakmemory":
        value = peak_memory_since(resident)
    samples, number = numeric_samples(value)
    metric = {"name": about["metric"], "unit": about["unit"], "direction": about["direction"], "number": number}
    metrics = [metric | {"clock": clock_of(benchmark, about["clock"]), "samples": samples}]
    if stopwatch is not None and not cuda_was_used():
        # With setup hooks asv reads the clock around every call of a sample, else around the sample.
        spans_per_sample = number if benchmark._setups else 1
        cpu = stopwatch.samples(len(samples), number, spans_per_sample)
        metrics.append({**metric, "name": "cpu_time", "clock": "cpu", "samples": cpu})
    return metrics


def clock_of(benchmark: Any, declared: str | None) -> str:
    if declared is not None and declared not in CLOCKS:
        raise ValueError(f"clock = {declared!r} is unknown; known are {', '.join(CLOCKS)}")
    return declared or ("wall" if benchmark.type == "time" else "value")


def cuda_was_used() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def numeric_samples(value: Any) -> tuple[list[float], int]:
    """Accept a number or asv's ``{"samples": [...], "number": n}``; refuse the rest in one sentence."""
    number = 1
    if isinstance(value, dict) and "samples" in value:
        number = int(value.get("number") or 1)
        value = value["samples"]
    elif isinstance(value, dict | str) or value is None:
        raise TypeError(f"returned {type(value).__name__}; a number or a mapping with samples was expected")
    values = list(value) if isinstance(value, list | tuple) else [value]
    samples = [float(v.item() if hasattr(v, "item") and not isinstance(v, numbers.Number) else v) for v in values]
    if samples and all(math.isnan(sample) for sample in samples):
        raise NotApplicable("returned NaN, which means not applicable here")
    if not samples or not all(math.isfinite(sample) for sample in samples):
        raise ValueError(f"returned {value!r}; finite numbers were expected")
    return samples, number


def reset_peak_memory() -> int | None:
    """Forget the peak inherited through the fork, and return the resident bytes the peak is counted from."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return None
    return memory_status("VmRSS")


def peak_memory_since(resident: int | None) -> int:
    if resident is None:
        raise NotApplicable("this kernel does not let a process reset its peak memory (/proc/self/clear_refs)")
    return max(0, memory_status("VmHWM") - resident)


def memory_status(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def spawn_cell(cell: Json, request: Json, report: io.BufferedRandom) -> None:
    """Do the same in a process that shares no memory with this one: after CUDA or threads, a fork is not safe."""
    os.set_inheritable(report.fileno(), True)
    arguments = json.dumps({"cell": cell, "request": request, "report": report.fileno()})
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "cell", arguments])


def spawned(arguments: Json) -> None:
    with os.fdopen(arguments["report"], "w+b") as report:
        try:
            benchmarks, _ = load_suite(arguments["request"])
            run_cell(benchmarks[arguments["cell"]["benchmark"]], arguments["cell"], report)
        except BaseException as error:
            traceback.print_exc()
            memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
            write_report(report, {"status": "oom" if memory else "failed", "reason": last_line(error)})
            flush_output()
            os._exit(1)
        flush_output()
        os._exit(0)


# ------------------------------------------------------------------ processes


def run_as_child(work: Callable[[], None]) -> None:
    """Run in a forked child and leave without the parent's exit handlers."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush_output()
        os._exit(code)


def wait_until(pid: int, deadline: float, watch: socket.socket | None = None) -> tuple[bool, int]:
    """Wait for a child by the wall clock. When ``watch`` hangs up, end everything and leave."""
    poll = select.poll()
    handle = os.pidfd_open(pid)
    try:
        poll.register(handle, select.POLLIN)
        if watch is not None:
            poll.register(watch.fileno(), select.POLLRDHUP | select.POLLHUP)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return False, 0
            ready = dict(poll.poll(min(left, 3600.0) * 1000 + 1))
            if handle in ready:
                return True, reap(pid)
            if ready:
                end_group(pid)
                sweep()
                os._exit(0)
    finally:
        os.close(handle)


def reap(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def end_group(pid: int) -> None:
    """Kill a child and its process group; what is already gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def sweep() -> None:
    """Kill what is left below this process: as subreaper it inherits every orphan, whatever its group or session."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for child in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.001)


def children() -> list[int]:
    me = str(os.getpid())
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                if file.read().rpartition(")")[2].split()[1] == me:
                    found.append(int(entry))
    return found


def adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before the request
        os._exit(1)


def exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


# ------------------------------------------------------------------ lines, files, words


def send(control: socket.socket, message: Json) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def write_report(report: io.BufferedRandom, message: Json) -> None:
    report.seek(0)
    report.truncate()
    report.write(json.dumps(message).encode())
    report.flush()


def read_report(raw: bytes) -> Json | None:
    try:
        message = json.loads(raw)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


@contextlib.contextmanager
def redirected(path: str) -> Iterator[None]:
    """Send what an import prints into a file."""
    with open(path, "wb") as file:
        for fd in (1, 2):
            os.dup2(file.fileno(), fd)
    yield
    flush_output()


def flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - STDERR_TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def error_of(module: str, error: BaseException) -> Json:
    return {"module": module, "error": last_line(error)}


def last_line(error: BaseException) -> str:
    lines = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def main() -> None:
    if sys.argv[1] == "cell":
        spawned(json.loads(sys.argv[2]))
    else:
        serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
