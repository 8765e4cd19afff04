"""What holds for every test."""

import gc
import signal

from hypothesis import HealthCheck, settings

# Two runs of one commit try the same examples, and a pause of the machine is no failure. To look further:
# pytest --hypothesis-profile=explore
CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, database=None, **CALM)
settings.register_profile("explore", print_blob=True, **CALM)
settings.load_profile("steady")


def pytest_configure() -> None:
    """Tests interrupt commands as a person does. A shell that starts pytest in the background has it ignore
    SIGINT, and what is ignored is inherited; a handler is not, so the commands get their own again."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """The thousands of tests that were collected stay: garbage collection need not look at them each time."""
    gc.collect()
    gc.freeze()
