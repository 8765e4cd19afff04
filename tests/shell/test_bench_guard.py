"""`make bench-guard` counts what the interpreter does for a request: the same in every run."""

from bench import guard


def test_two_runs_count_the_same_and_no_request_has_become_dearer_unawares() -> None:
    first, second = guard.measure(guard.ROOT), guard.measure(guard.ROOT)
    assert first == second
    _, worse = guard.compare(first, guard.recorded())
    assert not worse, "if that is on purpose: python -m bench.guard --record"


def test_what_is_worse_is_named() -> None:
    before = {"fetch": {"bytecodes": 100, "calls of C": 10}}
    lines, worse = guard.compare(
        {"fetch": {"bytecodes": 103, "calls of C": 10}, "new": {"bytecodes": 1}}, before
    )
    assert worse == ["bytecodes of fetch"]
    assert [line.split()[-2:] for line in lines] == [["+3.0", "%"], ["+0.0", "%"], ["bytecodes", "1"]]
