"""The loop of a shipper: find files, read whole lines, send them, wait until all are acknowledged, store the
positions durably, again.

A run that ends between sending and storing leaves records that its state does not know; the next run finds
them in the topic (`ship/topic`) and does not send them again.
"""

import threading
import time
from collections.abc import Callable

from ottla.base.command_error import CommandError
from ottla.client.properties import Where
from ottla.ship.files import Followed
from ottla.ship.state import load, save
from ottla.ship.topic import ShipTopic
from ottla.ship.watch import Watch

POLL_S = 0.25


class Shipper:
    """`path` is the file of the state, `files` are names or patterns. `say` tells a person a sentence."""

    def __init__(
        self,
        where: Where,
        topic: str,
        path: str,
        files: list[str],
        say: Callable[[str], None],
    ) -> None:
        self.say = say
        self.path, self.state = path, load(path, topic)
        self.topic = ShipTopic(where, self.state, say)
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
            for file in finished:
                if not count and not stopped.is_set():
                    count += self._send_of(file, stopped, unfinished=True)
            if not self.topic.flush(stopped.is_set):
                return
            if count:
                self._save(is_clean=False)
            elif finished and not stopped.is_set():
                for file in finished:
                    self.watch.forget(file)
                self._save(is_clean=False)
            self._remark()
            if stopped.is_set() or (once and not count and not self.watch.waiting):
                break
            if not count:
                stopped.wait(POLL_S)
        self._save(is_clean=True)

    def _expect_files(self, *, once: bool) -> None:
        """A name with a typo in it is told before a topic is created for it."""
        self.watch.check()
        if self.watch.is_matching() or any(map(self.watch.is_meant, self.state.files)):
            return
        if once:
            raise CommandError(self._nothing())
        self.say(f"ottla: {self._nothing()} yet; waiting for one")

    def _nothing(self) -> str:
        return f"no file matches {', '.join(self.watch.patterns)}"

    def _know_topic(self) -> None:
        state = self.state.belongs_to(*self.topic.ids())
        if state is not self.state:
            self.say(
                f"ottla: {self.path} is of another cluster, or of a topic {state.topic} that was deleted; "
                "starting over from the beginning of the files"
            )
        self.state = self.topic.state = state

    def _send(self, stopped: threading.Event, *, unfinished: bool) -> int:
        return sum(
            self._send_of(file, stopped, unfinished=unfinished) for file in list(self.watch.files.values())
        )

    def _send_of(self, file: Followed, stopped: threading.Event, *, unfinished: bool) -> int:
        count = 0
        if not file.is_same():  # cut since it was looked at; the next scan sees to it
            return count
        for line in file.read(unfinished=unfinished):
            if stopped.is_set():
                break
            self.topic.send(file.position, line)
            file.passed(line)
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
            self.say(f"ottla: {self.watch.remarks.pop(0)}")

    def unfinished_lines(self) -> int:
        """How many files end with a line that has no newline yet."""
        return sum(file.partial_bytes > 0 for file in self.watch.files.values())
