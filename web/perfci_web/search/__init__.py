"""The search box: a benchmark, commit, author or incident of a project."""
