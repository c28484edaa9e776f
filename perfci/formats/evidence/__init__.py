"""The evidence bundle ``perfci.evidence/1``: all that one incident rests on, in one file."""
