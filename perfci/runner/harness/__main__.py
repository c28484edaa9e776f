"""Entry point: ``python harness FD`` is a fork server, ``... cell ARGUMENTS`` a spawned cell."""

import importlib
import json
import os
import socket
import sys
import types


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    # Python put this folder first on the path, where its modules would hide the project's of equal names.
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.getcwd()) != here]
    package = types.ModuleType("perfci_harness")
    package.__path__ = [here]
    sys.modules["perfci_harness"] = package
    if sys.argv[1] == "cell":
        importlib.import_module("perfci_harness.cell_supervisor").spawned_cell_main(json.loads(sys.argv[2]))
    else:
        importlib.import_module("perfci_harness.fork_server").run_fork_server(
            socket.socket(fileno=int(sys.argv[1]))
        )


main()
