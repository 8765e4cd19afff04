"""How long a start and a stop took."""

from ottla.shell.stopwatch import Stopwatch


def test_steps_end_one_after_the_other_and_add_up() -> None:
    times = iter([10.0, 10.02, 10.5, 10.5])
    watch = Stopwatch(lambda: next(times))
    for step in ("keeper", "logs", "registration"):
        watch.end(step)
    assert watch.steps_ms == {"keeper": 20, "logs": 480, "registration": 0}
    assert watch.took_ms == 500
    assert str(watch) == "keeper 20 ms, logs 480 ms, registration 0 ms"
