"""What the server takes from a host, and what ends the connection: wrong secrets, versions, lengths, numbers."""

import json
import math
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ga3c import envs
from ga3c.agents.flags import FIRST
from ga3c.agents.prediction_queue import Request
from ga3c.agents.remote import handshake, protocol
from ga3c.agents.remote.gateway import Gateway
from ga3c.agents.remote.outbox import Outbox
from ga3c.agents.remote.pool import ClusterPool
from ga3c.agents.remote.protocol import HEADER, STATUS, Header, Kind, control
from ga3c.agents.remote.squeezing import has_lz4
from ga3c.agents.remote.wire import Closed, Wire
from ga3c.config import EnvConfig
from ga3c.errors import RunFailed

WaitUntil = Callable[..., None]
FRAME = 2 * 4
"""Bytes of a frame of `toys:Ledger-v0`, to which a reward and flags come."""


class Talk:
    """A pool with one share of four agents, and a test that speaks for its host."""

    def __init__(self, folder: Path) -> None:
        config = EnvConfig(clip_rewards=False)
        self.gateway = Gateway("127.0.0.1", (2,))
        spec = envs.describe("toys:Ledger-v0", config, raw_screens=False)
        self.pool = ClusterPool(
            spec, config, self.gateway, agents=4, workers=0, max_agents=4, seed=0, log_folder=folder
        )
        self.pool.start()
        self.texts: list[str] = []

    def connect(self, seconds: float = 5.0) -> Wire:
        return Wire(socket.create_connection(("127.0.0.1", self.gateway.port)), seconds)

    def join(self) -> Wire:
        """A host that is ready, with both processes started."""
        host = self.connect()
        handshake.as_host(host, self.gateway.secret)
        host.send(control("hello", name="me", cores=2, pid=1))
        assert self.hear(host)["about"] == "assignment"
        host.send(control("ready"))
        assert self.hear(host) == {"about": "play", "playing": [1, 1, 1, 1]}
        while self.gateway.link_of(0) is None:
            pass
        self.look()
        assert [self.hear(host)["worker"] for _ in range(2)] == [0, 1]
        return host

    @staticmethod
    def hear(host: Wire) -> Any:
        return json.loads(host.receive(host.receive_header().length))

    def look(self) -> list[Any]:
        failed = self.pool.find_failed()
        self.texts += [event.text for event in self.pool.take_events()]
        return failed

    def said(self, words: str) -> bool:
        self.look()
        return any(words in text for text in self.texts)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    one = Talk(tmp_path)
    yield one
    one.pool.stop(0.2)
    assert not [thread for thread in threading.enumerate() if "outbox" in thread.name or "link" in thread.name]


def frames(group: int = 0, members: int = 1, incarnation: int = 0, reward: float = 1.0, flags: int = FIRST) -> bytes:
    body = np.arange(2 * members, dtype=np.float32).tobytes() + struct.pack("<fB", reward, flags) * members
    return Header(Kind.FRAMES, 0, members, group, incarnation, len(body)).packed() + body


def test_parcels_reach_the_slots_and_actions_the_host(talk: Talk) -> None:
    host = talk.join()
    host.send([frames(2)])
    (request,) = talk.pool.queue.take() or []
    assert request == Request(talk.pool.groups[2], 0)
    assert talk.pool.slots.frames[2].tolist() == [0.0, 1.0]
    assert (talk.pool.slots.rewards[2], talk.pool.slots.flags[2]) == (1.0, FIRST)
    assert talk.pool.slots.asked.tolist() == [0, 0, 1, 0]
    talk.pool.slots.actions[2] = 7
    talk.pool.queue.done([request])
    talk.pool.reply([request])
    header = host.receive_header()
    assert (header.kind, header.members) == (Kind.ACTIONS, 1)
    assert bytes(host.receive(header.length)) == struct.pack("<IIIq", 2, 0, 1, 7)
    host.close()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xff" * 64, "unknown kind 255"),
        (HEADER.pack(Kind.FRAMES, 0, 1, 9, 0, 13), "group 9 of 4"),
        (HEADER.pack(Kind.FRAMES, 0, 2, 0, 0, 26), "2 agents of a group of 1"),
        (HEADER.pack(Kind.FRAMES, 4, 1, 0, 0, 13), "encoding 4"),
        (HEADER.pack(Kind.FRAMES, 2, 1, 0, 0, 5), "out of bounds"),
        (HEADER.pack(Kind.FRAMES, 3, 1, 0, 0, 1 << 31), "out of bounds"),
        (HEADER.pack(Kind.FRAMES, 6, 1, 0, 0, 12) + bytes(12), "lz4" if not has_lz4() else "cannot be decompressed"),
        (HEADER.pack(Kind.FRAMES, 0, 1, 0, 0, 1 << 31), "bytes instead of 13"),
        (frames() + frames(), "waits for its actions"),
        (frames(reward=math.nan), "not finite"),
        (frames(flags=64), "flags that there are not"),
        (HEADER.pack(Kind.CONTROL, 0, 0, 0, 0, 1 << 30), "more than"),
        (HEADER.pack(Kind.CONTROL, 0, 0, 0, 0, 5) + b"{[}]]", "no JSON"),
        (HEADER.pack(Kind.CONTROL, 0, 0, 0, 0, 2) + b"[]", "what it is about"),
        (b"".join(control("failed", worker=2, exit_code=1, last_words="")), "worker is 2"),
        (b"".join(control("failed", worker=0, exit_code="x", last_words="")), "exit code"),
        (b"".join(control("dance", worker=0)), "dance"),
        (HEADER.pack(Kind.STATUS, 0, 0, 0, 0, 8), "a status have 8 bytes"),
        (b"".join(control("bye", reason="my disk is full")), "my disk is full"),
    ],
)
def test_a_host_that_says_what_it_must_not_is_cut_off_with_a_reason(
    talk: Talk, wait_until: WaitUntil, message: bytes, reason: str
) -> None:
    host = talk.join()
    host.send([message])
    wait_until(lambda: talk.said(reason))
    with pytest.raises(Closed):
        host.receive(1)
    host.close()
    talk.join().close()  # and the next one gets its agents


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + bytes(99), "does not speak this protocol"),
        (struct.pack("<8sH32s", b"GA3CHOST", protocol.VERSION + 1, bytes(32)), "version"),
        (struct.pack("<8sH32s", b"GA3CHOST", protocol.VERSION, bytes(32)) + bytes(32), "does not know the secret"),
    ],
)
def test_strangers_stay_outside(talk: Talk, wait_until: WaitUntil, greeting: bytes, reason: str) -> None:
    stranger = talk.connect()
    stranger.send([greeting])
    wait_until(lambda: talk.said(reason))
    stranger.close()
    assert talk.gateway.hosts == []


def test_a_host_refuses_a_server_that_does_not_know_the_secret(in_threads: Callable[..., Any]) -> None:
    ours, theirs = _pair()
    in_threads(1, lambda _: _as_impostor(theirs))
    with pytest.raises(protocol.ProtocolError, match="secret"):
        handshake.as_host(ours, "right")
    ours.close()


def _as_impostor(host: Wire) -> None:
    host.send([struct.pack("<8sH32s", b"GA3CHOST", protocol.VERSION, bytes(32))])
    host.receive(42 + 32)
    host.send([bytes(32)])
    host.close()


def _pair() -> tuple[Wire, Wire]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return Wire(one, 5.0), Wire(listener.accept()[0], 5.0)


def test_parcels_of_a_process_that_has_ended_are_dropped(talk: Talk, wait_until: WaitUntil) -> None:
    host = talk.join()
    host.send(control("failed", worker=0, exit_code=-9, last_words="the wheel came off"))
    failures: list[Any] = []
    wait_until(lambda: failures.extend(talk.look()) or failures)
    assert [(one.worker, one.exit_code, one.last_words) for one in failures] == [(0, -9, "the wheel came off")]
    assert "the wheel came off" in failures[0].log.read_text()
    host.send([frames(0), frames(2)])
    (request,) = talk.pool.queue.take() or []
    assert request.group.number == 2
    assert talk.pool.restart_failed() == 1
    assert talk.hear(host) == {"about": "start", "worker": 0, "incarnation": 1}
    host.send([frames(0), frames(1, incarnation=1)])
    assert talk.pool.queue.take() == [Request(talk.pool.groups[1], 1)]
    host.close()


def test_a_second_host_waits_until_a_share_is_free(talk: Talk, wait_until: WaitUntil) -> None:
    host, second = talk.join(), talk.connect()
    handshake.as_host(second, talk.gateway.secret)
    second.send(control("hello", name="other", cores=2, pid=1))
    assert talk.hear(second) == {"about": "full"}
    second.close()
    host.close()
    wait_until(lambda: talk.said("is lost"))
    talk.join().close()


def test_totals_of_a_host_go_on_after_another(talk: Talk, wait_until: WaitUntil) -> None:
    for times in (1, 2):
        host = talk.join()
        totals = np.arange(6, dtype=np.int64).reshape(3, 2)
        status = STATUS.pack(5, 1_000_000)
        host.send([Header(Kind.STATUS, 0, 0, 0, 0, len(status) + totals.nbytes).packed(), status, totals])
        echo = host.receive_header()
        assert (echo.kind, STATUS.unpack(host.receive(echo.length))[0]) == (Kind.ECHO, 5)
        assert talk.pool.slots.waiting_ns.tolist() == [4 * times, 5 * times]
        assert talk.gateway.hosts[0].round_trip == 0.001
        host.close()
        wait_until(lambda times=times: len([text for text in talk.texts if "is lost" in text]) == times or talk.look())


def test_a_run_without_hosts_warns_and_ends(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ga3c.agents.remote.gateway._WAITING_SECONDS", -1.0)
    assert talk.said("No host of agents is connected")
    monkeypatch.setattr("ga3c.agents.remote.gateway._PATIENCE_SECONDS", -1.0)
    with pytest.raises(RunFailed, match="No host of agents has been connected"):
        talk.look()


def test_who_sends_to_a_host_that_does_not_read_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ga3c.agents.remote.outbox._MOST_BYTES", 1 << 22)
    server, host = _pair()
    outbox = Outbox(server, "outbox of a test")
    for number in range(64):
        outbox.put([bytes([number]) * (1 << 16)])
    received = b"".join(bytes(host.receive(1 << 16)) for _ in range(64))
    assert received == b"".join(bytes([number]) * (1 << 16) for number in range(64)), "in order, and all of it"
    while not server.is_shut:
        outbox.put([bytes(1 << 20)])
    outbox.close()
    server.close()
    host.close()
