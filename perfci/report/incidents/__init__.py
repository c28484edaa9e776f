"""Incidents as text, JSON-able values and notifications."""
