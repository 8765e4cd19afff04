"""Has the keys that verify tokens read in a thread: once before a broker serves, then when they are due."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker import effects
from ottla.broker.effects import KeySet
from ottla.shell.core import Carriers, Core
from ottla.shell.lock import StartError
from ottla.shell.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.security import key_sets
    from ottla.security.tokens import Key

log = logging.getLogger(__name__)


class KeyReader:
    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._worker: Worker | None = None
        self._failed: set[str] = set()  # where the last try found none

    def carriers(self) -> Carriers:
        return {effects.ReadKeys: lambda effect: self._read(effect.keys)}

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    async def load(self, sets: "Sequence[key_sets.KeySet]") -> None:
        """The first time. As in Kafka, without keys a broker does not start: nobody could authenticate."""
        for keys in sets:
            now_ms = self._core.now_ms()
            if not keys.is_due(now_ms):
                continue
            try:
                keys.on_read(await self._loop.run_in_executor(None, _keys_at, keys), now_ms)
            except _KeysError as error:
                raise StartError(f"no token could be checked: {error}") from None

    def _read(self, keys: KeySet) -> None:
        if self._worker is None:
            self._worker = Worker(self._loop, "keys", 1, self._core.worker_times["keys"])
        self._worker.submit(lambda: _keys_at(keys), lambda *outcome: self._on_read(keys, *outcome))

    def _on_read(self, keys: KeySet, result: Any, error: BaseException | None) -> None:
        if self._core.is_ending:
            return
        now_ms = self._core.now_ms()
        if error is None:
            keys.on_read(result, now_ms)
            # Who saw the warning that there were none hears that this is over.
            level = logging.WARNING if keys.url in self._failed else logging.DEBUG
            self._failed.discard(keys.url)
            log.log(level, "%d keys of tokens are read from %s", len(result), keys.url)
        elif isinstance(error, _KeysError):
            keys.on_failed(now_ms)
            self._failed.add(keys.url)
            log.warning("%s; the keys that were read before go on to be used", error)
        else:
            self._core.halt(f"bug: {error!r}")


class _KeysError(Exception):
    pass


def _keys_at(keys: KeySet) -> "tuple[Key, ...]":
    from ottla.security.tokens import parsed_keys
    from ottla.shell import jwks

    try:
        text = jwks.read(keys.url, keys.trust_file)
    except jwks.JwksError as error:
        raise _KeysError(str(error)) from None
    try:
        return parsed_keys(text)
    except ValueError as error:
        raise _KeysError(f"what is at {keys.url} is of no use: {error}") from None
