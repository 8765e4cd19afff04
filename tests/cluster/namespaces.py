"""A network of namespaces: a bridge on this machine, and a namespace for each broker that can be cut off."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest


def _ip(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20)


class Network:
    """Number n has the address .n, the machine itself, with the clients, .254, and ZooKeeper .253."""

    def __init__(self, count: int) -> None:
        if not sys.platform.startswith("linux") or shutil.which("ip") is None:
            pytest.skip("network namespaces need Linux and the command `ip`")
        self._stem = f"ot{os.getpid() % 10_000}"
        self._net = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self._count = count
        made = _ip("link", "add", self._stem, "type", "bridge")
        if made.returncode:
            pytest.skip(f"this machine does not allow network namespaces: {made.stderr.strip()}")
        try:
            self._set_up()
        except BaseException:
            self.remove()
            raise

    @property
    def here(self) -> str:
        return f"{self._net}.254"

    @property
    def keeper(self) -> str:
        return f"{self._net}.253"

    def address(self, number: int) -> str:
        return f"{self._net}.{number}"

    def prefix(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", f"{self._stem}n{number}"]

    @contextlib.contextmanager
    def cut(self, number: int) -> Iterator[None]:
        """A broker is cut off from everybody."""
        self._must("link", "set", f"{self._stem}v{number}", "down")
        try:
            yield
        finally:
            self._must("link", "set", f"{self._stem}v{number}", "up")

    @contextlib.contextmanager
    def cut_from(self, number: int, *addresses: str) -> Iterator[None]:
        """Nothing that a broker sends gets to these."""
        for one in addresses:
            self._must("-n", f"{self._stem}n{number}", "route", "add", "blackhole", f"{one}/32")
        try:
            yield
        finally:
            for one in addresses:
                self._must("-n", f"{self._stem}n{number}", "route", "del", "blackhole", f"{one}/32")

    def remove(self) -> None:
        for number in range(1, self._count + 1):
            _ip("netns", "del", f"{self._stem}n{number}")
            _ip("link", "del", f"{self._stem}v{number}")
        _ip("link", "del", self._stem)

    def _set_up(self) -> None:
        for one in (self.here, self.keeper):
            self._must("addr", "add", f"{one}/24", "dev", self._stem)
        self._must("link", "set", self._stem, "up")
        for number in range(1, self._count + 1):
            name, here, there = (f"{self._stem}{kind}{number}" for kind in "nvw")
            self._must("netns", "add", name)
            self._must("link", "add", here, "type", "veth", "peer", "name", there)
            self._must("link", "set", there, "netns", name)
            self._must("link", "set", here, "master", self._stem)
            self._must("link", "set", here, "up")
            self._must("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", there)
            self._must("-n", name, "link", "set", there, "up")
            self._must("-n", name, "link", "set", "lo", "up")

    def _must(self, *arguments: str) -> None:
        done = _ip(*arguments)
        if done.returncode:
            self.remove()
            pytest.skip(f"this machine does not allow network namespaces: {done.stderr.strip()}")
