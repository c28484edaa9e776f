"""Measurement orders: placed by people, carried out by an engine, closed with a result."""
