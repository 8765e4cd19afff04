"""Brokers for the rows of the card, and what writes the card."""

import datetime
import fcntl
import re
from collections.abc import Iterator

import pytest
from bench.servers import PeerError
from tests.cluster.real import RealCluster
from tests.compat import card
from tests.compat.apache import Node
from tests.compat.card import Card, Program, Step, unserved
from tests.kafka_clients.harness import BUGS, BrokerProcess
from tests.support.processes import OttlaProcess, running
from tests.transactions import servers
from tests.transactions.servers import Brokers
from tools import generate_card

pytest.register_assert_rewrite("tests.compat.client_contract")

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
ROW_TIMEOUT_S = 600
_CARD = pytest.StashKey[Card]()
_TESTS = pytest.StashKey[dict[str, list[str]]]()
_RUN = pytest.StashKey[set[tuple[str, str]]]()  # program and test


def program_of(item: pytest.Item | pytest.FixtureRequest) -> Program | None:
    """The class or the file names it."""
    owners = (getattr(item, "cls", None), getattr(item, "module", None))
    return next((owner.PROGRAM for owner in owners if hasattr(owner, "PROGRAM")), None)


def _done(item: pytest.Item) -> str:
    said = getattr(item, "function", None).__doc__
    assert said, f"{item.nodeid} needs a docstring: it is what the card shows"
    parameter = re.search(r"\[(.+)\]", item.name)
    line = said.strip().splitlines()[0].rstrip(".")
    return f"{line} ({parameter[1]})" if parameter else line


def _step(item: pytest.Item, report: pytest.TestReport) -> Step | None:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    if report.skipped:
        if hasattr(report, "wasxfail"):
            return Step(_done(item), card.DOES_NOT, report.wasxfail.removeprefix("reason: "), today)
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        return Step(_done(item), card.NOT_RUN, reason.removeprefix("Skipped: "), today)
    if report.failed:
        said = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
        return Step(_done(item), card.FAILS, said[: card.REASON_MAX], today)
    return Step(_done(item), card.WORKS, "", today) if report.when == "call" else None


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_CARD], config.stash[_TESTS], config.stash[_RUN] = Card(), {}, set()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before some are deselected, so that all tests of a program are known."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(ROW_TIMEOUT_S))
        program = program_of(item)
        if program is not None:
            config.stash[_TESTS].setdefault(program.name, []).append(item.name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    report: pytest.TestReport = yield
    program = program_of(item)
    step = _step(item, report) if program is not None else None
    if program is not None and step is not None:
        made = item.config.stash[_CARD]
        if program.name not in made.rows:
            made.rows |= {name: row for name, row in Card.read().rows.items() if name == program.name}
        made.record(program, item.name, step)
        item.config.stash[_RUN].add((program.name, item.name))
        made.keep_only(program.name, item.config.stash[_TESTS][program.name])
        _write(made)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    _write(session.config.stash[_CARD])


def _write(own: Card) -> None:
    """Only what this run did is replaced: another one may have written meanwhile. After every test, so that a
    run that is ended in the middle has not been in vain."""
    with card.FILE.parent.joinpath("README.md").open() as place:
        fcntl.flock(place, fcntl.LOCK_EX)
        made = Card.read()
        made.rows |= own.rows
        made.write()
        generate_card.write()


@pytest.fixture(scope="class")
def watched(request: pytest.FixtureRequest) -> Iterator[list[OttlaProcess]]:
    """Brokers whose logs are looked through in the end, for bugs and for requests that were not served."""
    brokers: list[OttlaProcess] = []
    yield brokers
    program = program_of(request)
    if program is not None:
        asked = set[str]().union(*(unserved(broker.log) for broker in brokers))
        stash = request.config.stash
        is_all = all((program.name, test) in stash[_RUN] for test in stash[_TESTS][program.name])
        stash[_CARD].record_unserved(program.name, asked, is_all=is_all)
    assert [line for broker in brokers for line in broker.log.splitlines() if BUGS.search(line)] == []


@pytest.fixture(scope="class")
def broker(watched: list[OttlaProcess], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One process, for all tests of a program."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS)
    watched.append(process)
    process.start()
    try:
        yield process
        assert process.is_running, process.log[-4000:]
    finally:
        process.kill()


@pytest.fixture(params=[1, 3], ids=["one broker", "three brokers"])
def brokers(
    request: pytest.FixtureRequest, watched: list[OttlaProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    """One process, then three and a real ZooKeeper; for one test."""
    with servers.serving(tmp_path_factory.mktemp("brokers"), request.param, "ottla") as started:
        watched.extend(started.processes)
        yield started


@pytest.fixture(scope="class")
def cluster(watched: list[OttlaProcess], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Three processes and a real ZooKeeper."""
    with running(RealCluster(tmp_path_factory.mktemp("cluster"))) as brokers:
        watched.extend(brokers.brokers.values())
        yield brokers


@pytest.fixture(scope="class")
def kafka() -> Iterator[Node]:
    """Apache Kafka, one node."""
    try:
        node = Node({"group.initial.rebalance.delay.ms": "0"})
    except PeerError as error:
        pytest.skip(str(error))
    try:
        node.prepare()
        node.start()
        node.wait_ready()
        yield node
    finally:
        node.stop()
        node.close()
