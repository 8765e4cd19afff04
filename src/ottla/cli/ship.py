"""`ottla ship`: lines of log files become records, each of them once.

The loop: find files, read whole lines, send them, wait until all are acknowledged, store the positions
durably, again. A run that ends between sending and storing leaves records that its state does not know; the
next run finds them in the topic (`cli/ship_topic`) and does not send them again.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ottla.cli import output
from ottla.cli.cluster import DEFAULT_BOOTSTRAP, Bootstrap
from ottla.cli.errors import CommandError
from ottla.cli.properties import parse_settings
from ottla.cli.ship_files import Followed
from ottla.cli.ship_state import default_path, load, locked, save
from ottla.cli.ship_topic import ShipTopic
from ottla.cli.ship_watch import Watch

POLL_S = 0.25
INTERRUPTED = 130


def ship(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Files, or patterns in quotes: 'logs/**/*.log'.", show_default=False
        ),
    ],
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="TOPIC", help="Where to.", show_default=False)
    ],
    once: Annotated[bool, typer.Option("--once", help="Send what is there, and leave.")] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Send also a last line that has no newline yet.")
    ] = False,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="PATH", help="Where to remember how far files have gone. (by topic)"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="KEY=VALUE", help="A property of librdkafka; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Follow log files and send every line to a topic, once.

    Files may be rotated, by renaming or by copying and cutting, may appear later, and the command may be
    stopped or killed at any time: it goes on where it was. The key is HOST:PATH, so the lines of a
    file stay in order; headers tell host, path and offset. The topic is created if it is not there.

    \b
    Examples:
      ottla ship /var/log/nginx/access.log --topic logs
      ottla ship '/var/log/app/*.log' /var/log/syslog --topic logs --state /var/lib/ottla/ship.json
      ottla ship app.log --topic logs --once
    """
    path = state or default_path(topic)
    with locked(path), stopping() as stopped:
        shipper = _Shipper(bootstrap, topic, path, files, parse_settings(settings or [], "--set"))
        try:
            shipper.run(stopped, once=once, unfinished=unfinished)
        finally:
            shipper.watch.close()
        output.say(shipper.summary())
        if stopped.is_set() and once:
            raise typer.Exit(INTERRUPTED)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM end the loop between two lines, never within one."""
    stopped = threading.Event()
    before = {one: signal.signal(one, lambda *_: stopped.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class _Shipper:
    def __init__(
        self, bootstrap: str, topic: str, path: str, files: list[str], settings: dict[str, str]
    ) -> None:
        self.path, self.state = path, load(path, topic)
        self.topic = ShipTopic(bootstrap, self.state, settings)
        self.watch = Watch(files)
        self.sent_count = self.sent_bytes = 0

    def run(self, stopped: threading.Event, *, once: bool, unfinished: bool) -> None:
        self._expect_files(once=once)
        self.topic.create()
        self._know_topic()
        self.watch.sent = self.topic.sent()
        self.watch.resume(self.state.files)
        self._save(is_clean=False)  # from here on the topic may have more than the state
        while True:
            now_s = time.time()
            self.watch.scan(now_s)
            if once and not self.watch.files:
                raise CommandError(self._nothing())
            finished = self.watch.finished(now_s)
            count = self._send(stopped, unfinished=unfinished)
            for one in finished:
                if not count and not stopped.is_set():
                    count += self._send_of(one, stopped, unfinished=True)
            if not self.topic.flush(stopped.is_set):
                return
            if count:
                self._save(is_clean=False)
            elif finished and not stopped.is_set():
                for one in finished:
                    self.watch.forget(one)
                self._save(is_clean=False)
            self._remark()
            if stopped.is_set() or (once and not count and not self.watch.waiting):
                break
            if not count:
                stopped.wait(POLL_S)
        self._save(is_clean=True)

    def _expect_files(self, *, once: bool) -> None:
        """A name with a typo in it is told before a topic is created for it."""
        if self.state.files or self.watch.is_matching():
            return
        if once:
            raise CommandError(self._nothing())
        output.say(f"ottla: {self._nothing()} yet; waiting for one")

    def _nothing(self) -> str:
        return f"no file matches {', '.join(self.watch.patterns)}"

    def _know_topic(self) -> None:
        state = self.state.belongs_to(*self.topic.ids())
        if state is not self.state:
            output.say(
                f"ottla: {self.path} is of another cluster, or of a topic {state.topic} that was deleted; "
                "starting over from the beginning of the files"
            )
        self.state = self.topic.state = state

    def _send(self, stopped: threading.Event, *, unfinished: bool) -> int:
        return sum(
            self._send_of(one, stopped, unfinished=unfinished) for one in list(self.watch.files.values())
        )

    def _send_of(self, one: Followed, stopped: threading.Event, *, unfinished: bool) -> int:
        count = 0
        if not one.is_same():  # cut since it was looked at; the next scan sees to it
            return count
        for line in one.read(unfinished=unfinished):
            if stopped.is_set():
                break
            self.topic.send(one.position, line)
            one.passed(line)
            count += 1
            self.sent_bytes += len(line.value)
        self.sent_count += count
        return count

    def _save(self, *, is_clean: bool) -> None:
        self.state.ends, self.state.is_clean = dict(self.topic.ends), is_clean
        self.state.files = self.watch.positions()
        save(self.path, self.state)

    def _remark(self) -> None:
        while self.watch.remarks:
            output.say(f"ottla: {self.watch.remarks.pop(0)}")

    def summary(self) -> str:
        waiting = sum(one.partial_bytes > 0 for one in self.watch.files.values())
        rest = f"; {output.plural(waiting, 'unfinished line')} left for the next time" if waiting else ""
        return (
            f"{output.plural(self.sent_count, 'line')}, {output.plural(self.sent_bytes, 'byte')} "
            f"to {self.state.topic}{rest}"
        )
