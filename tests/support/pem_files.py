"""Certificates for tests, as `ottla secure init` makes them."""

import os
from typing import NamedTuple

from ottla.shell import secure_folder


class Certificates(NamedTuple):
    """Files of PEM. The pairs hold a key and its certificate."""

    ca: str
    broker: str
    client: str


def certificates(folder: str | os.PathLike[str], *hosts: str) -> Certificates:
    path = os.fspath(folder)
    os.makedirs(path)
    secure_folder.certify(path, hosts)
    return Certificates(*(os.path.join(path, f"{name}.pem") for name in ("ca", "broker", "client")))
