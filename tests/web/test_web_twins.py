"""Pages as data: the JSON of a commit, the CSV of pull requests."""

from __future__ import annotations

from flask.testing import FlaskClient
from page_reading import P
from web_builders import STEP, a_commit


def test_a_commit_is_json_as_the_command_shows_it(client: FlaskClient) -> None:
    sha = a_commit(STEP).sha

    fields = client.get(f"{P}/commit/{sha[:10]}.json").get_json()

    assert fields["commit"] == sha
    assert len(fields["values"]) > 5


def test_pull_requests_are_csv(client: FlaskClient) -> None:
    answer = client.get(f"{P}/pulls.csv")

    assert answer.mimetype == "text/csv"
    assert answer.text.splitlines()[0] == "number,head,base,measured_at,verdicts"
