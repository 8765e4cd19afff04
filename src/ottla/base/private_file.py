"""A file for those who take nothing else, with a secret that nobody else may read.

It exists in memory alone (`memfd_create`); on systems without that, in a folder of this user alone, and is
gone with it as soon as it was read.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """Its path, for as long as it is used."""
    if hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd"):
        descriptor = os.memfd_create("ottla-secret", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory(prefix="ottla-secret-") as folder:  # its mode is 0700
        path = os.path.join(folder, "secret")
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        yield path
