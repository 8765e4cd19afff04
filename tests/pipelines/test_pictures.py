"""Pictures of pipelines, without Spark: where things stand, lines that go right, and what fits."""

from pathlib import Path
from xml.etree import ElementTree

from ottla.console.flow_layout import laid_out
from ottla.pipelines import picture
from ottla.pipelines.dataflow import Dataflow, Flow, Node, fingerprint, from_json, store, stored


def topic(name: str) -> Node:
    return Node("topic", name)


def table(name: str) -> Node:
    return Node("table", name)


SHOP = Dataflow(
    tuple(map(table, ("customers", "orders", "enriched", "revenue"))),
    (
        Flow("customers", (topic("customers"),), table("customers")),
        Flow("orders", (topic("orders"),), table("orders"), "/p/orders.py", 7),
        Flow("enriched", (table("orders"), table("customers")), table("enriched")),
        Flow("records", (table("enriched"),), topic("orders.enriched")),
        Flow("revenue", (table("enriched"),), table("revenue")),
    ),
)


PICTURE = """
(a)─┐          ┌─────▶[b]─┐           ┌───▶(out)
    ├─────▶<b>─┘          └───▶<send>─┘
(x)─┼─┐          ┌───▶[c]
    └─┴───▶<c>───┘

(topic)  <flow>  [table]
"""


def test_a_picture_goes_from_topics_through_flows_and_tables_to_topics() -> None:
    flows = (
        Flow("b", (topic("a"),), table("b")),
        Flow("c", (topic("a"), topic("x")), table("c")),
        Flow("send", (table("b"),), topic("out")),
    )
    assert picture.text(Dataflow((), flows)) == PICTURE.strip("\n")


def test_what_does_not_fit_is_drawn_without_flows_and_at_last_listed() -> None:
    full = picture.text(SHOP)
    width = max(map(len, full.splitlines()))
    assert picture.text(SHOP, width) == full
    smaller = picture.text(SHOP, width - 1)
    assert "<orders>" not in smaller
    assert "<records>" in smaller
    assert max(map(len, smaller.splitlines())) < width
    smallest = picture.text(SHOP, max(map(len, smaller.splitlines())) - 1)
    assert "<" not in smallest
    assert "▶(orders.enriched)" in smallest
    assert picture.text(SHOP, 20).splitlines()[2] == (
        "flow enriched: table orders, table customers -> table enriched"
    )


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    text = picture.text(SHOP, is_plain=True)
    assert text.isascii()
    assert ">(orders.enriched)" in text


def test_the_svg_has_a_box_for_each_part_and_names_are_escaped() -> None:
    dataflow = Dataflow((), (Flow("a<b>", (topic("in"),), table("out")),))
    root = ElementTree.fromstring(picture.svg(dataflow, "pipeline <x> & y"))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["in", "a<b>", "out", "topic", "flow", "table"], "the legend is part of the picture"
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == 2


def test_a_flow_that_writes_to_the_topic_that_it_reads_is_told_below_the_picture() -> None:
    flows = (
        Flow("take", (topic("orders"),), table("orders")),
        Flow("retry", (table("orders"),), topic("orders")),
    )
    assert "\n<retry> leads back to (orders)\n" in picture.text(Dataflow((), flows))
    assert ">flow retry leads back to topic orders<" in picture.svg(Dataflow((), flows), "retries")


def test_nothing_at_all_is_an_empty_picture() -> None:
    assert picture.text(Dataflow()).strip() == ""
    assert ElementTree.fromstring(picture.svg(Dataflow(), "nothing")) is not None


def test_a_line_over_several_columns_has_a_point_in_each() -> None:
    layout = laid_out(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    assert [cell.node for cell in layout.columns[0]] == ["a"]
    assert sorted(str(cell.node) for cell in layout.columns[1]) == ["None", "b"]
    assert len(layout.links) == 4
    assert layout.backward == []


def test_a_circle_is_drawn_without_the_edge_that_leads_back() -> None:
    layout = laid_out(["a", "b"], [("a", "b"), ("b", "a")])
    assert [[cell.node for cell in column] for column in layout.columns] == [["a"], ["b"]]
    assert layout.backward == [("b", "a")]


def test_lines_do_not_cross_where_they_need_not() -> None:
    layout = laid_out(["a", "b", "y", "x"], [("a", "x"), ("b", "y")])
    assert all(link.row == link.next_row for link in layout.links)


def test_a_stored_dataflow_is_that_of_the_files_as_they_were(tmp_path: Path) -> None:
    source = tmp_path / "a.sql"
    source.write_text("SELECT 1")
    path, before = str(tmp_path / "dataflow.json"), fingerprint([str(source)])
    assert stored(path, before) is None
    store(path, SHOP, before)
    assert stored(path, before) == SHOP == from_json(SHOP.as_json())
    source.write_text("SELECT 2")
    assert stored(path, fingerprint([str(source)])) is None
    assert stored(path) == SHOP
    (tmp_path / "dataflow.json").write_text("{")
    assert stored(path) is None
