"""What an order may ask for: nothing of it can become an option, a path or a revision expression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfci.model import PerfciError
from perfci.service.orders.check_order_content import check_order_content
from perfci.store.jobs.measurement_orders import OrderContent

COMPARISON = OrderContent("compare", "a" * 40, "b" * 40, r"gpt\.step\(n=(8|16)\)", 8)


def test_accepts_pairs_of_two_commits_and_one_commit() -> None:
    check_order_content(COMPARISON)
    check_order_content(OrderContent("measure", None, "b" * 64, engine="github", suite="default"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind": "rm"}, "The kind of an order is one of compare, measure, bisect, backfill, not 'rm'."),
        ({"engine": "k8s"}, "The engine of an order is one of local, github, ray, not 'k8s'."),
        ({"suite": "../x"}, "The suite of an order is one of nothing, default, full, not '../x'."),
        ({"head_sha": "HEAD"}, "'HEAD' is not the full id of a commit"),
        ({"base_sha": "--upload-pack=x"}, "'--upload-pack=x' is not the full id of a commit"),
        ({"base_sha": None}, "A comparison needs a base and a head"),
        ({"bench": "--results=/"}, "must not begin with a dash"),
        ({"bench": "a\n--x"}, "one line of printable characters"),
        ({"bench": "("}, r"is not a regular expression"),
        ({"bench": "a" * 201}, "at most 200 characters"),
        ({"pairs": 0}, "4 to 200 pairs can be ordered, not 0."),
        ({"kind": "measure", "base_sha": None}, "A number of pairs belongs to a comparison"),
        ({"metric": "time"}, "A metric belongs to a bisect"),
        ({"stride": 2}, "A stride belongs to a backfill"),
        ({"max_processes": 20}, "A number of processes belongs to a bisect or a backfill."),
        (
            {"kind": "bisect", "pairs": None, "base_sha": None},
            "A bisect needs the last good commit as its base",
        ),
        ({"kind": "bisect", "pairs": None, "metric": "a\nb"}, "A metric is one line of at most 200"),
        (
            {"kind": "bisect", "pairs": None, "max_processes": 9},
            "10 to 10000 processes were expected, not 9.",
        ),
        ({"kind": "bisect", "pairs": None, "budget_s": 1}, "60 to 604800 seconds were expected, not 1."),
        ({"kind": "backfill", "pairs": None, "budget_s": 60}, "A budget of time belongs to a bisect"),
    ],
)
def test_refuses_what_a_machine_should_not_get(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PerfciError) as refused:
        check_order_content(replace(COMPARISON, **changes))

    assert sentence in str(refused.value)
