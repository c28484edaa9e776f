"""Harness inside a measured environment: a parent with torch, forked per commit and again per cell.

It is started by its path (``python harness FD``), since the environment that is measured need not have
perfci installed: it uses the standard library and asv_runner only, and lives there under the name
``perfci_harness``, so that perfci itself can be what is measured. Requests and events are lines of JSON on
the socket FD.

Three generations, so that torch is imported once, a commit's code once per visit, and every cell is a fresh
process: the *fork server* watches the socket (when it closes, everything below is killed), the
*commit parent* imports the commit and the suite and supervises one *cell* at a time by a wall clock.
"""
