"""One client of ZooKeeper: kazoo, whose threads end here. Answers, events and states come out on the loop.

Rule: when the connection is lost, everything that was asked and not answered fails at once, here, whatever
kazoo makes of it (it can forget a request that comes while it starts a new session). What kazoo answers
afterwards is thrown away.

A refusal (user, password, certificate) is told, and kazoo goes on trying: it may be one server of many, or
one that is about to be set right. kazoo says that a connection is there before it has authenticated, but
sends nothing of what it is asked until it has.
"""

import asyncio
import logging
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
    SASLException,
    SessionClosedRequireSaslError,
    ZookeeperError,
)
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.states import Callback, EventType, KazooState, KeeperState, WatchedEvent

from ottla.base.metrics import Histogram
from ottla.broker.listeners import PORT_MAX
from ottla.broker.zookeeper_config import JAAS_FILE
from ottla.shell.lock import StartError
from ottla.shell.zookeeper_access import ZooKeeperAccess

IN_FLIGHT_MAX = 128  # kazoo wakes its thread by a byte in a pipe, and blocks when that is full
STOP_S = 2.0
SASL_ROUNDS_MAX = 4
CUT_OFF = "it ends connections while TLS begins: is this its secureClientPort?"
RETRY = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0, "max_jitter": 0.2}

_quiet = logging.getLogger("ottla.kazoo")  # what matters of the connection, the keeper says itself
_quiet.setLevel(logging.CRITICAL)

Call = Callable[[KazooClient], Any]
Done = Callable[[Any, Exception | None], None]
OnState = Callable[[KazooState], None]
OnEvent = Callable[[WatchedEvent], None]
OnRefused = Callable[[str], None]

# A connection that ends in the middle of a TLS handshake is one that failed, not one that was refused.
_BROKEN_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def split_ensemble(text: str) -> tuple[str, str]:
    """`HOST:PORT,.../CHROOT` as the hosts and the chroot, '' if there is none."""
    hosts, _, chroot = text.strip().partition("/")
    chroot = "/".join(filter(None, chroot.split("/")))
    for server in hosts.split(","):
        host, colon, port = server.strip().rpartition(":")
        named, numbered = (
            (host, port) if colon and not server.strip().endswith("]") else (server.strip(), "2181")
        )
        if not named or not numbered.isdecimal() or int(numbered) > PORT_MAX:
            raise StartError(f"zookeeper.connect: {text!r} is not HOST:PORT[,HOST:PORT...][/CHROOT]")
    return hosts, f"/{chroot}" if chroot else ""


class Answer(AsyncResult):  # type: ignore[misc]
    """Tells whoever waits at once, in kazoo's own thread: all that our callbacks do is post to the loop."""

    def _do_callbacks(self) -> None:
        for callback in self._callbacks:
            callback(self)


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo makes a selector for every read and write, and wakes a thread more for every answer: that is
    most of what a request costs it."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_settings: Any
    ) -> socket.socket:
        """kazoo would make a context of its own for each connection, which knows fewer settings than ours."""
        channel = socket.create_connection(address, timeout)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return channel
        try:
            return self._tls.wrap_socket(channel, server_hostname=hostname)
        except BaseException:
            channel.close()
            raise

    def async_result(self) -> Answer:
        return Answer(self)

    def dispatch_callback(self, callback: Callback) -> None:
        """A watch is told in the thread that tells answers, too, so that it comes before the answers that
        ZooKeeper gave after it: all that a watch of ours does is post to the loop."""
        if callback.type == "watch":
            callback.func(*callback.args)
        else:
            super().dispatch_callback(callback)

    def select(
        self, readers: list[Any], writers: list[Any], _x: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        unread = [reader for reader in readers if isinstance(reader, ssl.SSLSocket) and reader.pending()]
        if unread:
            return unread, [], []  # decrypted already: the system knows nothing of it
        poller = select.poll()
        for reader in readers:
            poller.register(reader, select.POLLIN)
        for writer in writers:
            poller.register(writer, select.POLLOUT)
        ready = {fd for fd, _event in poller.poll(None if timeout is None else timeout * 1000)}
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )


class Link:
    """A session with ZooKeeper after the other."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        hosts: str,
        session_timeout_ms: int,
        access: ZooKeeperAccess,
        on_state: OnState,
        on_event: OnEvent,
        on_refused: OnRefused,
    ) -> None:
        self.timeout_ms = session_timeout_ms
        self.answered = 0
        self.heard_s: float | None = None  # by time.monotonic: an answer, a watch or a ping
        self.durations = Histogram()  # of requests that were answered
        self.trouble = ""  # what may be wrong where nobody answers
        self._loop = loop
        self._on_state = on_state
        self._on_event = on_event
        self._on_refused = on_refused
        self._asked: dict[int, tuple[Done, int]] = {}  # since when, in ns
        self._waiting: deque[tuple[Call, Done]] = deque()
        self._in_flight = 0
        self._last = 0
        self._posting = threading.Lock()
        self._posted: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        try:
            self._client = KazooClient(
                hosts,
                timeout=session_timeout_ms / 1000,
                handler=Handler(access.tls),
                connection_retry=RETRY,
                logger=_quiet,
                sasl_options=_sasl_options(access),
            )
        except ValueError as error:
            raise StartError(f"zookeeper.connect: {hosts!r}: {error}") from None
        self._client.add_listener(lambda state: self._post(self._state_changed, state))
        self._wrap_connect()

    def _wrap_connect(self) -> None:
        """ZooKeeper may grant a shorter session than was asked for, and kazoo does not say so. Nor does it
        tell a refusal from an accident, or when it heard of it last."""
        connection = self._client._connection
        connect, authenticate = connection._connect, connection._authenticate_with_sasl
        read = connection._read_socket

        def connect_and_learn(*where: Any) -> Any:
            try:
                read_timeout_ms, connect_timeout_ms = connect(*where)
            except (ConnectionDropped, SASLException, ZookeeperError) as error:
                refusal = refusal_of(error)
                is_cut_off = isinstance(error.__context__, _BROKEN_TLS)
                self.trouble = CUT_OFF if is_cut_off else ""
                if not refusal and not isinstance(error, AuthFailedError):
                    raise
                if refusal:
                    self._post(self._on_refused, refusal)
                raise ConnectionDropped(refusal or "the connection ended before it was let in") from None
            self.timeout_ms, self.heard_s = int(read_timeout_ms * 3 / 2), time.monotonic()
            return read_timeout_ms, connect_timeout_ms

        def read_and_note(timeout_s: float) -> Any:
            closing = read(timeout_s)
            self.heard_s = time.monotonic()
            return closing

        def authenticate_in_few_rounds(host: str, timeout_s: float) -> None:
            """A server that does not do SASL answers with nothing, to which kazoo answers with nothing."""
            rounds = 0

            def submit(*request: Any) -> None:
                nonlocal rounds
                rounds += 1
                if rounds > SASL_ROUNDS_MAX:
                    raise SASLException("there is no end to it")
                type(connection)._submit(connection, *request)

            connection._submit = submit
            try:
                authenticate(host, timeout_s)
            finally:
                del connection._submit

        connection._connect = connect_and_learn
        connection._read_socket = read_and_note
        connection._authenticate_with_sasl = authenticate_in_few_rounds

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return client_id[0] if client_id else 0

    @property
    def is_dead(self) -> bool:
        """kazoo has given up, which only a bug of its own makes it do."""
        return bool(self._client.client_state == KeeperState.CLOSED)

    def start(self) -> None:
        self._client.start_async()

    async def stop(self) -> None:
        """End the session. kazoo may be stuck in a connection: then its threads, which are daemons, are left
        to themselves."""
        self._asked, self._waiting = {}, deque()
        ended = self._loop.create_future()

        def stop() -> None:
            try:
                self._client.stop()
                self._client.close()
            except (KazooException, OSError, RuntimeError) as error:
                _quiet.debug("kazoo did not stop well: %s", error)
            self._post(_settle, ended)

        threading.Thread(target=stop, name="ottla-zookeeper-stop", daemon=True).start()
        await asyncio.wait([ended], timeout=STOP_S)

    def ask(self, call: Call, done: Done) -> None:
        """Calls are carried out in the order they are asked."""
        if self._in_flight < IN_FLIGHT_MAX and not self._waiting:
            self._call(call, done)
        else:
            self._waiting.append((call, done))

    def watch(self, event: WatchedEvent) -> None:
        """Give this to kazoo as a watch: the same for all nodes, so that a node is watched once."""
        if event.type != EventType.NONE:  # that one says that the connection is lost; the state does, too
            self._post(self._on_event, event)

    def _call(self, call: Call, done: Done) -> None:
        self._in_flight += 1
        self._last = number = self._last + 1
        self._asked[number] = done, time.monotonic_ns()
        call(self._client).rawlink(lambda result: self._post(self._answered, number, result))

    def _answered(self, number: int, result: Any) -> None:
        asked = self._asked.pop(number, None)
        if asked is None:
            return  # the connection was lost meanwhile
        done, asked_ns = asked
        self.durations.observe((time.monotonic_ns() - asked_ns) // 1000)
        self._in_flight -= 1
        self.answered += 1
        error = result.exception
        if isinstance(error, SessionClosedRequireSaslError):
            self._on_refused(f"it lets in only who authenticates; name user and password by {JAAS_FILE}")
        done(None if error else result.value, error)
        while self._waiting and self._in_flight < IN_FLIGHT_MAX:
            self._call(*self._waiting.popleft())

    def _state_changed(self, state: KazooState) -> None:
        if state != KazooState.CONNECTED:
            lost = [*(done for done, _since in self._asked.values()), *(done for _, done in self._waiting)]
            self._asked, self._waiting, self._in_flight = {}, deque(), 0
            for done in lost:
                done(None, ConnectionLoss())
        self._on_state(state)

    def _post(self, what: Callable[..., object], *arguments: object) -> None:
        """From any of kazoo's threads. Many may come before the loop gets to them, which is woken once."""
        with self._posting:
            self._posted.append((what, arguments))
            is_first = len(self._posted) == 1
        if is_first and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._take_posted)
            except RuntimeError:
                _quiet.debug("the loop has ended, and nobody wants to know")

    def _take_posted(self) -> None:
        with self._posting:
            posted, self._posted = self._posted, []
        for what, arguments in posted:
            self._loop.call_soon(what, *arguments)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _sasl_options(access: ZooKeeperAccess) -> dict[str, str] | None:
    if not access.user:
        return None
    return {"mechanism": "DIGEST-MD5", "username": access.user, "password": access.password}


def refusal_of(error: Exception) -> str:
    """What ZooKeeper, or we ourselves, did not accept, and the remedy; '' if a connection merely failed."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted ({cause.verify_message.rstrip('.')}); "
            "check zookeeper.ssl.truststore.location, and that the certificate is for this host"
        )
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, _BROKEN_TLS):
        return (
            f"TLS failed ({cause.reason or cause}); check that this is ZooKeeper's secureClientPort, and "
            "zookeeper.ssl.keystore.location and zookeeper.ssl.protocol"
        )
    if isinstance(error, SASLException):
        return f"it does not do SASL; give it a JAAS file with a section Server, or take {JAAS_FILE} away"
    if isinstance(error, SessionClosedRequireSaslError) or (
        isinstance(error, AuthFailedError) and not isinstance(cause, ConnectionDropped)
    ):
        return f"it does not accept this user and password; correct the file that {JAAS_FILE} names"
    return ""
