"""Run torch code without computing: every tensor has a shape and a device, and no values."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from types import SimpleNamespace

from perfci.model import PerfciError

FAKE_DEVICE = "meta"
"""Device for fake tensors that belong on an accelerator, on a machine without one.

With ``cuda`` only torch's CUDA builds can do that. Operators whose kernel depends on the device (attention)
take the plain one here.
"""


OUTSIDE_TENSOR_ERRORS = ("Mixing fake modes", "Please convert all Tensors to FakeTensors first")
"""How torch says that a tensor was made before fake tensors, or under others."""


@contextlib.contextmanager
def fake_tensors() -> Iterator[None]:
    """Make tensors created inside fake. A value that is only stored, such as a logged loss, may be read.

    Raises ``PerfciError`` where the code cannot go on without values (``if loss.item() > 3``,
    ``tokens[mask]`` summed into a size, a number that is printed), and where it uses a tensor from outside.
    """
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

    class CopiedWithItsTensors(FakeTensorMode):  # type: ignore[misc]
        """A fake tensor holds its mode: deep copies of one, as of the layers of ``nn.TransformerEncoder``,
        stay in the mode instead of being given a copy of it, which they could not be mixed with.
        """

        def __deepcopy__(self, memo: object) -> FakeTensorMode:
            return self

    unknown = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
    try:
        with (
            warnings.catch_warnings(),
            _allow_module_moves(),
            CopiedWithItsTensors(shape_env=ShapeEnv(), static_shapes=True),
        ):
            # torch's own deep copy of a tensor asks whether it has data.
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
            yield
    except unknown as error:
        what = str(error).splitlines()[0]
        if isinstance(error, GuardOnDataDependentSymNode):
            what = "a size or a branch depends on numbers, as after nonzero(), a mask or int(tensor)"
        raise PerfciError(
            f"the function needs a computed value and cannot run on fake tensors: {what}"
        ) from error
    except AssertionError as error:
        if not any(message in str(error) for message in OUTSIDE_TENSOR_ERRORS):
            raise
        raise PerfciError(
            "the function uses a tensor that was made outside of it; "
            "for fake tensors it has to build everything"
        ) from error


@contextlib.contextmanager
def _allow_module_moves() -> Iterator[None]:
    """Let ``module.to()`` work on fake parameters.

    It swaps them with the moved ones, and ``torch.utils.swap_tensors`` refuses what has a weak reference,
    which every fake tensor has from its own mode (pytorch#184976). That one follows the object, not its
    contents: it may stay.
    """
    import torch

    before = torch.utils.weakref
    torch.utils.weakref = SimpleNamespace(getweakrefs=lambda tensor: [])
    try:
        yield
    finally:
        torch.utils.weakref = before
