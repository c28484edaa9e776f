"""``perfci github``: the jobs of GitHub Actions."""
