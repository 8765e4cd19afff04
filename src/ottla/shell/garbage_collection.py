"""Python's garbage collector, kept from stalling the broker while a coordinator is loaded or a large request
is worked on.

A load makes objects by the hundred thousand, all of which stay; each full collection looks at all of them
again, for up to half a second, and finds nothing. So there is none while something is loaded, and what is
there in the end is not looked at any more: reference counting frees it when it goes. A large request is the
same for a moment: its items are all there until it is answered, and then all go. Between two of them garbage
is collected, so that those who send one after another do not keep it from being so.

What is remembered without a load (200,000 producers, the partitions of fetch sessions, members) is looked at
again in every full collection, too. In a process that is a broker and nothing else, what is there when it
begins to serve is not looked at any more, nor is what has survived a long one: LONG_S is well below what
counts as a stall, as the next one would be longer by a quarter at least.
"""

import gc
import time

LONG_S = 0.01


def spare_survivors() -> None:
    """For a process that is ours alone: others may count on circles of theirs being collected later."""
    begun_s = 0.0

    def on_collection(phase: str, collection: dict[str, int]) -> None:
        nonlocal begun_s
        if collection["generation"] < 2:
            return
        if phase == "start":
            begun_s = time.thread_time()
        elif time.thread_time() - begun_s > LONG_S:
            gc.freeze()

    gc.callbacks.append(on_collection)


class Collector:
    def __init__(self) -> None:
        self._is_paused = False
        self._has_loaded = False

    def pause(self, is_loading: bool, *, is_busy: bool = False) -> None:
        """To be told after every input. One that somebody else has switched off stays so."""
        if (is_loading or is_busy) and gc.isenabled():
            gc.disable()
            self._is_paused = True
        elif self._is_paused and not is_loading and not is_busy:
            if self._has_loaded:
                gc.freeze()
            gc.enable()
            self._is_paused = self._has_loaded = False
        self._has_loaded |= self._is_paused and is_loading
