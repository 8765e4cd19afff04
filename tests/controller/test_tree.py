"""The tree in memory. What its writes do is held against SQLite in tests/shell; this is what only it has."""

from ottla.controller.keeper import Check, Create, Delete, NodeChanged, Put, Refused, Written
from ottla.controller.tree import Tree


def test_nodes_say_which_write_created_them_also_after_one_that_was_refused() -> None:
    tree = Tree()
    tree.write([Create("/a", b"")])
    assert tree.write([Check("/a", 0), Put("/b", b"")]) == ([], Refused("/b", "/b is not there"))
    assert tree.write([Create("/b", b""), Put("/a", b"x", 0)]) == (
        [NodeChanged("/b", b"", 0, created=3), NodeChanged("/a", b"x", 1, created=1)],
        Written(),
    )


def test_the_end_of_a_session_takes_its_nodes_and_no_others() -> None:
    tree = Tree()
    tree.write([Create("/ids/1", b"", ephemeral=True), Create("/kept", b"")], session=1)
    tree.write([Create("/ids/2", b"", ephemeral=True), Put("/ids/1", b"written by another")], session=2)
    assert tree.end(1) == [NodeChanged("/ids/1", None, 1, created=1)]
    assert tree.end(1) == []
    assert tree.nodes.keys() == {"/kept", "/ids/2"}


def test_children_go_before_their_parents() -> None:
    tree = Tree(is_ordered=False)
    tree.write([Create(path, b"") for path in ("/a", "/a/b", "/a/b/c", "/ab")])
    changed, _ = tree.write([Delete("/a")])
    assert [node.path for node in changed] == ["/a/b/c", "/a/b", "/a"]
    assert tree.load() == [NodeChanged("/ab", b"", 0, created=0)]
