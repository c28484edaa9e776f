"""Verdicts, trends and incidents as text, tables, Markdown, JSON values and SVG."""
