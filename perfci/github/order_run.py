"""The workflow runs that carry out orders, known by the names that perf.yml gives them."""

from __future__ import annotations

from perfci.github.payloads import WorkflowRun

ORDER_RUN_TITLE = "perfci order {}"
"""What ``run-name`` of perf.yml makes of the input ``order``."""

WORKFLOW_DISPATCH = "workflow_dispatch"


def is_order_run(run: WorkflowRun) -> bool:
    """Whether a run was started for an order, as far as its name says so."""
    return run.event == WORKFLOW_DISPATCH and run.display_title.startswith(ORDER_RUN_TITLE.format(""))
