"""The page of one result, and the page of several series in one chart."""

import csv
import io
import re

from flask.testing import FlaskClient
from page_reading import BF16, HERE, SERIES, P, read, words
from web_builders import FAILED_AT, STEP, a_commit

from tests.support.png_sizes import read_png_size

FP32 = f"?{HERE}&p.batch=8&p.dtype='fp32'"
POINT = f"{P}/point/train.Step.time_step/cpu_time"
SHA = a_commit(STEP).sha
KEYS = [f"train.Step.time_step/cpu_time?{HERE}&p.batch=8&p.dtype='{dtype}'" for dtype in ("bf16", "fp32")]


def test_a_point_shows_samples_environment_and_what_changed(client: FlaskClient) -> None:
    html = read(client, f"{POINT}/{SHA[:10]}{BF16}")
    text = words(html)

    assert "20 samples of 5 processes, in the order of measurement" in text
    assert "got 18.3 % slower [15.9, 20.8], confirmed on new pairs" in text
    assert re.search(r"torch ?2\.13\.0", text)
    assert "withheld: it needs 64 samples" in text
    # Once for a screen, once for a phone, where labels keep their size.
    assert html.count('class="pc-dot"') == 2 * 20
    assert (
        re.findall(r'<div class="(\w+)"><svg class="pc-samples" viewBox="0 0 (\d+)', html)
        == [
            ("wide", "640"),
            ("narrow", "348"),
        ]
        * 2
    )
    assert "perfci run" in text


def test_every_sample_of_a_point_is_in_its_csv_and_json(client: FlaskClient) -> None:
    rows = list(csv.DictReader(io.StringIO(client.get(f"{POINT}/{SHA}.csv{BF16}").text)))
    document = client.get(f"{POINT}/{SHA}.json{BF16}").json

    samples = [sample for process in document["processes"] for sample in process["samples"]]
    assert [float(row["value"]) for row in rows] == samples
    assert document["environment"]["torch"] == "2.13.0"


def test_a_failed_point_says_why(client: FlaskClient) -> None:
    text = words(read(client, f"{POINT}/{a_commit(FAILED_AT).sha}{FP32}"))

    assert "Tried to allocate 512 MiB <b>at once</b>" in text
    assert "This result has no samples." in text


def test_a_commit_without_a_result_leads_to_the_series(client: FlaskClient) -> None:
    answer = client.get(f"{POINT}/{'0' * 40}{BF16}")

    assert answer.status_code == 404
    assert "has no result at a commit that starts with 0000" in answer.text


def test_a_pinned_commit_stands_beside_the_chart_without_javascript(client: FlaskClient) -> None:
    page = read(client, f"{SERIES}{BF16}&pin={SHA[:10]}")
    panel = client.get(f"{SERIES}/panel{BF16}&pin={SHA[:10]}").text

    assert f'data-sha="{SHA}"' in page
    assert words(panel) in words(page)


def test_a_picture_shows_the_range_of_its_address(client: FlaskClient) -> None:
    first, last = a_commit(5).sha[:10], a_commit(15).sha[:10]
    svg = client.get(f"{SERIES}.svg{BF16}&from={first}&to={last}&y=zero").text

    assert svg.count('class="pc-dot"') == 11 + 1
    assert "y starts at 0" in svg
    assert "AMD EPYC 9354" in svg


def test_a_graph_lists_its_series_as_a_legend(client: FlaskClient) -> None:
    html = client.get(f"{P}/graph", query_string={"s": KEYS, "norm": "first"}).text

    assert html.count("line-key pc-line-") == 2
    assert "against the first level of each" in words(html)
    figure = client.get(f"{P}/graph/figure", query_string={"s": KEYS, "norm": "first"}).json
    assert figure["figure"]["names"].count("dots") == 2


def test_a_graph_offers_only_the_value_axes_it_has(client: FlaskClient) -> None:
    absolute = client.get(f"{P}/graph", query_string={"s": KEYS}).text
    relative = client.get(f"{P}/graph", query_string={"s": KEYS, "norm": "first"}).text

    assert re.findall(r'data-view="y" data-value="(\w+)"', absolute) == ["auto", "zero", "log"]
    assert 'data-view="y"' not in relative
    assert "pin the commit" not in absolute


def test_a_graph_says_of_each_dot_which_series_it_is_of(client: FlaskClient) -> None:
    drawn = client.get(f"{P}/graph/figure", query_string={"s": KEYS}).json

    assert drawn["lines"] == [
        "train.Step.time_step(8, 'bf16') · cpu_time",
        "train.Step.time_step(8, 'fp32') · cpu_time",
    ]
    assert {point["line"] for point in drawn["points"]} == {0, 1}


def test_a_graph_draws_different_units_apart(client: FlaskClient) -> None:
    keys = [KEYS[0], f"train.Step.peakmem_step/peak_memory?{HERE}"]
    html = client.get(f"{P}/graph", query_string={"s": keys}).text

    assert html.count('<svg xmlns="http://www.w3.org/2000/svg" class="pc-trend"') == 2
    assert "In seconds" in words(html)
    assert "In bytes" in words(html)


def test_the_picture_of_a_graph_has_all_its_panels(client: FlaskClient) -> None:
    keys = [KEYS[0], f"train.Step.peakmem_step/peak_memory?{HERE}"]
    one = client.get(f"{P}/graph.svg", query_string={"s": KEYS[:1]}).text
    svg = client.get(f"{P}/graph.svg", query_string={"s": keys}).text
    png = client.get(f"{P}/graph.png", query_string={"s": keys})

    assert svg.count('class="pc-trend"') == 2
    tops = [int(top) for top in re.findall(r'<svg y="(\d+)"', svg)]
    width, height = (int(size) for size in re.search(r'width="(\d+)" height="(\d+)"', svg).groups())  # type: ignore[union-attr]
    assert tops == [0, height // 2]
    assert height > 1.9 * int(re.search(r'height="(\d+)"', one)[1])  # type: ignore[index]
    assert len(set(re.findall(r' id="([^"]+)"', svg))) == len(re.findall(r' id="([^"]+)"', svg))
    assert read_png_size(png.data) == (2 * width, 2 * height)
    assert one.startswith('<svg xmlns="http://www.w3.org/2000/svg" class="pc-trend"')


def test_a_graph_says_which_series_it_does_not_know(client: FlaskClient) -> None:
    html = client.get(f"{P}/graph", query_string={"s": ["<b>no/such", "a.b/c?m=x"]}).text

    assert "Not a series of this project: <b>no/such" in words(html)
    assert "<b>no" not in html


def test_keys_of_the_view_survive_a_short_address(client: FlaskClient) -> None:
    answer = client.get(f"{SERIES}?p.batch=8&p.dtype='bf16'&y=log&from={SHA[:10]}")

    assert answer.status_code == 302
    assert f"from={SHA[:10]}" in answer.headers["Location"]
    assert "y=log" in answer.headers["Location"]


OVERLAY = {"m": HERE.removeprefix("m="), "p.batch": "8", "p.dtype": "'bf16'", "overlay": KEYS[1]}


def test_a_second_series_is_drawn_in_the_chart_of_the_first(client: FlaskClient) -> None:
    html = client.get(SERIES, query_string=OVERLAY).text
    drawn = client.get(f"{SERIES}/figure", query_string=OVERLAY).json
    svg = client.get(f"{SERIES}.svg", query_string=OVERLAY).text

    assert re.findall(r'line-key pc-line-(\d)" aria-hidden="true"></span>([^<]*)</li>', html) == [
        (str(number), f"train.Step.time_step(8, &#39;{dtype}&#39;) · cpu_time")
        for number, dtype in ((1, "bf16"), (2, "fp32"))
    ]
    assert drawn["figure"]["names"].count("dots") == 2
    assert {point["line"] for point in drawn["points"]} == {0, 1}
    assert svg.count("pc-line-2") > 1


def test_an_overlay_stays_when_the_view_changes(client: FlaskClient) -> None:
    html = client.get(SERIES, query_string=OVERLAY).text

    links = re.findall(r'href="([^"]+)" data-view=', html)
    assert links
    assert all("overlay=train.Step.time_step/cpu_time" in link for link in links)


def test_what_cannot_be_overlaid_says_why(client: FlaskClient) -> None:
    memory = f"train.Step.peakmem_step/peak_memory?{HERE}"
    other_unit = client.get(SERIES, query_string={**OVERLAY, "overlay": memory}).text
    unknown = client.get(SERIES, query_string={**OVERLAY, "overlay": "<b>/x"}).text

    assert "is not overlaid: it is measured in bytes, this one in seconds." in words(other_unit)
    assert "Nothing is overlaid: the address names a series that this project does not have." in words(
        unknown
    )
    assert "line-key" not in other_unit + unknown


def test_a_graph_is_cut_at_commits_that_only_one_series_has(client: FlaskClient) -> None:
    query = {"s": KEYS, "from": a_commit(FAILED_AT - 1).sha, "to": a_commit(FAILED_AT + 1).sha}
    drawn = client.get(f"{P}/graph/figure", query_string=query).json

    allowed = {a_commit(FAILED_AT + offset).sha for offset in (-1, 0, 1)}
    assert {point["sha"] for point in drawn["points"]} <= allowed
