"""kafka-python earns a deprecation warning when it is imported; everywhere else a warning is an error."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
