"""The client properties of a run: what its flows need to get into a cluster that does not let everybody in.

A folder is made to be committed, so it has no secrets. It may name a file of properties that stands elsewhere
(`spark.ottla.client.config`), and whoever runs it may give others. Together they are in a file below `.ottla`
that nobody else can read, while the run lasts; `format("ottla")` reads it in the driver.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping

from ottla.base.command_error import USAGE, CommandError
from ottla.base.properties import read_file
from ottla.client.errors import ClientError
from ottla.client.properties import SERVERS, ClientProperties, client_properties, layered
from ottla.pipelines.folder import PipelineFolder

CONFIG = "spark.ottla.client.config"
NAME = "client.properties"
REMOTE = "sc://"


def properties_of(folder: PipelineFolder, where: ClientProperties, named: str | None) -> dict[str, str]:
    """What was given for the run, over what is in the file that the folder names; addresses aside."""
    file = read_file(os.path.join(folder.path, os.path.expanduser(named))) if named else {}
    properties = layered(dict(where.given), file)
    properties.pop(SERVERS, None)
    return properties


def checked(properties: Mapping[str, str], bootstrap: str | None = None) -> ClientProperties:
    try:
        return client_properties(properties, bootstrap or "")
    except ClientError as error:
        raise CommandError(str(error), USAGE) from None


def check_master(master: str, where: ClientProperties, named: str | None) -> None:
    """Of a driver elsewhere, the file that the folder names is there, and nothing can be given it."""
    if master.startswith(REMOTE) and not named and any(name != SERVERS for name, _ in where.given):
        raise CommandError(
            f"the driver of {master} is elsewhere and does not read files of this machine; put the client's "
            f"properties into a file there, and name it in spark-pipeline.yml: {CONFIG}",
            USAGE,
        )


@contextlib.contextmanager
def written(folder: PipelineFolder, properties: Mapping[str, str]) -> Iterator[None]:
    path = folder.own(NAME)
    if not properties:
        yield
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # of a run that was killed
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={_escaped(value)}\n" for name, value in properties.items())
        yield
    finally:
        os.unlink(path)


def _escaped(value: str) -> str:
    """As in a file of properties; a space at the beginning would be lost otherwise."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{text}" if text.startswith((" ", "\t")) else text
