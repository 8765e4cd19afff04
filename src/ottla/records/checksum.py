"""CRC-32C, the checksum of record batches and snapshots, in C.

The package `crc32c` looks its own version up when it is imported, for which Python reads the metadata of what
is installed: a tenth of the time in which a broker starts. So its module is loaded alone, where that can be
found.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from ottla.base.files import Buffer


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("_crc32c", places) if places else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as packaged

        return packaged
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.crc32c  # type: ignore[no-any-return]


crc32c = _load()
