"""Numbers by which clients ask for offsets: the negative timestamps of ListOffsets, and isolation levels.

The schemas of the protocol give them as plain integers. Spark's options use the first two as offsets as well.
"""

from typing import Final

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

READ_COMMITTED: Final = 1
