"""Incidents, their members, mutes, expected changes and reporting schedules."""
