"""Programs for people who work on perfci: benches, studies, torture, drawings and the structure report."""
