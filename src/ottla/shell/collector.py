"""Python's garbage collector, kept from stalling the broker while a coordinator is loaded.

A load makes objects by the hundred thousand, all of which stay; each full collection looks at all of them
again, for up to half a second, and finds nothing. So there is none while something is loaded, and what is
there in the end is not looked at any more: reference counting frees it when it goes.
"""

import gc


class Collector:
    def __init__(self) -> None:
        self._is_paused = False

    def pause(self, is_loading: bool) -> None:
        """To be told after every input. One that somebody else has switched off stays so."""
        if is_loading and gc.isenabled():
            gc.disable()
            self._is_paused = True
        elif self._is_paused and not is_loading:
            gc.freeze()
            gc.enable()
            self._is_paused = False
