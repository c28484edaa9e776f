"""The workflows `perfci init` writes: one measures and holds no credential, one reports and runs nothing foreign."""

from __future__ import annotations

CHECKOUT = "actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0"
PYTHON = "actions/setup-python@e797f83bcb11b83ae66e0230d6156d7c80228e7c # v6.0.0"
CACHE = "actions/cache@0057852bfaa89a56745cba8c7296529d2fc39830 # v4.3.0"
RESTORE = CACHE.replace("cache@", "cache/restore@")
UPLOAD = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2"
DOWNLOAD = "actions/download-artifact@634f93cb2916e3fdff6788551b99b062d0335ce0 # v5.0.0"

MEASURE = f"""\
# Written by `perfci init`: compares every pull request with its merge base, in interleaved pairs on one machine, and
# every night a commit with itself: what equals show is the noise floor, and an alarm about them a false one.
# What is measured here is foreign code, so this workflow holds no credential; perf-report.yml tells the pull request.
name: perf
on:
  pull_request:
  schedule:
    - cron: "23 3 * * *"
permissions: {{}}
concurrency: # a newer commit of a pull request makes measuring the older one pointless
  group: perf-${{{{ github.event.pull_request.number || github.run_id }}}}
  cancel-in-progress: ${{{{ github.event_name == 'pull_request' }}}}
jobs:
  compare:
    name: compare with the merge base
    if: github.event_name == 'pull_request'
    runs-on: ubuntu-latest # a runner of your own with a GPU measures real sizes: then drop --smoke
    timeout-minutes: 60
    permissions:
      contents: read
    steps:
      - uses: {CHECKOUT}
        with:
          fetch-depth: 0
          persist-credentials: false
      - uses: {PYTHON}
        with:
          python-version: "3.11"
      - run: pip install 'perfci[torch]'
      - name: Fetch what equals have shown
        uses: {RESTORE}
        with:
          path: .perfci/perfci.db
          key: perfci-equals-${{{{ github.run_id }}}}
          restore-keys: perfci-equals-
      - name: Compare with the merge base
        run: |
          test ! -e .perfci/perfci.db || perfci db upgrade
          perfci github compare --smoke --budget 30m
      - name: Hand over what was measured
        if: ${{{{ !cancelled() }}}}
        uses: {UPLOAD}
        with:
          name: perfci-results
          path: perfci-results
          if-no-files-found: ignore
  equals:
    name: compare a commit with itself
    if: github.event_name == 'schedule'
    runs-on: ubuntu-latest # the same kind of machine as above: another one has noise floors of its own
    timeout-minutes: 60
    permissions:
      contents: read
    steps:
      - uses: {CHECKOUT}
        with:
          fetch-depth: 0
          persist-credentials: false
      - uses: {PYTHON}
        with:
          python-version: "3.11"
      - run: pip install 'perfci[torch]'
      - name: Keep the results from night to night # not needed where [store] url names a server
        uses: {CACHE}
        with:
          path: .perfci/perfci.db
          key: perfci-equals-${{{{ github.run_id }}}}
          restore-keys: perfci-equals-
      - name: Compare a commit with itself
        run: |
          test ! -e .perfci/perfci.db || perfci db upgrade
          perfci compare HEAD HEAD --smoke --budget 30m || test $? -eq 1 # a false alarm is counted, not failed for
          perfci calibration | sed 's/^/    /' >> "$GITHUB_STEP_SUMMARY"
"""

REPORT = f"""\
# Written by `perfci init`: tells a pull request what perf.yml measured, in one comment that is edited in place and a
# check. It runs nothing of the pull request, takes nothing from the results but numbers and names that are shown as
# such, and asks GitHub whose they are; so it may hold a token that writes, for pull requests of forks too.
name: perf-report
on:
  workflow_run: # zizmor: ignore[dangerous-triggers] checks nothing out, and treats the artifact as hostile
    workflows: [perf]
    types: [completed]
permissions: {{}}
concurrency:
  group: perf-report-${{{{ github.event.workflow_run.id }}}}
  cancel-in-progress: false
jobs:
  report:
    name: tell the pull request
    if: github.event.workflow_run.event == 'pull_request'
    runs-on: ubuntu-latest
    timeout-minutes: 10
    permissions:
      actions: read # the artifact of the other workflow
      checks: write # the verdict as a check
      pull-requests: write # the comment
    steps:
      - uses: {PYTHON}
        with:
          python-version: "3.11"
      - run: pip install perfci
      - uses: {DOWNLOAD}
        continue-on-error: true # nothing was measured: the report says so
        with:
          name: perfci-results
          path: perfci-results
          run-id: ${{{{ github.event.workflow_run.id }}}}
          github-token: ${{{{ github.token }}}}
      - name: Tell the pull request # `--gate block` turns the check red for a regression
        run: perfci github report perfci-results
        env:
          GITHUB_TOKEN: ${{{{ github.token }}}}
"""
