"""What a connection puts on the wire."""

import random
import socket
import threading

from ottla.client.connection import Connection
from ottla.client.security.handshakes import Handshakes


def test_a_request_of_many_and_of_large_chunks_arrives_whole() -> None:
    """More chunks than one call takes, and more bytes than a socket holds."""
    made = random.Random(3)
    chunks: list[bytes | bytearray | memoryview] = [made.randbytes(number % 7) for number in range(3000)]
    chunks[10], chunks[2000] = made.randbytes(3 << 20), bytearray(made.randbytes(1 << 20))
    left, right = socket.socketpair()
    arrived = bytearray()

    def read() -> None:
        while got := right.recv(1 << 16):
            arrived.extend(got)

    reader = threading.Thread(target=read)
    reader.start()
    with right:
        with left:
            left.settimeout(30)
            connection = Connection.__new__(Connection)  # without the handshake
            connection._socket = left
            connection._handshakes = Handshakes()
            connection._send_all(chunks)
        reader.join()
    assert arrived == b"".join(chunks)
