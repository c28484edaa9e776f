"""Files that are programs in disguise are refused with a reason, whatever they are called and asked to be read as."""

from __future__ import annotations

from pathlib import Path

from perfci.model import PerfciError

REFUSED_MAGIC = {
    **{bytes((0x80, version)): "a pickle" for version in range(2, 6)},
    b"PK\x03\x04": "a zip archive, as torch.save and numpy.savez write them",
    b"\x93NUMPY": "a numpy array",
}
"""How such files begin; a pickle by ``pickle.PROTO`` and its version, which only those of protocol 0 and 1 lack."""

REFUSED_SUFFIXES = (".pkl", ".pickle", ".pt", ".pth", ".npy", ".npz")


def refuse_executable_formats(path: Path, head: bytes) -> None:
    """A pickle runs code of its writer when it is read, so that perfci never reads one; the rest says no units."""
    found = next((what for mark, what in REFUSED_MAGIC.items() if head.startswith(mark)), "")
    if not found and path.is_file() and path.suffix.lower() in REFUSED_SUFFIXES:
        found = f"called {path.suffix}"
    if found:
        raise PerfciError(
            f"{path} is {found}: loading such files can run code, and they say neither unit nor direction; "
            "write the numbers as perfci.run/1, or as one of the JSON or CSV formats of docs/formats.md."
        )
