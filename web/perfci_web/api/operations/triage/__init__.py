"""Operations on incidents, muted benchmarks and expected changes."""
