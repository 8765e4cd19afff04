"""Reading the keys of tokens: from a real server on this host, and from files."""

import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.support.pem_files import certificates

from ottla.shell import jwks


@contextmanager
def serving(handle, context=None):
    """A web server; `handle` answers every GET."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            handle(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def answer(status=200, body=b"{}", headers=()):
    def handle(request):
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return handle


def refused(url, **options):
    with pytest.raises(jwks.JwksError) as refusal:
        jwks.read(url, **options)
    assert url in str(refusal.value)
    return str(refusal.value)


def test_keys_are_read_from_a_server_on_this_host():
    asked = []

    def handle(request):
        asked.append((request.path, request.headers["Host"]))
        answer(body=b'{"keys":[]}')(request)

    with serving(handle) as port:
        assert jwks.read(f"http://127.0.0.1:{port}/realms/a/certs?x=1") == '{"keys":[]}'
    assert asked == [("/realms/a/certs?x=1", f"127.0.0.1:{port}")]


def test_a_redirect_is_not_followed_wherever_it_leads_cve_2025_27818(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for target in (f"file://{secret}", "http://127.0.0.1:1/", "https://evil.example/"):
        with serving(answer(302, b"", [("Location", target)])) as port:
            sentence = refused(f"http://127.0.0.1:{port}/keys")
        assert "302" in sentence
        assert "redirects are not followed" in sentence


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(answer(body=b"keys")) as port:
        assert jwks.read(f"http://127.0.0.1:{port}/") == "keys"


def test_what_the_server_says_instead_of_keys_is_told_without_its_body():
    with serving(answer(503, b"<html>private</html>")) as port:
        sentence = refused(f"http://127.0.0.1:{port}/")
    assert "503" in sentence
    assert "private" not in sentence


def test_more_than_a_megabyte_is_not_read():
    def handle(request):
        request.send_response(200)
        request.end_headers()
        for _ in range(64):
            request.wfile.write(b" " * (1 << 20))

    with serving(handle) as port:
        assert "bytes" in refused(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(part):
    ended = threading.Event()

    def handle(request):
        if part == "body":
            request.send_response(200)
            request.end_headers()
        try:
            while not ended.wait(0.01):
                request.wfile.write(b"x")
        except OSError:
            pass

    with serving(handle) as port:
        try:
            assert "longer than" in refused(f"http://127.0.0.1:{port}/", timeout_s=0.3)
        finally:
            ended.set()


def test_a_server_that_is_not_there_is_an_error_in_words():
    assert "refused" in refused("http://127.0.0.1:1/")


def test_a_server_needs_a_certificate_that_is_trusted(tmp_path):
    own, other = certificates(tmp_path / "own"), certificates(tmp_path / "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.broker)
    with serving(answer(body=b"keys"), context) as port:
        url = f"https://localhost:{port}/"
        assert jwks.read(url, own.ca) == "keys"
        assert "CERTIFICATE_VERIFY_FAILED" in refused(url, trust_file=other.ca)
        assert "CERTIFICATE_VERIFY_FAILED" in refused(url)
        assert "No such file" in refused(url, trust_file=str(tmp_path / "none"))


def test_keys_are_read_from_a_file(tmp_path):
    file = tmp_path / "keys of today.json"
    file.write_text(json.dumps({"keys": []}))
    assert jwks.read(file.as_uri()) == '{"keys": []}'


def test_what_is_no_file_is_not_read(tmp_path):
    assert "a folder" in refused(tmp_path.as_uri())
    assert "No such file" in refused((tmp_path / "none").as_uri())
    (tmp_path / "large").write_bytes(b" " * (jwks.BYTES_MAX + 1))
    assert "bytes" in refused((tmp_path / "large").as_uri())
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    refused((tmp_path / "binary").as_uri())
    assert "not a plain file" in refused("file:///dev/zero")
