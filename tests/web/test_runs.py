"""Real runs, served while they train: they print the address, go on whatever browsers do, and end their server."""

import contextlib
import re
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_rooms import Room
from runs import is_alive, started, wait_for

import ga3c
from ga3c.run.serving import Serving
from ga3c.web.run_files import identity

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_SMALL = ("--agents", 8, "--workers", 1, "--predictors", 1, "--trainers", 1, "--tune", "off", "--ui", "plain")
_MANY = 1_000


@contextlib.contextmanager
def training(*words: object) -> Iterator[tuple[Any, Room, list[str]]]:
    """A run in the background that is served, and the lines that it has printed so far."""
    lines: list[str] = []
    with started(*words) as process:
        assert process.stdout is not None
        thread = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        thread.start()
        wait_for(lambda: any("token=" in line for line in lines), "the address")
        (address,) = re.findall(r"http://\S+", "".join(lines))
        wait_for(lambda: is_up(Room(address)), "the server")
        yield process, Room(address), lines
        process.wait(60)
        thread.join(60)


def is_up(room: Room) -> bool:
    with contextlib.suppress(OSError):
        return room.ask("/api/runs").status == 200
    return False


def row(room: Room) -> Any:
    (found,) = room.get("/api/runs")["runs"]
    return found


def servers_of(pid: int) -> list[int]:
    """The control rooms that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in children if b"ga3c.web" in Path(f"/proc/{one}/cmdline").read_bytes()]


def test_a_run_goes_on_whatever_browsers_do(tmp_path: Path) -> None:
    """1,000 connections that never read, or that ask and never read, and bodies of 100 MB; then it is killed, resumed
    on the same port, and stopped: a page that listens hears of it all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    folder = tmp_path / "run"
    with training("train", "CartPole-v1", "--web", "--out", folder, "--minutes", 20, *_SMALL) as (process, room, lines):
        assert "The control room of this run:" in "".join(lines)
        (server,) = servers_of(process.pid)
        wait_for(lambda: (row(room)["steps"] or 0) > 0, "the first steps")
        with contextlib.ExitStack() as held:
            for number in range(_MANY):
                connection = held.enter_context(room.connect())
                with contextlib.suppress(OSError):
                    connection.sendall(b"" if number % 2 else room.request_text(f"/api/stream?runs={row_id(folder)}"))
            for _ in range(20):
                head = f"POST /api/runs/x/command HTTP/1.1\r\nHost: 127.0.0.1:{room.port}\r\nContent-Length: 104857600"
                held.enter_context(room.connect()).sendall(f"{head}\r\nCookie: {room.cookie}\r\n\r\n".encode())
            wait_for(lambda: is_up(room), "an answer")
            before = row(room)["steps"]
            wait_for(lambda: row(room)["steps"] > before, "more steps")
            assert row(room)["state"] == "running"
            assert memory_megabytes(server) < 200
        token = room.token.encode()
        assert not [path for path in folder.rglob("*") if path.is_file() and token in path.read_bytes()]
        process.send_signal(signal.SIGKILL)
        wait_for(lambda: not is_alive(server), "the end of the server with its run")
    words = ("resume", folder, "--web", "--web-port", room.port, "--minutes", 20, "--ui", "plain")
    with training(*words) as (process, room, _), room.stream(f"/api/stream?runs={row_id(folder)}") as messages:
        (server,) = servers_of(process.pid)
        messages.next("state")
        messages.next("snapshot")
        answer = room.ask(f"/api/runs/{row_id(folder)}/command", "POST", {"do": "stop"})
        assert answer.json["ok"] is True
        messages.next("gone")
        messages.next("runs", lambda rows: rows[0]["state"] == "stopped")
        wait_for(lambda: not is_alive(server), "the end of the server with its run")


def row_id(folder: Path) -> str:
    return identity(folder.resolve())


def memory_megabytes(pid: int) -> float:
    (line,) = (x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def test_a_program_serves_its_run_from_a_callback_and_afterwards(tmp_path: Path) -> None:
    class Serves(ga3c.Callback):
        rooms: list[Serving] = []
        states: list[str] = []

        def on_start(self, run: ga3c.Run) -> None:
            self.rooms.append(run.serve(readonly=True))

        def on_metrics(self, run: ga3c.Run, metrics: Any) -> None:
            room = Room(self.rooms[0].address)
            if is_up(room):
                self.states.append(row(room)["state"])
                run.stop()

    served = Serves()
    run = ga3c.train("CartPole-v1", minutes=2, out=tmp_path / "run", ui="none", agents=4, workers=1, callbacks=[served])
    (room,) = served.rooms
    assert served.states[0] == "running"
    assert room.failure == ""
    assert row(Room(room.address))["state"] == "stopped"
    assert Room(room.address).ask(f"/api/runs/{row_id(run.folder)}/command", "POST", {"do": "stop"}).status == 403
    room.close()
    assert not is_up(Room(room.address))
    with run.serve() as again:
        wait_for(lambda: is_up(Room(again.address)), "the server")


def test_ctrl_c_ends_a_run_and_its_server_while_a_page_listens(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ("train", "CartPole-v1", "--web", "--out", folder, "--minutes", 20, *_SMALL)
    with training(*words) as (process, room, lines), room.stream(f"/api/stream?runs={row_id(folder)}") as messages:
        (server,) = servers_of(process.pid)
        messages.next("snapshot")
        process.send_signal(signal.SIGINT)
        messages.next("runs", lambda rows: rows[0]["state"] == "stopped")
        process.wait(60)
        assert not is_alive(server)
    assert process.returncode == 0
    assert "failed" not in "".join(lines)
