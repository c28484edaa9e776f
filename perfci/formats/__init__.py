"""Reading and writing the result files of perfci and of other tools, one module a format."""
