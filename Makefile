# Every target sets up what it needs in .venv first; `make help` lists them.
SHELL := /bin/bash
BIN := $(or $(VENV),.venv)/bin
ARGS ?=
# Where it forbids Python to keep bytecode, each of the hundreds of processes that tests start would compile perfci.
unexport PYTHONDONTWRITEBYTECODE
STUDY ?= demo slowdowns noise independent_tools history adaptive_pairs compare separate_runs django robustness moving_day

.PHONY: help demo test check proof lint bench gpu torture fuzz study serve wheel lock assets

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: ## measure a sample repository, find what was planted in it, open the dashboard (ARGS=--no-serve, --fresh)
	@.ci/setup demo
	@$(BIN)/perfci demo $(ARGS)

test: ## run the tests (ARGS="-k name")
	@.ci/setup dev
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

proof: ## run the long proofs whose promises `make test` holds by samples (all real asv results against asv's own reading, every odd value at every place of a file, the largest file, every caller at every page and operation, every limit of the API's contract, long simulations, every migration from every other, perfci's own workflow by CPU time, the commands of the Dockerfile: twelve minutes of CPU)
	@.ci/setup dev
	$(BIN)/python -m pytest -m proof $(ARGS)

check: ## lint, types, and the tests of what differs from the last commit, under 90 seconds (ARGS="--since origin/main")
	@.ci/setup dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.run_affected_tests $(ARGS)

lint: ## check style and types
	@.ci/setup dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: ## measure perfci itself against asv and physical limits; the last figures are in docs/studies/bench.md
	@.ci/setup dev
	$(BIN)/python -m tools.bench_perfci $(ARGS)
	$(BIN)/python -m tools.bench_timing
	$(BIN)/python -m tools.bench_judge
	$(BIN)/python -m tools.bench_store
	$(BIN)/python -m tools.bench_service
	$(BIN)/python -m tools.bench_pages
	$(BIN)/python -m tools.bench_browser

gpu: ## hold the figures taken on this NVIDIA GPU against independent ways, in under ten minutes; they go to docs/studies/gpu.md (ARGS="--only steps"; without a GPU it says so and does nothing)
	@.ci/setup dev
	$(BIN)/python -m tools.check_gpu $(ARGS)

fuzz: ## throw ARGS (1000) requests made to break it at every operation of the API, with all checks of schemathesis
	@.ci/setup dev
	PERFCI_TEST_EXAMPLES=$(or $(ARGS),1000) $(BIN)/python -m pytest -q -m proof tests/api/test_api_contract.py

torture: ## kill -9 runs and servers at random moments, disturb a server in every other way, restore over what is left: nothing lost, nothing double; the last figures are in docs/studies/torture.md
	@.ci/setup dev
	$(BIN)/python -m tools.torture_runs $(ARGS)
	$(BIN)/python -m tools.disturb_server
	$(BIN)/python -m tools.abuse_server
	$(BIN)/python -m tools.restore_cases
	$(BIN)/python -m tools.kill_server --database sqlite --kills 500 --pause 0.2 --within 5
	$(BIN)/python -m tools.kill_server --database postgresql --kills 500 --pause 0.2 --within 5

study: ## ten demos in a row, planted slowdowns, equals against each other, figures of models beside independent tools, histories without a change, pairs bought, real commits, calls that were looked at, sweeps over odd noise, a project that moves from asv (STUDY="history noise"); tables are in docs/
	@.ci/setup dev
	@set -e; for study in $(STUDY); do $(BIN)/python -m tools.study_$$study $(ARGS); done

serve: ## show the dashboard of this folder's store (ARGS="--port 8787")
	@.ci/setup demo
	@$(BIN)/perfci serve $(ARGS)

wheel: ## build into dist/ what a server is installed from: the wheel, and its requirements with their hashes
	@.ci/setup dev
	@rm -f dist/perfci-*.whl dist/requirements-*.txt
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/python -m tools.server_requirements dist/perfci-*.whl > dist/requirements-$$($(BIN)/hatchling version).txt

lock: ## write the hashed requirements of an image and of a release anew, from constraints.txt (uv is needed)
	@for extra in "server pyproject.toml --extra login --extra postgres" "release requirements/release.in"; do \
	  set -- $$extra; name=$$1; shift; \
	  UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --quiet --generate-hashes --no-annotate \
	    --python-version 3.11 --python-platform linux "$$@" -c constraints.txt -o requirements/$$name.txt || exit 1; \
	done

assets: ## fetch the pinned bundle of plotly.js that pages load (npm is needed; the file is committed)
	@.ci/setup dev
	$(BIN)/python -m tools.fetch_assets
