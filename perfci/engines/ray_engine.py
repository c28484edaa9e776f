"""The engine of an existing Ray cluster: one order is one task, so all of its processes are of one node."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfci.config import Settings
from perfci.engines.engine import RunState, RunStatus
from perfci.engines.ray_task import NodeTask, carry_out_node_task
from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import ClaimedOrder
from perfci.report.escaping import make_printable
from perfci.service.orders.check_order_content import RAY_ENGINE

NO_RAY = "Ray is not installed here: `pip install 'perfci[ray]'` in the version of the cluster."
NO_ADDRESS = "No Ray cluster is named: set ray_address in [engines] of perfci.toml."

AMOUNTS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
"""What Ray calls the resources that it counts itself where a task asks for them."""

OPEN, ENDED = RunStatus(RunState.OPEN), RunStatus(RunState.ENDED)


@dataclass
class RayEngine:
    """Submits orders to a cluster, which places them, queues them and begins them again after lost workers.

    A benchmark that fails is an answer of its order and is not repeated.
    """

    settings: Settings
    folder: str
    project: str
    server: str = ""
    db: str = ""
    name: str = RAY_ENGINE
    _ray: Any = None
    _tasks: dict[int, Any] = field(default_factory=dict)

    def connect(self) -> None:
        """Connect to the cluster that is configured."""
        address = self.settings.engines.ray_address
        if not address:
            raise PerfciError(NO_ADDRESS)
        try:
            self._ray = importlib.import_module("ray")
        except ImportError:
            raise PerfciError(NO_RAY) from None
        try:
            self._ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise PerfciError(
                f"There is no Ray cluster at {address}: {make_printable(str(error), 300)}"
            ) from None

    def close(self) -> None:
        """Leave the cluster, which ends what this process submitted."""
        self._ray.shutdown()

    def explain_refusal(self) -> str:
        """Say why no node could ever take an order: Ray itself would let it wait without a word."""
        wanted = self.settings.engines.ray_resources
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
            return ""
        offered = "; ".join(_format_resources(_own_resources(node)) or "nothing named" for node in nodes)
        return (
            f"No node of the Ray cluster at {self.settings.engines.ray_address} has "
            f"{_format_resources(wanted)}, which [engines] ray_resources asks for. Its nodes have: "
            f"{make_printable(offered or 'there is none', 500)}."
        )

    def submit(self, claimed: ClaimedOrder) -> str:
        """Hand an order over; return what it waits for."""
        task = NodeTask(claimed.model_dump_json(), self.folder, self.project, self.server, self.db)
        wanted = self.settings.engines.ray_resources
        remote = self._ray.remote(carry_out_node_task).options(
            name=f"perfci order {claimed.order.id}",
            max_retries=self.settings.engines.ray_retries,
            retry_exceptions=False,
            resources={name: amount for name, amount in wanted.items() if name not in AMOUNTS},
            **{AMOUNTS[name]: amount for name, amount in wanted.items() if name in AMOUNTS},
        )
        self._tasks[claimed.order.id] = remote.remote(task)
        return f"waits in Ray for a node with {_format_resources(wanted)}"

    def follow(self, number: int) -> RunStatus:
        """Say how far an order is."""
        task = self._tasks[number]
        ready, _ = self._ray.wait([task], timeout=0)
        if not ready:
            return OPEN
        del self._tasks[number]
        errors = self._ray.exceptions
        try:
            self._ray.get(task)
        except errors.TaskCancelledError:
            return ENDED
        except errors.RayTaskError as error:
            reason = make_printable(str(error.cause or error).strip().splitlines()[-1], 1000)
            return RunStatus(RunState.LOST, f"It ended on the node: {reason}")
        except errors.RayError as error:
            begun = self.settings.engines.ray_retries + 1
            kind = type(error).__name__
            return RunStatus(
                RunState.LOST,
                f"Ray lost the worker of each of {begun} attempts ({kind}): look into the log of the node, "
                "and order it again.",
            )
        return ENDED

    def cancel(self, number: int) -> None:
        """Stop an order; one that is carried out hears of it from its heartbeat as well."""
        task = self._tasks.pop(number, None)
        if task is not None:
            self._ray.cancel(task, force=False)


def _format_resources(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={amount:g}" for name, amount in sorted(resources.items()))


def _own_resources(resources: Mapping[str, float]) -> dict[str, float]:
    """The resources of a node without those that Ray adds to each, such as its memory and its name."""
    left_out = ("node:", "accelerator_type:", "memory", "object_store_memory")
    return {name: amount for name, amount in resources.items() if not name.startswith(left_out)}
