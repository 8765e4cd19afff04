"""The console in a real browser: every page in two sizes and both colours, keys, changes made and undone.

Tests share a browser, a console and a login. Each fails on an error in the browser's console, an exception in
a module, or a request to another host.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Browser, Page, StorageState, expect
from tests.console.browser import (
    NARROW,
    WIDE,
    WITHIN_MS,
    chromium,
    logged_in,
    needs_chromium,
    serious_problems,
    watched_page,
)
from tests.console.pipeline_folders import make_pipelines
from tests.console.test_topics import send
from tests.console.visitor import TOKEN, settings_for
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.cli.pipelines.console_pipelines import pipelines_in
from ottla.console.cluster.snapshot import Partition, Snapshot, Topic
from ottla.console.cluster.view import ClusterView
from ottla.console.server import ConsoleServer, ConsoleThread

pytestmark = needs_chromium

GROUP = "readers of orders"
PAGES = [
    "/", "/topics", "/topics?internal=1", "/topics/orders", "/topics/orders/readers",
    "/topics/orders/records", "/topics/orders/records/0/0", "/topics/orders/records/new?from=0:0",
    "/topics/orders/settings", "/topics/orders/partitions", "/topics/orders/empty", "/topics/orders/delete",
    "/new-topic", "/groups", f"/groups/{GROUP}", f"/groups/{GROUP}/members", f"/groups/{GROUP}/reset",
    f"/groups/{GROUP}/delete", "/brokers", "/brokers/1", "/brokers/1/settings", "/transactions", "/users",
    "/acls", "/quotas", "/find?q=o", "/pipelines", "/pipelines/my-logs", "/no-such-page",
]  # fmt: skip
SECURED_PAGES = ["/", "/users", "/acls", "/quotas"]


@pytest.fixture(scope="module")
def console(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    broker.create_topic("orders", 3)
    send(broker, "orders", 100)
    consumer = Consumer(broker.client_config | {"group.id": GROUP})
    consumer.commit(offsets=[TopicPartition("orders", number, 5) for number in range(3)], asynchronous=False)
    consumer.close()
    folder: Path = make_pipelines(tmp_path_factory.mktemp("pipelines"), broker.bootstrap_servers)
    with ConsoleThread(settings_for(broker, port=0, pipelines=pipelines_in([str(folder)]))) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def cookies(browser: Browser, console: ConsoleServer) -> StorageState:
    """Logged in by the link that the console prints."""
    return logged_in(browser, console.login_url)


@pytest.fixture
def page(browser: Browser, console: ConsoleServer, cookies: StorageState) -> Iterator[Page]:
    with watched_page(browser, console.url, viewport=WIDE, storage_state=cookies) as opened:
        yield opened


def walk(page: Page, path: str, audited: str) -> None:
    """The page fits in both colours, and in one of them axe-core finds nothing serious."""
    page.goto(path)
    assert page.locator("h1").count() == 1, path
    if path.endswith("/settings"):
        page.get_by_label("Filter settings").fill("retention")  # all rows are made alike
    for colour in ("light", "dark"):
        page.emulate_media(color_scheme=colour)  # type: ignore[arg-type]
        beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert beyond <= 0, f"{path} is {beyond} px too wide"
        if colour == audited:
            assert serious_problems(page) == [], path


@pytest.mark.parametrize(("size", "audited"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_every_page_fits_in_both_colours_and_anybody_can_use_it(
    page: Page, size: dict[str, int], audited: str
) -> None:
    page.set_viewport_size(size)  # type: ignore[arg-type]
    for path in PAGES:
        walk(page, path, audited)


def test_what_a_secured_cluster_has_more_is_walked_and_an_acl_is_added_and_taken_away_by_hand(
    browser: Browser,
) -> None:
    with Broker(secure=True) as secured, ConsoleThread(settings_for(secured, port=0)) as console:
        security = secured._security
        assert security is not None
        cookies = logged_in(browser, console.url, security.username, security.password)
        with watched_page(browser, console.url, viewport=WIDE, storage_state=cookies) as page:
            page.goto("/acls")
            page.get_by_label("Who").fill("alice")
            page.get_by_label("Name").fill("orders")
            page.get_by_role("button", name="Add ACL").click()
            expect(page.locator(".notice.done")).to_have_text("User:alice is allowed Read on Topic orders.")
            for size, audited in ((WIDE, "dark"), (NARROW, "light")):
                page.set_viewport_size(size)  # type: ignore[arg-type]
                for path in SECURED_PAGES:
                    walk(page, path, audited)
            page.goto("/acls")
            page.get_by_role("button", name="Remove this ACL of User:alice").click()
            page.get_by_role("button", name="Remove", exact=False).last.click()
            expect(page.locator(".notice.done")).to_contain_text("Removed: User:alice")
            page.get_by_role("button", name="Log out").click()
            expect(page.get_by_label("Password")).to_be_visible()


def test_the_login_page_is_for_everybody_too(browser: Browser, console: ConsoleServer) -> None:
    context = browser.new_context(viewport=NARROW)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{console.url}/topics")
    expect(page.get_by_label("Token")).to_be_focused()
    assert serious_problems(page) == []
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("That is not the token")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/topics")
    context.close()


def test_keys_search_walk_open_and_help(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    expect(page.locator("#topics tbody tr")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("#topics tbody tr").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url("**/brokers")


def test_a_colour_that_was_chosen_stays(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/")
    before = page.evaluate("getComputedStyle(document.body).color")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).color") != before
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_a_table_sorts_by_its_heads(page: Page) -> None:
    page.goto("/topics/orders")
    first = page.locator("#partitions tbody tr").first
    page.get_by_role("button", name="Partition", exact=True).click()
    assert (first.get_attribute("data-key"), page.locator("th[aria-sort=descending]").count()) == ("2", 1)
    page.get_by_role("button", name="Partition", exact=True).click()
    assert (first.get_attribute("data-key"), page.locator("th[aria-sort=ascending]").count()) == ("0", 1)


def test_pages_show_what_comes_by_themselves(page: Page, broker: Broker, fresh: str) -> None:
    page.goto("/topics")
    broker.create_topic(fresh)
    expect(page.locator(f"tr[data-key={fresh}]")).to_be_visible(timeout=WITHIN_MS)


def test_a_topic_is_made_changed_and_deleted_by_hand(page: Page, fresh: str) -> None:
    page.goto("/topics")
    page.get_by_role("link", name="Create topic").click()
    page.get_by_label("Name").fill(fresh)
    page.get_by_label("Partitions").fill("2")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".notice.done")).to_have_text(f"Topic {fresh} is created.")
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("retention.ms", exact=True).fill("86400000")
    page.get_by_role("button", name="Show what changes").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator(".notice.done")).to_contain_text("1 setting")
    page.get_by_role("button", name="reset retention.ms").click()
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_role("link", name="Add partitions").click()
    page.get_by_label("Partitions in all").fill("4")
    page.get_by_role("button", name="Add partitions").click()
    expect(page.locator("#partitions tbody tr")).to_have_count(4)
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("write the name").fill(fresh)
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.locator(".notice.done")).to_have_text(f"Topic {fresh} is deleted.")


def test_a_group_is_reset_by_hand_and_back(page: Page) -> None:
    page.goto(f"/groups/{GROUP}/reset")
    page.wait_for_load_state()
    page.get_by_label("Offset", exact=True).fill("1")
    expect(page.get_by_label("this offset")).to_be_checked()
    for choice, lag in (("behind the newest record", "0"), ("the oldest record", "100")):
        page.goto(f"/groups/{GROUP}/reset")
        page.get_by_label(choice).check()
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_role("button", name="Reset").click()
        expect(page.locator("#stats .stat").first).to_have_text(f"Lag{lag}")


def test_users_and_quotas_are_added_and_taken_away_by_hand(page: Page, fresh: str) -> None:
    page.goto("/users")
    page.get_by_label("User", exact=True).fill(fresh)
    page.get_by_label("Password").fill("a long password")
    page.get_by_role("button", name="Set password").click()
    page.get_by_role("button", name=f"Remove {fresh}").click()
    page.get_by_role("button", name="Remove the user").click()
    expect(page.locator(".notice.done")).to_contain_text("is removed")
    page.goto("/quotas")
    page.get_by_label("Name").fill(fresh)
    page.get_by_label("Value").fill("1000000")
    page.get_by_role("button", name="Set quota").click()
    page.get_by_role("button", name=f"Take away producer_byte_rate of user {fresh}").click()
    expect(page.locator(".notice.done")).to_contain_text("is gone")


def test_a_setting_of_a_broker_is_changed_by_hand_and_back(page: Page) -> None:
    page.goto("/brokers/1/settings")
    page.get_by_label("Filter settings").fill("log.retention.ms")
    page.get_by_label("log.retention.ms", exact=True).fill("987654321")
    page.get_by_role("button", name="Show what changes").click()
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_role("button", name="reset log.retention.ms").click()
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_label("log.retention.ms", exact=True)).not_to_have_value("987654321")


def test_a_change_that_a_filter_hides_is_made_all_the_same(page: Page) -> None:
    page.goto("/topics/orders/settings")
    for key, value in (("segment.bytes", "2000000"), ("retention.bytes", "3000000")):
        page.get_by_label("Filter settings").fill(key)
        page.get_by_label(key, exact=True).fill(value)
    page.get_by_role("button", name="Show what changes").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Leave it").click()
    page.wait_for_url("**/settings")


def test_the_lag_of_groups_is_in_sight_on_a_phone(page: Page) -> None:
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    for path in ("/groups", f"/groups/{GROUP}"):
        page.goto(path)
        box = page.get_by_role("columnheader", name="Lag", exact=True).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= NARROW["width"], path


def test_ten_thousand_rows_scroll_and_are_found(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those in sight are in the document."""
    names = [f"topic-{number:05d}" for number in range(10_000)]
    topics = {name: Topic(name, (Partition(0, 1, (1,), (1,)),)) for name in names}
    real = ClusterView.snapshot

    def snapshot(view: ClusterView, having: str | None = None) -> Snapshot:
        seen = real(view, having)
        if "sampler" in threading.current_thread().name:
            return seen  # nobody measures what is not there
        return Snapshot(seen.cluster_id, seen.controller, seen.brokers, topics)

    monkeypatch.setattr(ClusterView, "snapshot", snapshot)
    performance = page.context.new_cdp_session(page)
    performance.send("Performance.enable")
    page.goto("/topics")
    metrics = performance.send("Performance.getMetrics")["metrics"]
    (laid_out,) = [metric["value"] for metric in metrics if metric["name"] == "LayoutObjects"]
    assert laid_out < 50_000, "all rows were laid out at once, which takes seconds"
    rows = page.locator("#topics tbody tr:not(.spacer)")
    wait_for(lambda: 0 < rows.count() < 200, what="the window")
    frame = page.locator(".scroll")
    for part in (0.25, 0.5, 1.0):
        frame.evaluate("(element, part) => { element.scrollTop = part * element.scrollHeight }", part)
        expect(
            page.locator(f"#topics tr[data-key=topic-{min(9_995, int(part * 10_000)):05d}]")
        ).to_be_visible()
        assert rows.count() < 200
    page.keyboard.press("/")
    page.keyboard.type("07777")
    expect(rows).to_have_count(1)
    expect(page.locator("#topics-count")).to_have_text("1 of 10000")
