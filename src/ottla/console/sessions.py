"""Who is logged in. Sessions live in memory: after a restart everybody logs in again.

A session ends when its user logs out, does nothing for a while, or has been here for too long. Pages that
refresh by themselves are not something the user does.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.console.cluster.view import ClusterView

IDLE_S = 4 * 3600.0
LIFE_S = 24 * 3600.0
SESSIONS_MAX = 500


@dataclass(slots=True)
class Session:
    user: str
    cluster: ClusterView
    started_s: float
    seen_s: float
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    notices: list[tuple[str, str]] = field(default_factory=list)  # kind and sentence, for the next page
    is_ended: bool = False  # whatever goes on for it stops

    def is_over(self, now_s: float) -> bool:
        return now_s - self.seen_s > IDLE_S or now_s - self.started_s > LIFE_S

    def taken_notices(self) -> list[tuple[str, str]]:
        notices, self.notices = self.notices, []
        return notices


class Sessions:
    """`clock` gives seconds. `on_end` is told of a session that is over, whoever ended it."""

    def __init__(self, clock: Callable[[], float], on_end: Callable[[Session], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def start(self, user: str, cluster: ClusterView) -> Session:
        now_s = self._clock()
        session = Session(user, cluster, now_s, now_s)
        with self._lock:
            over = [key for key, other in self._sessions.items() if other.is_over(now_s)]
            if len(self._sessions) - len(over) >= SESSIONS_MAX:
                over.append(min(self._sessions.values(), key=lambda other: other.seen_s).key)
            ended = [self._sessions.pop(key) for key in over]
            self._sessions[session.key] = session
        self._all_over(ended)
        return session

    def sweep(self) -> None:
        """End those that are over, though nobody asks for them any more; to be called from time to time."""
        now_s = self._clock()
        with self._lock:
            over = [key for key, session in self._sessions.items() if session.is_over(now_s)]
            ended = [self._sessions.pop(key) for key in over]
        self._all_over(ended)

    def find(self, key: str, *, is_refresh: bool = False) -> Session | None:
        now_s = self._clock()
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                return None
            if not session.is_over(now_s):
                if not is_refresh:
                    session.seen_s = now_s
                return session
            del self._sessions[key]
        self._all_over([session])
        return None

    def all(self) -> list[Session]:
        with self._lock:
            return list(self._sessions.values())

    def end(self, session: Session) -> None:
        with self._lock:
            was_there = self._sessions.pop(session.key, None)
        if was_there is not None:
            self._all_over([session])

    def end_all(self) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        self._all_over(sessions)

    def _all_over(self, sessions: list[Session]) -> None:
        for session in sessions:
            session.is_ended = True
            self._on_end(session)
