"""Goals: clauses over metrics, joined into one verdict."""
