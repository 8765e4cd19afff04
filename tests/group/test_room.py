"""What the tests of a shard rely on."""

from tests.group.room import Room


def test_the_driver_sees_a_shard_whose_state_its_journal_does_not_have() -> None:
    room = Room()
    room.commit(5)
    room.journal.items.clear()
    try:
        room.check()
    except AssertionError:
        return
    raise AssertionError("the check sees nothing")
