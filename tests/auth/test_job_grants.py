"""What the token of a job may upload: of its own pull request only."""

from __future__ import annotations

import pytest

from perfci.auth.job_grants import JobGrant, explain_upload_refusal
from tests.support.builders import a_result, a_run

OWN, NONE = JobGrant("17", 1, "a" * 40, pull_request=12), JobGrant("17", 1, "c" * 40, event="push")


@pytest.mark.parametrize(
    ("grant", "claimed", "refusal"),
    [
        (OWN, "12", ""),
        (
            OWN,
            "13",
            "This token is for the pull request 12, and the document is of the pull request 13: "
            "upload it from a job of that one.",
        ),
        (
            NONE,
            "13",
            "This token is for no pull request, and the document is of the pull request 13: "
            "upload it from a job of that one.",
        ),
    ],
)
def test_a_job_uploads_for_its_own_pull_request(grant: JobGrant, claimed: str, refusal: str) -> None:
    origin = (("run_id", "17"), ("attempt", "1"), ("pull_request", claimed))

    assert explain_upload_refusal(grant, a_run(a_result(), origin=origin), history=False) == refusal
