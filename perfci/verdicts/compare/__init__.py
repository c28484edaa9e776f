"""Base against head: one verdict a series, and what a group of verdicts says together."""
