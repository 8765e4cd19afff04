"""Which Python runs this, and with it the broker: as much in a figure as a change of the code.

A CPython that was built with profile-guided and link-time optimisation takes up to a seventh less for a small
request. `pyenv` builds one without, unless it is told otherwise; the official container image, python.org,
`uv` and the distributions have one with.
"""

import platform
import sysconfig
from collections.abc import Collection
from importlib.util import find_spec

PROFILED, LINKED = "--enable-optimizations", "--with-lto"
DEBIAN = "deb_system"
"""Its scheme of paths. That it optimises, it does not tell in the arguments of `configure`."""


def build_of(arguments: str, schemes: Collection[str] = ()) -> str:
    """In words; `arguments` are those of `configure`."""
    flags = [flag for flag in (PROFILED, LINKED) if flag in arguments]
    if PROFILED in flags:
        return f"optimised ({' '.join(flags)})"
    if DEBIAN in schemes:
        return "optimised (Debian's own build)"
    return f"not optimised (built without {PROFILED})"


def loop() -> str:
    """What `shell/main` takes."""
    if find_spec("uvloop") is None:
        return "asyncio"
    from uvloop import __version__

    return f"uvloop {__version__}"


def facts() -> dict[str, str]:
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python_build": build_of(arguments, sysconfig.get_scheme_names()),
        "compiler": platform.python_compiler(),
        "loop": loop(),
    }
