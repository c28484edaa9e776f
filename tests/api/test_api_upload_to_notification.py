"""From an upload to a received notification, with everything in between real."""

from __future__ import annotations

import ipaddress
import json
import random
from datetime import timedelta
from functools import partial

from api_client import Api

from perfci.net.url_segments import encode_segment
from perfci.project_policies import ProjectPolicies
from perfci.service.notify.deliver_notifications import deliver_notifications
from perfci.service.notify.senders import SenderConfig
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.service.worker.lease import NOTIFICATION_LEASE, LeasedLoop
from perfci.store import Store
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_sha
from tests.support.notification_receivers import a_hook

STEP = 21
NOW = NOON + timedelta(days=2)
HERE = (ipaddress.ip_network("127.0.0.0/8"),)


def test_notifies_once_of_an_uploaded_slowdown(api: Api, store: Store) -> None:
    chance, series = random.Random(7), a_series("training.Step.time_step")
    worker = JudgeWorker(store, lambda _: ProjectPolicies(), clock=lambda: NOW)
    with a_hook() as hook:
        means = SenderConfig(HERE, build_link=lambda project, number: f"https://perf/{number}")
        delivery_loop = LeasedLoop(
            store, NOTIFICATION_LEASE, partial(deliver_notifications, store, means), lambda: NOW
        )
        for number in range(1, 31):
            level = 1.3 if number >= STEP else 1.0
            processes = [a_process(level * chance.gauss(1, 0.002), index=k) for k in range(3)]
            moment = NOON + timedelta(hours=number)
            run = a_run(
                a_result(series, *processes),
                commit=a_commit(number),
                session=f"nightly-{number}",
                started_at=moment,
            )
            assert api.upload(run).status_code == 201
            if number == 1:
                address = f"/api/v1/projects/{encode_segment(PROJECT)}/destinations/team"
                assert (
                    api.client.put(address, json={"kind": "webhook", "address": hook.url}).status_code == 201
                )
            worker.run_once()
            delivery_loop.run_once()

        results = [json.loads(body)["incidents"] for _, body in hook.got]

    assert [incident["commit"] for incidents in results for incident in incidents] == [a_sha(STEP)]
    assert results[0][0]["url"] == "https://perf/1"
    listed = api.get(f"/projects/{encode_segment(PROJECT)}/incidents").get_json()["items"]
    assert [(entry["number"], entry["open"]) for entry in listed] == [(1, True)]
