"""A thread that looks where the loop's thread is when a tick of it is late.

It sleeps until then and costs nothing: each tick moves the process's alarm further away (`setitimer`), and
the thread waits for the signal of that alarm, which all threads block. There is one such alarm, so this is
for a process that is the broker's own. Where the loop is stuck in C with the interpreter's lock, the thread
sees it afterwards, and says where it was called.
"""

import signal
import sys
import threading
from types import FrameType
from typing import Final

FRAMES_MAX: Final = 8


class StallWatcher:
    """Begun by the thread of the loop, before there are others."""

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        self._watched = threading.get_ident()
        self._where = ""
        self._is_closed = False
        self._thread = threading.Thread(target=self._watch, name="ottla-stalls", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The signal stays blocked: one more may be on its way, and would end the process."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._is_closed = True
        signal.pthread_kill(self._thread.ident or 0, signal.SIGALRM)
        self._thread.join()

    def expect(self, within_s: float) -> None:
        """0: no tick comes any more."""
        self._where = ""
        signal.setitimer(signal.ITIMER_REAL, within_s)

    def take(self) -> str:
        where, self._where = self._where, ""
        return where

    def _watch(self) -> None:
        while True:
            signal.sigwait({signal.SIGALRM})
            if self._is_closed:
                return
            self._where = stack_of(sys._current_frames().get(self._watched))


def stack_of(frame: FrameType | None) -> str:
    """The innermost calls, first the one that all the others wait for."""
    calls: list[str] = []
    while frame is not None and len(calls) < FRAMES_MAX:
        code = frame.f_code
        calls.append(f"{code.co_qualname} ({code.co_filename.rpartition('ottla/')[2]}:{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(calls)
