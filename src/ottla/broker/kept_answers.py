"""Answers that hold until the image changes, encoded: whoever asks the same as somebody before gets the same.

A key says who asks on which listener, and for what, to the byte.
"""

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias


class KeptAnswer(NamedTuple):
    """`errors`: how often each error code is in it, without NONE, as it counts each time that it is given."""

    body: bytes
    errors: dict[int, int]


KeptAnswers: TypeAlias = dict[tuple[Hashable, ...], KeptAnswer]
