"""Trend charts, sparklines and interval bars as SVG text."""
