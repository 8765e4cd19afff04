"""A shipper is run as people run it: by its command."""

from tests.cli.commands import ottla, run  # noqa: F401
