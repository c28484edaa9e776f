"""Incidents derived from the stored history at this moment, as text: no evaluation has stored any yet."""

from __future__ import annotations

from collections.abc import Iterator

from perfci.report.incidents import incident_text as words
from perfci.service.incidents.compute_evaluation import ProjectEvaluation
from perfci.verdicts.incidents.page_budget import BudgetedIncident


def format_derived_overview(evaluation: ProjectEvaluation) -> Iterator[str]:
    """A summary line, then every section; re-measurements and slow drift come with their commands."""
    summary = words.incidents_summary(evaluation.incidents, len(evaluation.retests), len(evaluation.creeps))
    yield f"{evaluation.project}: {summary}"
    for title, incidents in words.group_by_section(evaluation.incidents):
        yield from ("", title)
        for incident in incidents:
            yield from format_derived_summary(incident, evaluation)
    if evaluation.retests:
        yield from ("", "Suggested re-measurements")
        for retest in evaluation.retests:
            yield from (f"  {words.retest_sentence(retest)}", f"    {words.retest_command(retest)}")
    if evaluation.creeps:
        yield from ("", "Slow drift since a release")
        for creep in evaluation.creeps:
            yield from (f"  {words.creep_sentence(creep)}", f"    {words.creep_command(creep)}")


def format_derived_summary(budgeted: BudgetedIncident, evaluation: ProjectEvaluation) -> Iterator[str]:
    """One incident of a list: its headline and, indented, what is known about it."""
    incident = budgeted.incident
    headline = words.incident_headline(incident, evaluation.commits)
    yield f"  {words.GLYPHS[incident.kind]} {incident.id}  {headline}"
    explained = words.incident_explanation(incident, evaluation.commits)
    yield f"    {words.largest_change_sentence(incident)}. {explained}".rstrip()
    yield f"    {words.disposition_sentence(budgeted, evaluation.pages_per_week)}"
    if command := words.measure_command(incident):
        yield f"    {command}"


def format_derived_incident(budgeted: BudgetedIncident, evaluation: ProjectEvaluation) -> Iterator[str]:
    """One incident with its series and candidate commits."""
    incident = budgeted.incident
    yield f"{words.GLYPHS[incident.kind]} {words.incident_headline(incident, evaluation.commits)}"
    yield from filter(None, [words.incident_explanation(incident, evaluation.commits)])
    yield f"{incident.id}, {words.disposition_sentence(budgeted, evaluation.pages_per_week)}"
    yield from ("", "Changed series, largest first")
    yield from (f"  {words.member_sentence(change)}" for change in incident.members)
    if incident.candidates:
        yield from ("", "Candidate commits, most likely first")
        yield from (f"  {line}" for line in words.candidate_commit_lines(incident))
    if command := words.measure_command(incident):
        yield from ("", "Next measurement", f"  {command}")
