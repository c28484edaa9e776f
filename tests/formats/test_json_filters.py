"""The statistics over JSON documents: judge and detect."""

import json
from typing import Any

import numpy as np
import pytest

from perfci.formats.json_filters.detect_change_points import detect_change_points_json
from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.model import PerfciError

Case = dict[str, Any]


def a_case(effect: float = 1.0, *, sd: float = 0.01, seed: int = 0, processes: int = 8, **more: Any) -> Case:
    rng = np.random.default_rng(seed)
    base, head = np.exp(rng.normal(0, sd, (2, processes, 1)) + rng.normal(0, 0.01, (2, processes, 10)))
    return {"id": seed, "base": base.tolist(), "head": (effect * head).tolist(), **more}


def answer(case: Case, **document: Any) -> Case:
    (result,) = judge_cases_json({"op": "compare", "min_effect": 0.05, "cases": [case], **document})[
        "results"
    ]
    return dict(result)


def test_compare_gives_screening_confirmation_and_the_verdict() -> None:
    result = answer(a_case(1.1))

    assert (result["regression"], result["confident"], result["verdict"]) == (True, True, "regression")
    assert result["ci"][0] < result["ratio"] < result["ci"][1]


def test_answers_what_the_tail_did_where_there_are_samples() -> None:
    slower_tail = a_case()
    slower_tail["head"] = [[*process[:8], 1.4, 1.5] for process in slower_tail["head"]]
    few = {"id": "few", "base": [[1.0, 1.1]] * 5, "head": [[1.0, 1.1]] * 5}

    compared, decided = answer(slower_tail), answer(slower_tail, op="decide")

    assert compared["verdict"] == decided["decision"] == "unchanged"
    for tail in (compared["tail"], decided["tail"]):
        assert (tail["quantile"], tail["verdict"]) == ("p90", "regression")
        assert 1.3 < tail["ci"][0] < tail["ratio"] < tail["ci"][1] < 1.5
    assert "tail" not in answer(few)
    assert "tail" not in answer(a_case(1.05, sd=0.1), op="decide")


def test_results_keep_order_and_ids_whatever_they_are() -> None:
    cases = [dict(a_case(seed=k), id=name) for k, name in enumerate(("b", 7, None, "a"))]

    assert [result["id"] for result in judge_cases_json({"op": "compare", "cases": cases})["results"]] == [
        "b",
        7,
        None,
        "a",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"base": [[1.0]], "head": [[float("nan")]]},
        {"base": [[1.0]], "head": [[0.0]]},
        {"base": [[1.0]], "head": [[-1.0]]},
        {"base": [[1.0]], "head": []},
        {"base": [[1.0]], "head": [[]]},
        {"base": [[1.0]]},
        {"base": [1.0], "head": [1.0]},
        {"base": [["fast"]], "head": [[1.0]]},
        {"base": [[1.0]], "head": [[float("inf")]]},
        {"base": [[5e-324]] * 5, "head": [[1.0]] * 5},
        {"base": [[1.7e308, 1.7e308]], "head": [[1.7e308, 1.7e308]]},
        {"base": [[10**400]], "head": [[1.0]]},
        {"base": [[1.0]], "head": [[1.0]], "aa": [1e300]},
        {"base": [[1.0]], "head": [[1.0]], "aa": [10**400]},
        {"base": [[1.0]], "head": [[1.0]], "group": ["a"]},
        {"base": [[1.0]], "head": [[1.0]], "group": float("nan")},
    ],
)
@pytest.mark.parametrize("op", ["compare", "decide"])
def test_an_invalid_case_gets_an_error_of_its_own(bad: Case, op: str) -> None:
    first, second = judge_cases_json(
        {"op": op, "cases": [dict(bad, id="bad"), dict(a_case(1.1), id="good")]}
    )["results"]

    assert set(first) == {"id", "error"}
    assert first["id"] == "bad"
    assert "error" not in second


def test_ignores_unknown_fields_and_judges_cases_independently() -> None:
    case = a_case(1.06, sd=0.02, seed=3)
    alone = answer(dict(case, colour="blue"))

    among = judge_cases_json(
        {"op": "compare", "cases": [a_case(seed=k, sd=0.1) for k in range(10, 30)] + [case]}
    )["results"][-1]

    assert among == alone


def test_false_discovery_control_acts_within_a_group() -> None:
    weak = a_case(1.08, sd=0.035, seed=5)
    crowd = [a_case(sd=0.035, seed=k) for k in range(100, 200)]

    alone = answer(weak)
    among = judge_cases_json({"op": "compare", "cases": [dict(c, group="suite") for c in [weak, *crowd]]})[
        "results"
    ]

    assert alone["confident"]
    assert not among[0]["confident"]
    assert among[0]["regression"] == alone["regression"]


def test_improvements_of_a_group_are_controlled_as_regressions_are() -> None:
    rng = np.random.default_rng(21)
    cases = []
    for k in range(40):
        base, head = np.exp(rng.normal(0, 0.03, (2, 6)))
        head = head * np.exp(rng.choice((-0.09, 0.0, 0.0, 0.09)))
        sides = ([[level] for level in side] for side in (base.tolist(), head.tolist()))
        cases.append(dict(zip(("base", "head"), sides, strict=True), id=k, group="suite"))
    swapped = [dict(case, base=case["head"], head=case["base"]) for case in cases]

    forth, back = (
        [result["verdict"] for result in judge_cases_json({"op": "compare", "cases": batch})["results"]]
        for batch in (cases, swapped)
    )

    mirror = {"regression": "improvement", "improvement": "regression"}
    assert {"regression", "improvement"} <= set(forth)
    assert back == [mirror.get(verdict, verdict) for verdict in forth]


def test_a_group_shares_a_noise_prior() -> None:
    quiet = [dict(a_case(sd=0.01, seed=k, processes=3), group="suite") for k in range(30)]

    alone, together = (
        answer(a_case(sd=0.01, seed=0, processes=3)),
        judge_cases_json({"op": "compare", "cases": quiet})["results"][0],
    )

    width = [item["ci"][1] - item["ci"][0] for item in (alone, together)]
    assert width[1] != width[0]


def test_an_aa_history_raises_the_bar() -> None:
    assert answer(a_case(1.08))["regression"]
    assert not answer(a_case(1.08, aa=[0.1, -0.1, 0.12]))["regression"]


def test_a_quiet_aa_history_narrows_the_interval_of_few_pairs() -> None:
    few = a_case(sd=0.01, seed=2, processes=3)

    alone, reply = answer(few), answer(dict(few, aa=[0.008, -0.01, 0.006, 0.004, -0.008, 0.012]))

    assert reply["ci"][1] - reply["ci"][0] < alone["ci"][1] - alone["ci"][0]
    assert answer(dict(few, aa=[0.008, -0.01]))["ci"] == alone["ci"]  # two comparisons are no past


def test_an_aa_history_counts_in_decide_too() -> None:
    case = a_case(1.1, sd=0.04, seed=6, processes=5)
    document = {
        "op": "decide",
        "cases": [case, dict(case, id="known", aa=[0.025, -0.03, 0.02, -0.022, 0.027] * 4)],
    }

    alone, existing = judge_cases_json(document)["results"]

    assert existing["ci"][1] - existing["ci"][0] < alone["ci"][1] - alone["ci"][0]


def test_one_process_a_side_has_no_interval() -> None:
    result = answer(a_case(2.0, processes=1))

    assert (result["ci"], result["regression"], result["verdict"]) == (None, False, "inconclusive")


def test_decide_stops_or_requests_more_pairs() -> None:
    quiet = {
        "op": "decide",
        "min_effect": 0.05,
        "max_pairs": 20,
        "cases": [a_case(1.2, sd=0.002, processes=5)],
    }
    noisy = {
        "op": "decide",
        "min_effect": 0.05,
        "max_pairs": 20,
        "cases": [a_case(sd=0.1, seed=1, processes=5)],
    }

    (stop,), (more,) = judge_cases_json(quiet)["results"], judge_cases_json(noisy)["results"]

    assert stop["decision"] == "regression"
    assert "more_pairs" not in stop
    assert more["decision"] == "more"
    assert more["more_pairs"] >= 1


def test_decide_never_exceeds_the_cap() -> None:
    document = {"op": "decide", "max_pairs": 5, "cases": [a_case(sd=0.2, seed=1, processes=5)]}

    assert judge_cases_json(document)["results"][0]["decision"] == "inconclusive"


def test_detect_gives_change_points_and_errors_in_order() -> None:
    step = [1.0] * 20 + [1.2] * 20
    document = {
        "op": "detect",
        "min_effect": 0.05,
        "series": [
            {"id": "step", "values": step, "unit": "s"},
            {"id": "zero", "values": [0.0, 1.0]},
            {"id": "nan", "values": [float("nan")] * 9},
            {"id": "empty", "values": []},
            {"id": "none"},
            {"id": "flat", "values": [1.0] * 30},
        ],
    }

    results = detect_change_points_json(document)["results"]

    assert [result["id"] for result in results] == ["step", "zero", "nan", "empty", "none", "flat"]
    assert [("error" in result) for result in results] == [False, True, True, True, True, False]
    assert results[0]["change_points"] == [
        {
            "index": 20,
            "rel": pytest.approx(0.2),
            "before": pytest.approx(1.0),
            "after": pytest.approx(1.2),
            "rel_ci": pytest.approx([0.2, 0.2], abs=1e-3),
        }
    ]
    assert results[5]["change_points"] == []


@pytest.mark.parametrize(
    ("before", "after", "relative_change"),
    [(0.0, 3.0, None), (-2.0, 3.0, None), (3.0, 0.0, -1.0), (2.0, -1.0, -1.5)],
)
def test_accepts_zeros_where_every_change_counts(
    before: float, after: float, relative_change: float | None
) -> None:
    (result,) = detect_change_points_json(
        {"min_effect": 0, "series": [{"id": 1, "values": [before] * 20 + [after] * 20}]}
    )["results"]

    (step,) = result["change_points"]
    assert (step["index"], step["rel"], step["rel_ci"]) == (20, relative_change, None)
    assert (step["before"], step["after"]) == (before, after)


@pytest.mark.parametrize(
    "values",
    [[10**400, 1.0], [5e-324] * 20 + [1e300] * 20, [0.0, 5e-324] * 9 + [1e300] * 9],
    ids=["integer", "apart", "apart with zeros"],
)
def test_an_invalid_series_gets_an_error_of_its_own(values: list[float]) -> None:
    flat = {"id": "flat", "values": [1.0] * 30}

    first, second = detect_change_points_json(
        {"min_effect": 0, "series": [{"id": "bad", "values": values}, flat]}
    )["results"]

    assert set(first) == {"id", "error"}
    assert second == {"id": "flat", "change_points": []}


def test_a_step_beyond_any_exponent_is_detected_where_every_change_counts() -> None:
    (result,) = detect_change_points_json(
        {"min_effect": 0, "series": [{"values": [1.0] * 10 + [0.0] + [1.0] * 10 + [1e6] * 19}]}
    )["results"]

    (step,) = result["change_points"]
    assert (step["index"], step["rel"]) == (21, pytest.approx(1e6, rel=1e-5))


def test_an_id_that_is_no_json_is_not_repeated() -> None:
    results = judge_cases_json({"cases": [dict(a_case(), id=float("nan")), dict(a_case(), id=[1])]})[
        "results"
    ]

    assert [result["id"] for result in results] == [None, [1]]
    assert all("id" in result["error"] for result in results)


def test_results_are_plain_json() -> None:
    document = {"op": "compare", "cases": [a_case(1.1), a_case(processes=1), {"id": 1}]}

    assert json.loads(json.dumps(judge_cases_json(document), allow_nan=False))
    assert json.loads(
        json.dumps(detect_change_points_json({"series": [{"id": 1, "values": [1.0] * 9}]}), allow_nan=False)
    )


@pytest.mark.parametrize(
    "document",
    [{"op": "guess", "cases": []}, {"op": "compare"}, {"cases": [3]}, {"cases": [], "min_effect": "5 %"}]
    + [{"cases": [], "min_effect": share} for share in (float("nan"), float("inf"), 10**400, -0.1)]
    + [{"cases": [], "max_pairs": pairs} for pairs in (0, -3, "x", 5.5, None, True, 10**400)],
)
def test_refuses_an_invalid_document_in_one_sentence(document: Case) -> None:
    with pytest.raises(PerfciError, match="expected"):
        judge_cases_json(document)
