"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Tests interrupt commands as a person does. A shell that starts pytest in the background has it ignore
    SIGINT, and what is ignored is inherited; a handler is not, so the commands get their own again."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
