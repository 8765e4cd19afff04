"""What the first pages cost with many topics: counted in requests and calls, which no other process on the
machine can change. On a machine at rest they take 5 and 30 ms (docs/console.md)."""

import cProfile
import pstats
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from starlette.requests import Request
from starlette.responses import Response
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker
from ottla.console.pages import overview, topics
from ottla.console.visit import Visit

TOPICS = 400  # of which each costs as much as each of a thousand
REQUESTS = 'kafka_network_requestmetrics_requests_total{request="'


@pytest.fixture(scope="module")
def large() -> Iterator[Broker]:
    with Broker() as running:
        wanted = [NewTopic(f"topic-{number:04d}", 1, 1) for number in range(TOPICS)]
        client = AdminClient(running.client_config)
        for asked in client.create_topics(wanted, operation_timeout=60, request_timeout=60).values():
            asked.result(60)
        yield running


@pytest.fixture
def visitor(large: Broker) -> Iterator[Visitor]:
    """Measured once, and not again; answers are kept until they are forgotten."""
    with Visitor.of(settings_for(large)) as visitor:
        visitor.log_in(TOKEN)
        view = visitor.session.cluster
        assert view.measured(wait_s=60) is not None
        view._sampler.stop()
        view._kept._clock = lambda: 0.0
        yield visitor


def asked_of(broker: Broker, action: Callable[[], object]) -> Counter[str]:
    """The requests that the broker is asked meanwhile, by their API."""

    def counts() -> Counter[str]:
        by_api: Counter[str] = Counter()
        for name, value in broker.metrics().items():
            if name.startswith(REQUESTS):
                by_api[name.removeprefix(REQUESTS).partition('"')[0]] += int(value)
        return by_api

    before = counts()
    action()
    return counts() - before


@pytest.mark.parametrize("path", ["/", "/topics"])
def test_a_page_asks_the_cluster_once_and_the_next_one_not_at_all(
    large: Broker, visitor: Visitor, path: str
) -> None:
    visitor.session.cluster._kept.forget()
    assert asked_of(large, lambda: visitor.open(path)) == {"Metadata": 1}
    assert asked_of(large, lambda: visitor.open(path)) == {}


def test_a_measurement_asks_no_more_of_many_topics_than_of_few(large: Broker, visitor: Visitor) -> None:
    view = visitor.session.cluster
    snapshot, measuring = view.snapshot(), view._sampler._measuring
    asked = asked_of(large, lambda: measuring.measure(snapshot))
    assert (asked["ListOffsets"], asked["DescribeLogDirs"], asked["ListGroups"]) == (2, 1, 1)
    assert asked["DescribeConfigs"] <= 1, "of the broker: those of topics are known"
    assert asked.total() <= 8, asked
    measuring.forget()
    again = asked_of(large, lambda: measuring.measure(snapshot))
    assert again["DescribeConfigs"] - asked["DescribeConfigs"] == TOPICS / 200


@pytest.mark.parametrize(("page", "calls_max"), [(overview.show, 5_000), (topics.show_all, 330 * TOPICS)])
def test_a_page_is_made_with_few_calls(
    visitor: Visitor, page: Callable[[Visit], Response], calls_max: int
) -> None:
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""})
    visit = Visit(request, visitor.console._settings, visitor.session, {})
    page(visit)
    profile = cProfile.Profile()
    answer = profile.runcall(page, visit)
    assert b"topic-0399" in answer.body or page is overview.show
    assert pstats.Stats(profile).total_calls < calls_max  # type: ignore[attr-defined]
