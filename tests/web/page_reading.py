"""The addresses of the project in `web_builders`, and the words a reader sees at them."""

import re
from html import unescape

from flask.testing import FlaskClient
from web_builders import STEP, a_commit

P = "/acme:tiny-lm"
SERIES = f"{P}/s/train.Step.time_step/cpu_time"
HERE = "m=amd-epyc-9354-042c"
BF16 = f"?{HERE}&p.batch=8&p.dtype='bf16'"
MANY, MANY_BF16 = f"{P}/s/models.Tiny.measure_training", f"?{HERE}&p.precision='bf16'&p.batch=4"
COMPARE = f"{P}/compare/{a_commit(STEP - 1).sha}...{a_commit(STEP).sha}"

EVERY_PAGE = [
    f"{P}/",
    f"{P}/benchmarks",
    f"{P}/benchmarks?q=step&sort=change&page=1",
    f"{P}/benchmarks?show=unavailable",
    f"{P}/b/train.Step.time_step?metric=cpu_time",
    f"{MANY}/data_stall{MANY_BF16}",
    f"{MANY}/mfu{MANY_BF16}",
    f"{SERIES}{BF16}",
    f"{P}/waterfall/train.Step.time_step/cpu_time{BF16}",
    f"{P}/compare",
    f"{P}/noise",
    COMPARE,
    f"{P}/commit/{a_commit(STEP).sha}",
]


def words(html: str) -> str:
    """What a reader sees: no tags, entities resolved, one space at a time."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", re.sub(r"(?s)<svg.*?</svg>", "", html))))


def read(client: FlaskClient, path: str) -> str:
    """The text of a page; a short address leads to the one series that it means."""
    answer = client.get(path, follow_redirects=True)
    assert answer.status_code == 200, (path, answer.status_code)
    return answer.text
