"""The check of a history finds what it is there to find."""

import pytest
from tests.cluster.load import History, check


def history() -> History:
    made = History()
    made.final = [((0, 0), "w:0"), ((0, 1), "w:1"), ((1, 0), "w:2")]
    made.acked = {"w:0": (0, 0), "w:1": (0, 1), "w:2": (1, 0)}
    made.read = [((0, 0), "w:0"), ((1, 0), "w:2"), ((0, 1), "w:1")]
    made.watermarks[0] = [0, 1, 2]
    return made


def lose(made: History) -> None:
    made.final.pop()
    made.read.pop(1)


def duplicate(made: History) -> None:
    made.final.append(((0, 2), "w:1"))


def reorder(made: History) -> None:
    made.final = [((0, 0), "w:1"), ((0, 1), "w:0"), ((1, 0), "w:2")]
    made.acked, made.read = {}, []


def move(made: History) -> None:
    made.acked["w:1"] = (0, 7)


def rewrite(made: History) -> None:
    made.read[0] = ((0, 0), "w:9")


def skip(made: History) -> None:
    del made.read[0]


def go_back(made: History) -> None:
    made.watermarks[0].append(1)


def test_a_history_in_which_nothing_is_wrong_is_accepted() -> None:
    assert check(history()) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose, "lost"),
        (duplicate, "twice"),
        (reorder, "behind a later one"),
        (move, "was acknowledged at (0, 7), and is at (0, 1)"),
        (rewrite, "was read at (0, 0), where w:0 is"),
        (skip, "the reader of 0 came to 1, not to 0"),
        (go_back, "the high watermark of 0 went back from 2 to 1"),
    ],
)
def test_what_must_not_be_is_found(spoil: object, said: str) -> None:
    made = history()
    assert callable(spoil)
    spoil(made)
    assert said in " ".join(check(made))
