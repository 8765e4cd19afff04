"""Where the parts of a pipeline stand in its picture."""

from itertools import pairwise

from tests.console.visitor import Seen

from ottla.console.flow_layout import laid_out
from ottla.console.graphs import flow_graph
from ottla.console.pipelines import Edge, Node, Pipeline, Source, Table


def node(text: str) -> Node:
    kind, _, name = text.partition(" ")
    return Node(kind, name)


def edges(*lines: str) -> tuple[Edge, ...]:
    """`topic a > flow b > table c`: two edges."""
    pairs: list[Edge] = []
    for line in lines:
        way = [node(part.strip()) for part in line.split(">")]
        pairs += pairwise(way)
    return tuple(pairs)


def columns(*lines: str) -> list[list[str]]:
    pipeline = Pipeline("p", "/p", edges=edges(*lines))
    layout = laid_out(pipeline.nodes, pipeline.known_edges)
    return [[" ".join(cell.node) for cell in column if cell.node] for column in layout.columns]


def test_everything_stands_right_of_what_leads_to_it() -> None:
    assert columns("topic a > flow f > table t > flow g > topic b", "topic c > flow g") == [
        ["topic a", "topic c"],
        ["flow f"],
        ["table t"],
        ["flow g"],
        ["topic b"],
    ]


def test_a_flow_that_reads_what_it_writes_has_a_place_all_the_same() -> None:
    assert columns("topic a > flow f > table t > flow f") == [["topic a"], ["flow f"], ["table t"]]
    assert columns("table t > flow f > table t") == [["flow f"], ["table t"]]


def test_lines_that_need_not_cross_do_not_cross() -> None:
    first, second, third = columns(
        "topic a > flow z > table n", "topic b > flow y > table m", "topic c > flow x > table l"
    )
    assert [name[-1] for name in first] in (["a", "b", "c"], ["c", "b", "a"])
    ranks = {"a": 0, "z": 0, "n": 0, "b": 1, "y": 1, "m": 1, "c": 2, "x": 2, "l": 2}
    rows = [[ranks[name[-1]] for name in column] for column in (first, second, third)]
    assert rows[0] == rows[1] == rows[2]


def test_an_edge_over_several_columns_keeps_a_place_in_each() -> None:
    pipeline = Pipeline("p", "/p", edges=edges("topic a > flow f > table t > flow g", "topic a > flow g"))
    layout = laid_out(pipeline.nodes, pipeline.known_edges)
    assert [len(column) for column in layout.columns] == [1, 2, 2, 1]
    assert len(layout.links) == 6


def test_the_picture_names_everything_and_what_failed() -> None:
    pipeline = Pipeline(
        "p",
        "/p",
        flows=(("f", "FAILED"), ("alone", "COMPLETED")),
        tables=(Table("t", 1, 1, 1),),
        edges=edges("topic a<b > flow f > table t > flow g > sink s", "view v > flow g"),
    )
    picture = str(flow_graph(pipeline))
    assert 'aria-label="1 topic, 3 flows, 1 table, 1 sink, 1 view"' in picture
    assert "flow f: failed" in Seen(picture)
    assert "topic a<b" in Seen(picture)
    assert picture.count('class="tip"') == 5


def test_without_edges_flows_read_their_sources_and_write_the_table_of_their_name() -> None:
    pipeline = Pipeline(
        "p",
        "/p",
        flows=(("f", "COMPLETED"),),
        tables=(Table("f", 1, 1, 1),),
        sources=(Source("f", "a", 0, 0),),
    )
    assert pipeline.known_edges == list(edges("topic a > flow f > table f"))
    assert flow_graph(Pipeline("p", "/p")) == ""


def test_a_pipeline_without_end_is_not_drawn() -> None:
    many = edges(*(f"topic t{number} > flow f{number}" for number in range(200)))
    assert "too many parts" in flow_graph(Pipeline("p", "/p", edges=many))
