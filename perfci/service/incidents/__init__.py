"""Incidents: derived from change points, reconciled with what is stored, and triaged by people."""
