"""What a slower commit does that its base did not: two profiles compared."""
