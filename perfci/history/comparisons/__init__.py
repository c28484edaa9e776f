"""The inputs of comparisons: pairs, separate runs and their noise, from what is stored."""
