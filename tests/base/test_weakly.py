"""Calls to an object that do not keep it."""

import gc

from ottla.base.weakly import weakly


class Listener:
    def __init__(self) -> None:
        self.heard: list[int] = []
        self.tell = weakly(self, lambda listener, number: listener.heard.append(number))


def test_a_call_reaches_its_object_as_long_as_that_is_there_and_does_not_keep_it() -> None:
    listener = Listener()
    tell, heard = listener.tell, listener.heard
    tell(1)
    gc.disable()
    try:
        del listener
        tell(2)
    finally:
        gc.enable()
    assert heard == [1]
