"""Named queries: one function a question, answered with model values or records."""
