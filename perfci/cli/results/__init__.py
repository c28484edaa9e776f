"""Verbs over stored results."""
