"""Named queries: one function for each question, with model values or records as answers."""
