"""What became of a project in one week: the page, its text for mail, and its feed."""
