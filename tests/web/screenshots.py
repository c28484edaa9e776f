"""Take a picture of every page, light, dark and narrow, to look at: ``python -m tests.web.screenshots
FOLDER``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import urljoin

from browsing import a_browser, a_server
from web_builders import COMMITS, FASTER, STEP, a_commit, a_store, fill

LOOKS = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "narrow": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "light",
        "has_touch": True,
        "is_mobile": True,
    },
}

PAGES = {
    "overview": "/acme:tiny-lm/",
    "incidents": "/acme:tiny-lm/incidents",
    "benchmarks": "/acme:tiny-lm/benchmarks",
    "unavailable": "/acme:tiny-lm/benchmarks?show=unavailable",
    "search": "/acme:tiny-lm/benchmarks?q=nothing+like+it",
    "series": "/acme:tiny-lm/s/train.Step.time_step/cpu_time?p.batch=8&p.dtype='bf16'",
    "series-failed": "/acme:tiny-lm/s/train.Step.time_step/cpu_time?p.batch=8&p.dtype='fp32'",
    "series-candidate": "/acme:tiny-lm/s/train.Step.peakmem_step/peak_memory",
    "series-exact": "/acme:tiny-lm/s/train.Step.track_flops/flops",
    "series-cpu": "/acme:tiny-lm/s/models.Tiny.measure_training/cpu_step_time?p.precision=bf16",
    "series-informational": "/acme:tiny-lm/s/models.Tiny.measure_training/data_stall?p.precision=bf16",
    "series-unavailable": "/acme:tiny-lm/s/models.Tiny.measure_training/mfu?p.precision=bf16",
    "compare": f"/acme:tiny-lm/compare/{a_commit(STEP - 1).sha}...{a_commit(STEP).sha}",
    "compare-unjudged": f"/acme:tiny-lm/compare/{a_commit(3).sha[:8]}...{a_commit(FASTER).sha[:8]}",
    "compare-choose": "/acme:tiny-lm/compare",
    "changes": "/acme:tiny-lm/changes?since=all",
    "matrix": "/acme:tiny-lm/matrix/train.Step.time_step/cpu_time",
    "matrix-choose": "/acme:tiny-lm/matrix",
    "fleet": "/acme:tiny-lm/fleet",
    "environment": "/acme:tiny-lm/env",
    "disagreements": "/acme:tiny-lm/disagreements?since=all",
    "settings": "/acme:tiny-lm/settings",
    "noise": "/acme:tiny-lm/noise",
    "commit": f"/acme:tiny-lm/commit/{a_commit(STEP).sha}",
    "commit-last": f"/acme:tiny-lm/commit/{a_commit(COMMITS - 1).sha}",
    "missing": "/acme:tiny-lm/s/train.Step.time_stop/cpu_time",
}


def main(folder: Path, only: set[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        store = a_store(Path(place))
        fill(store)
        store.close()
        with a_server(store.url) as url, a_browser() as browser:
            for look, options in LOOKS.items():
                page = browser.new_context(**options).new_page()
                for name, path in PAGES.items():
                    if not only or name in only:
                        page.goto(urljoin(url, path))
                        if page.locator("figure.chart").count():
                            page.wait_for_selector("figure.interactive")
                        page.wait_for_timeout(300)
                        page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), set(sys.argv[2:]))
