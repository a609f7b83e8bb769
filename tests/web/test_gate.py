"""What the control room serves, and to whom: token, names, origins, paths, bodies."""

import socket
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from control_rooms import Room, opened
from reports import make_run

from ga3c.errors import UserError
from ga3c.run import listening
from ga3c.web import command
from ga3c.web.gate import POLICY


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and beside them what must not be served."""
    root = tmp_path_factory.mktemp("served")
    (root / "secret.log").write_text("secret")
    (root / "secret.mp4").write_text("secret")
    run = make_run(root / "runs" / "one", rows=5)
    (run / "logs").mkdir()
    (run / "logs" / "agents-000.log").write_text("a log")
    (run / "logs" / "link.log").symlink_to(root / "secret.log")
    make_run(root / "runs" / "two", rows=5)
    return root / "runs"


@pytest.fixture(scope="module")
def room(folder: Path) -> Iterator[Room]:
    with opened(folder) as room:
        yield room


@pytest.fixture(scope="module")
def run(room: Room) -> str:
    return str(room.get("/api/runs")["runs"][0]["id"])


# -- the token --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/static/index.html", "/api/runs", "/api/stream", "/api/none", "/static/../x"])
@pytest.mark.parametrize("cookie", ["", "ga3c-PORT=", "ga3c-PORT=wrong", "ga3c-1=TOKEN", "other=TOKEN"])
def test_nothing_is_served_without_the_token(room: Room, path: str, cookie: str) -> None:
    told = cookie.replace("PORT", str(room.port)).replace("TOKEN", room.token)
    answer = room.ask(path, Cookie=told)
    assert answer.status == 401
    assert "token" in answer.json["error"]


def test_the_token_in_the_address_becomes_a_cookie(room: Room) -> None:
    answer = room.ask(f"/?token={room.token}", Cookie="")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    kept = answer.headers["Set-Cookie"]
    assert kept.startswith(f"{room.cookie};")
    assert {part.strip().lower() for part in kept.split(";")[1:]} == {"httponly", "samesite=strict", "path=/"}
    assert room.ask("/", Cookie=kept.partition(";")[0]).status == 200


def test_a_link_on_another_page_leads_in_without_a_redirect(room: Room) -> None:
    """A browser sends no such cookie to where the link of another page is redirected."""
    told = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    answer = room.ask(f"/?token={room.token}", Cookie="", **told)
    assert answer.status == 200
    assert b'http-equiv="refresh"' in answer.body
    assert room.cookie in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("token", ["", "wrong", "%ff", "é"])
def test_a_wrong_token_sets_no_cookie(room: Room, token: str) -> None:
    answer = room.ask(f"/?token={quote(token, safe='%')}", Cookie="")
    assert answer.status == 401
    assert "Set-Cookie" not in answer.headers


def test_the_token_counts_in_the_address_of_the_page_alone(room: Room) -> None:
    assert room.ask(f"/api/runs?token={room.token}", Cookie="").status == 401


def test_another_cookie_of_the_same_name_does_not_lock_out(room: Room) -> None:
    assert room.ask("/api/runs", Cookie=f"ga3c-{room.port}=other; {room.cookie}").status == 200


# -- names and origins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:PORT", "localhost.evil.example", "10.0.0.1:PORT", "a@localhost",
             "localhost:99999", "localhost:x", "[::1", "localhost/x", " "],
)  # fmt: skip
def test_another_host_is_refused(room: Room, host: str) -> None:
    """A page whose name is led to this machine (DNS rebinding) says its own name."""
    answer = room.ask("/api/runs", Host=host.replace("PORT", str(room.port)))
    assert answer.status in (400, 421)  # h11 itself refuses what is no host at all


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000", "LOCALHOST:9000", "localhost"])
def test_a_tunnel_from_another_port_is_served(room: Room, host: str) -> None:
    port = host.rpartition(":")[2] if host != "localhost" else "80"
    cookie = f"ga3c-{port}={room.token}"
    assert room.ask("/api/runs", Host=host, Cookie=cookie).status == 200
    assert room.ask("/api/runs", Host=host, Cookie=cookie, Origin=f"http://{host.lower()}").status == 200
    assert room.ask("/api/runs", Host=host, Cookie=cookie, Origin="http://localhost:1").status == 403


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://127.0.0.1:1", "http://localhost:PORT", "http://127.0.0.1",
               "file://127.0.0.1:PORT", "https://127.0.0.1", "http://127.0.0.1:PORT.evil.example", "*"],
)  # fmt: skip
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/runs"), ("POST", "/api/runs/x/command")])
def test_another_origin_is_refused(room: Room, origin: str, method: str, path: str) -> None:
    answer = room.ask(path, method, {}, Origin=origin.replace("PORT", str(room.port)))
    assert answer.status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_page_of_another_server_loads_is_refused(room: Room, site: str) -> None:
    assert room.ask("/api/runs", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
    assert room.ask("/api/runs", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 403
    assert room.ask("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
    assert room.ask("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 200


def test_a_host_that_was_named_is_accepted() -> None:
    assert listening.accepts("box.example", "Box.example")
    assert not listening.accepts("other.example", "box.example")
    for name in (socket.gethostname().lower(), "192.168.1.7", "fe80::1"):
        assert listening.accepts(name, "0.0.0.0")
    assert not listening.accepts("evil.example", "0.0.0.0")


# -- paths ------------------------------------------------------------------------------------------------------------

TRICKS = [
    "..", "../", "../../secret.log", "..%2f..%2fsecret.log", "%2e%2e/%2e%2e/secret.log", "%2e%2e%2f%2e%2e%2fsecret.log",
    "..%252f..%252fsecret.log", "%252e%252e%252fsecret.log", "..%5c..%5csecret.log", "....//....//secret.log",
    "/etc/passwd", "%2fetc%2fpasswd", "..%c0%af..%c0%afsecret.log", "%00", "secret.log%00.log", "~", "file:///etc/passwd",
    ".", "%2e", "link.log", "..;/secret.log", "\u202e", "C:%5cWindows", "con", "a" * 5_000,
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick[:30])
def test_no_path_leads_out_of_what_is_listed(room: Room, run: str, trick: str) -> None:
    trick = quote(trick, safe="/%:.;~")
    parts = (
        f"/static/{trick}", f"/api/runs/{trick}", f"/api/runs/{run}/logs/{trick}", f"/api/runs/{run}/video/{trick}",
        f"/api/runs/{run}/{trick}", f"/{trick}", f"/api/runs/{trick}/series", f"/api/runs/{trick}/logs/agents-000.log",
        f"/api/compare?runs={trick}", f"/api/stream?runs={trick}",
    )  # fmt: skip
    for path in parts:
        answer = room.ask(path)
        assert answer.status in (400, 404, 405), (path, answer)
        assert b"secret" not in answer.body.replace(b"secret.log", b"")
        assert b"root:" not in answer.body
    for path in (f"/api/runs/{trick}/command", f"/api/runs/{trick}/video", f"/api/runs/{trick}/trace"):
        assert room.ask(path, "POST", {"do": "stop"}).status in (400, 404, 405)


def test_files_that_are_listed_are_served(room: Room, run: str) -> None:
    assert room.ask(f"/api/runs/{run}/logs/agents-000.log").body == b"a log"
    assert room.get(f"/api/runs/{run}")["files"]["logs"] == ["agents-000.log"]
    assert room.ask("/static/index.html").status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused(room: Room, method: str) -> None:
    assert room.ask("/api/runs", method).status == 405


# -- headers and bodies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/none", "/static/index.html"])
def test_every_answer_protects_the_page(room: Room, path: str) -> None:
    for answer in (room.ask(path), room.ask(path, Cookie="")):
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] in ("no-store", "no-cache")
        assert "server" not in answer.headers
    assert "unsafe" not in POLICY


def test_data_is_not_kept(room: Room) -> None:
    assert room.ask("/api/runs").headers["Cache-Control"] == "no-store"


def test_a_static_file_is_sent_once(room: Room) -> None:
    mark = room.ask("/static/index.html").headers["ETag"]
    answer = room.ask("/static/index.html", If_None_Match=mark)
    assert (answer.status, answer.body) == (304, b"")


@pytest.mark.parametrize("size", ["104857600", "65537", "99999999999999999999", "-1", "1e3"])
def test_a_large_body_is_refused_before_it_is_read(room: Room, run: str, size: str) -> None:
    """100 MB are announced, and none of it is sent: the answer comes all the same."""
    with room.connect() as connection:
        head = f"POST /api/runs/{run}/command HTTP/1.1\r\nHost: 127.0.0.1:{room.port}\r\nCookie: {room.cookie}\r\n"
        connection.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
        answer = connection.makefile("rb").read()
    assert answer.split(b" ")[1] in (b"413", b"400")


def test_a_body_without_a_length_is_refused(room: Room, run: str) -> None:
    with room.connect() as connection:
        head = f"POST /api/runs/{run}/command HTTP/1.1\r\nHost: 127.0.0.1:{room.port}\r\nCookie: {room.cookie}\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        block = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        sent = 0
        try:
            while sent < 100 * 2**20:
                connection.sendall(block)
                sent += len(block)
        except OSError:  # it hung up
            pass
    assert sent < 32 * 2**20  # what fits into the buffers of the system
    assert room.ask("/api/runs").status == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"1", b'"text"', b"[" * 60_000, b'{"do": NaN}', b"\xff", b"{}"])
def test_a_body_that_is_no_command_is_refused(room: Room, run: str, body: bytes) -> None:
    answer = room.ask(f"/api/runs/{run}/command", "POST", body)
    assert answer.status == 400
    assert answer.json["error"]


# -- the socket -------------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_passed_over_unless_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    first = listening.listen()
    second = listening.listen()
    try:
        assert first.port < second.port
        with pytest.raises(UserError, match=f"{first.port} is in use"):
            listening.listen(port=first.port)
    finally:
        first.close()
        second.close()
    assert first.socket.fileno() == -1


def test_only_this_machine_reaches_it_unless_told_otherwise() -> None:
    listener = listening.listen(port=0)
    try:
        assert listener.socket.getsockname()[0] == "127.0.0.1"
        assert listener.address == f"http://127.0.0.1:{listener.port}/?token={listener.token}"
        assert len(listener.token) >= 43
        assert listener.token not in repr(listener)
    finally:
        listener.close()


@pytest.mark.parametrize(("host", "port"), [("", 0), ("no.such.name.invalid", 0), ("127.0.0.1", 70_000)])
def test_what_cannot_be_listened_on_is_refused_in_a_sentence(host: str, port: int) -> None:
    with pytest.raises(UserError):
        listening.listen(host, port)


def test_a_browser_is_given_the_address_in_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All users of a machine see the arguments of its programs."""
    opened_with: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened_with.append(url)) or True)
    command._open("http://127.0.0.1:8300/?token=secret", tmp_path)
    (url,) = opened_with
    page = tmp_path / "open.html"
    assert url == page.as_uri()
    assert "secret" not in url
    assert page.stat().st_mode & 0o077 == 0
    assert "url=http://127.0.0.1:8300/?token=secret" in page.read_text()
