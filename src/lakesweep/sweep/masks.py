"""Booleans of Arrow as masks of numpy."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask: TypeAlias = npt.NDArray[np.bool_]


def mask_of(booleans: pa.Array) -> Mask:
    """The mask of an array without nulls."""
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask
