"""What is written into nodes is what is read from them."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.controller import znodes
from ottla.controller.znodes import State

EPOCHS = st.one_of(st.sampled_from([-1, 0, 7]), st.integers(1 << 32, 1 << 33))


@st.composite
def states(draw: st.DrawFn) -> State:
    isr = tuple(draw(st.lists(st.integers(1, 5), unique=True, max_size=4)))
    elr = tuple(draw(st.lists(st.integers(6, 9), unique=True, max_size=2)))
    return State(
        draw(st.integers(-1, 5)),
        draw(st.integers(0, 9)),
        isr,
        draw(st.integers(0, 9)),
        tuple(draw(EPOCHS) for _ in isr) if draw(st.booleans()) else (),
        elr,
        draw(st.integers(-1, 5)),
        tuple(draw(EPOCHS) for _ in elr),
    )


@given(st.dictionaries(st.integers(0, 9), states(), max_size=6))
def test_states_come_back_as_they_were(written: dict[int, State]) -> None:
    assert znodes.parse_state_node(znodes.state_node(3, written)) == written


def test_ten_thousand_partitions_fit_into_what_zookeeper_takes() -> None:
    epochs = tuple((1 << 32) + broker for broker in (1, 2, 3))
    every = {p: State(1, 12, (1, 2, 3), 34, epochs) for p in range(10_000)}
    assert len(znodes.state_node(1, every)) < 1_000_000


def test_a_state_of_an_earlier_release_is_read() -> None:
    data = b'{"version":1,"controller_epoch":1,"partitions":{"0":{"leader":1,"leader_epoch":2,"isr":[1]}}}'
    assert znodes.parse_state_node(data) == {0: State(1, 2, (1,))}
