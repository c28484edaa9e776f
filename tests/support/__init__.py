"""What tests build on: builders, databases, fakes of GitHub, real servers."""
