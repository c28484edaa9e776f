"""Two sides beside each other, series by series: by verdicts of pairs, else from separate runs."""
