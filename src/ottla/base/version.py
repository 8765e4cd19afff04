"""Which Ottla this is. The package gives it as `ottla.__version__`, which no room can import."""

from typing import Final

VERSION: Final = "0.1.0"
