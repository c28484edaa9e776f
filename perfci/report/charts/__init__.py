"""The drawer: series trends and verdicts as SVG."""
