"""Where the parts of a graph stand in a picture: in columns, so that every line goes to the right.

A line over several columns has a point in each that it passes. What would lead back, in a graph with a
circle, is left out of the picture and told apart.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

SWEEPS = 4
T = TypeVar("T", bound=Hashable)


class Cell(NamedTuple, Generic[T]):
    """A node, or a point of a line that passes: then `node` is None."""

    node: T | None


class Link(NamedTuple):
    """From a row of a column to a row of the next one."""

    column: int
    row: int
    next_row: int


class Layout(NamedTuple, Generic[T]):
    columns: list[list[Cell[T]]]
    links: list[Link]
    backward: list[tuple[T, T]]

    @property
    def rows(self) -> int:
        return max(map(len, self.columns), default=0)


def laid_out(nodes: Sequence[T], edges: Sequence[tuple[T, T]]) -> Layout[T]:
    nodes = list(dict.fromkeys([*nodes, *(node for edge in edges for node in edge)]))
    forward, backward = _without_circles(nodes, list(dict.fromkeys(edges)))
    rank = _ranks(nodes, forward)
    columns: list[list[tuple[T | None, int]]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for node in nodes:
        columns[rank[node]].append((node, 0))
    steps: list[tuple[int, tuple[T | None, int], tuple[T | None, int]]] = []
    for number, (begin, end) in enumerate(forward, 1):
        last: tuple[T | None, int] = (begin, 0)
        for column in range(rank[begin] + 1, rank[end] + 1):
            this: tuple[T | None, int] = (end, 0) if column == rank[end] else (None, number)
            if this[0] is None:
                columns[column].append(this)
            steps.append((column - 1, last, this))
            last = this
    _order(columns, steps)
    row = [{cell: at for at, cell in enumerate(column)} for column in columns]
    links = sorted({Link(column, row[column][a], row[column + 1][b]) for column, a, b in steps})
    return Layout([[Cell(node) for node, _ in column] for column in columns], links, backward)


def _without_circles(nodes: list[T], edges: list[tuple[T, T]]) -> tuple[list[tuple[T, T]], list[tuple[T, T]]]:
    """Those edges that lead on, and those that lead back to where somebody came from."""
    following: dict[T, list[T]] = defaultdict(list)
    for begin, end in edges:
        following[begin].append(end)
    backward: list[tuple[T, T]] = []
    done: set[T] = set()
    for root in nodes:
        path, waiting = [root], [iter(following[root])]
        if root in done:
            continue
        while waiting:
            node = next(waiting[-1], None)
            if node is None:
                done.add(path.pop())
                waiting.pop()
            elif node in path:
                backward.append((path[-1], node))
            elif node not in done:
                path.append(node)
                waiting.append(iter(following[node]))
    return [edge for edge in edges if edge not in backward], backward


def _ranks(nodes: list[T], edges: list[tuple[T, T]]) -> dict[T, int]:
    rank = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for begin, end in edges:
            rank[end] = max(rank[end], rank[begin] + 1)
    return rank


def _order(
    columns: list[list[tuple[T | None, int]]],
    steps: list[tuple[int, tuple[T | None, int], tuple[T | None, int]]],
) -> None:
    """Each cell near the middle of those it is joined to, going right and left a few times."""
    for sweep in range(SWEEPS):
        is_rightward = sweep % 2 == 0
        around = range(1, len(columns)) if is_rightward else range(len(columns) - 2, -1, -1)
        for column in around:
            other = column - 1 if is_rightward else column + 1
            row = {cell: at for at, cell in enumerate(columns[other])}
            joined: dict[tuple[T | None, int], list[int]] = defaultdict(list)
            for left, begin, end in steps:
                if left == min(column, other):
                    mine, theirs = (end, begin) if is_rightward else (begin, end)
                    joined[mine].append(row[theirs])
            middle = {
                cell: sum(rows) / len(rows) if (rows := joined[cell]) else float(at)
                for at, cell in enumerate(columns[column])
            }
            columns[column].sort(key=middle.__getitem__)
