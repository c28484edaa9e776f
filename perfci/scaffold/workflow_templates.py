"""The GitHub workflows that `perfci init` writes; jobs that run untrusted code hold no credential."""

from __future__ import annotations

import re

from perfci import __version__

CHECKOUT_ACTION = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
SETUP_PYTHON_ACTION = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0"
CACHE_ACTION = "actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5"
CACHE_RESTORE_ACTION = CACHE_ACTION.replace("cache@", "cache/restore@")
UPLOAD_ARTIFACT_ACTION = "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0"
DOWNLOAD_ARTIFACT_ACTION = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"

SETUP_STEPS = f"""\
      - uses: {CHECKOUT_ACTION}
        with:
          fetch-depth: 0
          persist-credentials: false
      - uses: {SETUP_PYTHON_ACTION}
        with:
          python-version: "3.11"
      - run: pip install 'perfci[torch]=={__version__}'"""

SETUP_STEPS_WITHOUT_CHECKOUT = f"""\
      - uses: {SETUP_PYTHON_ACTION}
        with:
          python-version: "3.11"
      - run: pip install perfci=={__version__}"""

UPLOAD_RESULTS_STEP = f"""\
      - name: Upload measurements
        if: ${{{{ !cancelled() }}}}
        uses: {UPLOAD_ARTIFACT_ACTION}
        with:
          name: perfci-results
          path: perfci-results
          if-no-files-found: ignore"""

AA_CACHE_OPTIONS = """\
          path: .perfci/perfci.db
          key: perfci-aa-${{ github.run_id }}
          restore-keys: perfci-aa-"""

WORKFLOW_RUN_URL = "${{ github.server_url }}/${{ github.repository }}/actions/runs/${{ github.run_id }}"

ORDER_RUN_NAME = "perfci order {0}"
"""How a run is called that carries out an order, by which the server finds it again."""

MEASURING_JOB_RUNNER = re.compile(r"    runs-on: ubuntu-latest # .*\n")
"""The line that names the machine, in each of the four jobs that measure."""
MACHINE_GROUPS = ("pull-requests", "trusted", "trusted", "pull-requests")
FORK_GUARD = """\
    # such a machine keeps what a job leaves behind: no code of strangers runs there
    if: >-
      github.event_name == 'pull_request' &&
      github.event.pull_request.head.repo.full_name == github.repository
"""

DEFAULT_BRANCHES = "branches: [main, master]"
PLAIN_BRANCH_NAME = re.compile(r"[A-Za-z0-9._/-]+")
"""Branch names that GitHub cannot take for a pattern."""

MEASURE_WORKFLOW = f"""\
# Written by `perfci init`: compares every pull request with its merge base, in interleaved pairs on one
# machine, and, every night, a commit with itself (A/A run) to measure the noise floor and the false-alarm
# rate.
# The measured code is untrusted, so the jobs that measure hold no credential; perf-report.yml posts the
# result. The job `order` compares any two commits: started by hand, or by a perfci server that is a GitHub
# App, as which it also answers `/perfci run` on a pull request. Where the repository's variable
# PERFCI_SERVER names a perfci server that is bound to this file (`perfci project bind`), commits of the main
# branch are measured as well, older ones when started by hand with `since`, and a job that runs none of them
# sends the server everything.
name: perf
run-name: ${{{{ inputs.order && format('{ORDER_RUN_NAME}', inputs.order) || '' }}}}
on:
  pull_request:
  push:
    {DEFAULT_BRANCHES}
  schedule:
    - cron: "23 3 * * *"
  workflow_dispatch:
    inputs:
      since:
        description: >-
          Every commit of this branch after that one, such as v1.0 or HEAD~20; nothing, only the newest
        default: ""
      rounds:
        description: How often each of them is measured; nothing, as perfci.toml says
        default: ""
      head:
        description: Instead of all that, compare this commit (a branch, tag or sha) with another one
        default: ""
      base:
        description: The commit it is compared with; nothing, the one before it
        default: ""
      bench:
        description: Only benchmarks in whose name(parameters) this expression is found
        default: ""
      pairs:
        description: Measure exactly so many pairs, 4 to 200; nothing, as many as decide it
        default: ""
      suite:
        description: default or full; nothing, full where an expression selects
        default: ""
      order:
        description: The number of the order, which a server gives
        default: ""
permissions: {{}}
concurrency: # a newer commit of a pull request makes measuring the older one pointless
  group: perf-${{{{ github.event.pull_request.number || github.run_id }}}}
  cancel-in-progress: ${{{{ github.event_name == 'pull_request' }}}}
jobs:
  compare:
    name: compare with the merge base
    if: github.event_name == 'pull_request'
    runs-on: ubuntu-latest # small sizes; `perfci init --runner LABEL` is for a machine of your own
    timeout-minutes: 60
    permissions:
      contents: read
    outputs: # for jobs of your own
      verdict: ${{{{ steps.compare.outputs.verdict }}}}
      regressions: ${{{{ steps.compare.outputs.regressions }}}}
      report-url: {WORKFLOW_RUN_URL}
    steps:
{SETUP_STEPS}
      - name: Restore A/A results
        uses: {CACHE_RESTORE_ACTION}
        with:
{AA_CACHE_OPTIONS}
      - name: Compare with the merge base
        id: compare
        run: |
          test ! -e .perfci/perfci.db || perfci db upgrade
          perfci github compare --smoke --budget 30m
{UPLOAD_RESULTS_STEP}
  history:
    name: measure commits of the main branch
    if: >-
      vars.PERFCI_SERVER != '' && (github.event_name == 'push' ||
      github.event_name == 'workflow_dispatch' && inputs.head == '')
    runs-on: ubuntu-latest # the same kind of machine as above
    timeout-minutes: 360
    permissions:
      contents: read
    steps:
{SETUP_STEPS}
      # to HEAD, so that none is of any other branch
      - name: Measure the newest commit, or every one since another
        timeout-minutes: ${{{{ inputs.since && 340 || 50 }}}}
        run: perfci run --smoke ${{ROUNDS:+--rounds "$ROUNDS"}} -- "${{SINCE:+$SINCE..}}HEAD"
        env:
          SINCE: ${{{{ inputs.since }}}}
          ROUNDS: ${{{{ inputs.rounds }}}}
      - name: Export measurements # what failed or took too long is a result, too
        if: ${{{{ !cancelled() }}}}
        run: |
          mkdir -p perfci-results/runs
          perfci export --format perfci |
            split --lines 1 --additional-suffix .json - perfci-results/runs/history-
{UPLOAD_RESULTS_STEP}
  aa:
    name: "A/A run: compare a commit with itself"
    if: github.event_name == 'schedule'
    runs-on: ubuntu-latest # the same kind of machine as above: another one has noise floors of its own
    timeout-minutes: 60
    permissions:
      contents: read
    steps:
{SETUP_STEPS}
      - name: Keep A/A results from night to night
        uses: {CACHE_ACTION}
        with:
{AA_CACHE_OPTIONS}
      - name: Compare a commit with itself
        run: |
          test ! -e .perfci/perfci.db || perfci db upgrade
          # a false alarm is counted, not failed for
          perfci compare HEAD HEAD --smoke --budget 30m --results perfci-results || test $? -eq 1
          perfci noise | sed 's/^/    /' >> "$GITHUB_STEP_SUMMARY"
{UPLOAD_RESULTS_STEP}
  order: # its inputs are read from the event, so that no shell and no expression sees them
    name: compare the commits of an order
    if: github.event_name == 'workflow_dispatch' && inputs.head != ''
    runs-on: ubuntu-latest # the same kind of machine as above
    timeout-minutes: 120
    permissions:
      contents: read
    steps: # commits that are on no branch or tag, such as those of a fork, are not in this clone
{SETUP_STEPS}
      - name: Restore A/A results
        uses: {CACHE_RESTORE_ACTION}
        with:
{AA_CACHE_OPTIONS}
      - name: Compare the commits
        run: |
          test ! -e .perfci/perfci.db || perfci db upgrade
          perfci github compare --smoke --budget 90m
{UPLOAD_RESULTS_STEP}
  upload:
    name: upload measurements to the server
    needs: [compare, history, aa]
    # GitHub signs nothing for a pull request of a fork; what was ordered the server fetches itself: it is of
    # code that nobody has merged, and what is uploaded by hand from a bound branch enters the history
    if: >-
      ${{{{ !cancelled() && vars.PERFCI_SERVER != '' && inputs.head == '' &&
      (github.event_name != 'pull_request' ||
      github.event.pull_request.head.repo.full_name == github.repository) }}}}
    runs-on: ubuntu-latest
    timeout-minutes: 10
    permissions:
      id-token: write # the server lets a job upload by what GitHub signs of it;
      # so nothing is checked out or built here
      pull-requests: read # expected changes declared by the pull request of a commit
    steps:
{SETUP_STEPS_WITHOUT_CHECKOUT}
      - uses: {DOWNLOAD_ARTIFACT_ACTION}
        continue-on-error: true # nothing was measured: nothing is sent
        with:
          name: perfci-results
          path: perfci-results
      - name: Report expected changes of the commit # so that they are accepted; --project NAME as below
        if: github.event_name == 'push'
        continue-on-error: true # what it costs is an incident then, which a person accepts
        run: perfci github announce --server "$SERVER"
        env:
          GITHUB_TOKEN: ${{{{ github.token }}}}
          SERVER: ${{{{ vars.PERFCI_SERVER }}}}
      # where perfci.toml names the project otherwise than the repository: --project NAME
      - name: Upload measurements to the server
        run: test ! -d perfci-results/runs || perfci upload perfci-results/runs/* --server "$SERVER"
        env:
          SERVER: ${{{{ vars.PERFCI_SERVER }}}}
"""

REPORT_WORKFLOW = f"""\
# Written by `perfci init`: posts the results of perf.yml to the pull request, in one comment that is edited
# in place and a check. It runs nothing of the pull request, takes nothing from the results but numbers and
# names that are shown as such, and checks with GitHub where they came from; so it may hold a token
# that writes, for pull requests of forks too.
name: perf-report
on:
  workflow_run: # zizmor: ignore[dangerous-triggers] checks nothing out, and treats the artifact as hostile
    workflows: [perf]
    types: [requested, completed]
  issue_comment: # somebody accepts what got worse, or takes that back
    types: [created, deleted]
permissions: {{}}
concurrency:
  group: perf-report-${{{{ github.event.workflow_run.id || github.event.comment.id }}}}
  cancel-in-progress: false
jobs:
  report:
    name: report to the pull request
    if: >-
      github.event.workflow_run.event == 'pull_request' ||
      github.event.issue.pull_request && startsWith(github.event.comment.body, '/perfci accept ') &&
      contains(fromJSON('["OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"]'),
      github.event.comment.author_association)
    # members whose membership is private are contributors; who may really accept is asked inside
    runs-on: ubuntu-latest
    timeout-minutes: 10
    permissions:
      actions: read # the artifact of the other workflow
      checks: write # the verdict as a check
      pull-requests: write # the comment
    steps:
{SETUP_STEPS_WITHOUT_CHECKOUT}
      - uses: {DOWNLOAD_ARTIFACT_ACTION}
        if: github.event.action == 'completed'
        continue-on-error: true # nothing was measured: the report says so
        with:
          name: perfci-results
          path: perfci-results
          run-id: ${{{{ github.event.workflow_run.id }}}}
          github-token: ${{{{ github.token }}}}
      - name: Report to the pull request # `--gate block` turns the check red for a regression
        run: perfci github report perfci-results
        env:
          GITHUB_TOKEN: ${{{{ github.token }}}}
          # the comment leads to the page of the comparison, where it was sent to a server
          PERFCI_CLIENT_SERVER: >-
            ${{{{ github.event.workflow_run.head_repository.full_name == github.repository &&
            vars.PERFCI_SERVER || '' }}}}
"""


def render_measure_workflow(branch: str = "", runner: str = "") -> str:
    """Render the workflow for the history of a branch, without a plain name of ``main`` and ``master``.

    ``runner`` is a label of the user's own machines: pull requests, none of a fork, go to those that are also
    labelled ``pull-requests``, everything else to those that are labelled ``trusted``.
    """
    text = MEASURE_WORKFLOW
    if PLAIN_BRANCH_NAME.fullmatch(branch):
        text = text.replace(DEFAULT_BRANCHES, f'branches: ["{branch}"]')
    return _measure_on_own_runner(text, runner) if runner else text


def _measure_on_own_runner(text: str, runner: str) -> str:
    """Name the machine in each job that measures, which then measures real sizes."""
    compare, history, aa, order = (
        f"    runs-on: [self-hosted, {runner}, {group}] # zizmor: ignore[self-hosted-runner] none of a fork\n"
        for group in MACHINE_GROUPS
    )
    before, *jobs = MEASURING_JOB_RUNNER.split(text)
    text = "".join((before, compare, jobs[0], history, jobs[1], aa, jobs[2], order, jobs[3]))
    return text.replace("    if: github.event_name == 'pull_request'\n", FORK_GUARD).replace(" --smoke", "")
