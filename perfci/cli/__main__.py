"""``python -m perfci.cli`` for where the script is not on the PATH."""

from perfci.cli import main

main()
