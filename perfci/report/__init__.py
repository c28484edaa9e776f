"""Verdicts as text: sentences, tables, Markdown and the one SVG drawer; model values in, strings out."""
