"""The desk: what the control socket answers to each request. It reads the run's state, and hands commands on."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ga3c.errors import Ga3cError, UserError
from ga3c.run import requests
from ga3c.run.commands import Command, Outcome, Pause, Resume, Stop, TakeCheckpoint, WriteTrace
from ga3c.run.connection import Connection
from ga3c.run.looking import Looking
from ga3c.run.server import Server
from ga3c.run.state import state_of

Call = Callable[[Callable[[], None]], None]
"""Calls a function in the thread of the control server."""

_PLAIN: Mapping[str, Command] = {
    "pause": Pause(),
    "resume": Resume(),
    "checkpoint": TakeCheckpoint(),
    "trace": WriteTrace(),
    "stop": Stop("Stopped by a command."),
}
"""Requests without arguments that are one command."""


class Desk:
    """Serves the requests to one run, in the thread of the control server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._looking = Looking(server.system)

    def serve(self, request: Mapping[str, Any], connection: Connection, call: Call) -> None:
        """Answers a request, now or once its commands were carried out. Whatever is wrong with it is the answer."""
        number = request.get("id")
        arguments = {name: value for name, value in request.items() if name not in ("id", "do")}
        try:
            self._serve(str(request["do"]), number, arguments, connection, call)
        except Ga3cError as error:
            connection.answer(number, False, str(error))
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            connection.answer(number, False, f"The request cannot be served: {error}.")

    def _serve(self, do: str, number: Any, arguments: Mapping[str, Any], connection: Connection, call: Call) -> None:
        if do not in _REQUESTS:
            raise UserError(f"There is no request {do!r}; there are {', '.join(_REQUESTS)}.")
        if arguments and do not in ("set", "look"):
            raise UserError(f"{do} takes no arguments, but got {', '.join(arguments)}.")
        match do:
            case "hello":
                connection.answer(number, True, "This run listens.", **state_of(self._server))
            case "set":
                server = self._server
                self._order(requests.changes(server.system, server.config.engine, arguments), number, connection, call)
            case "follow":
                connection.follows = True
                connection.answer(number, True, "Done: what happens follows.")
            case "look":
                self._looking.begin(_agent(arguments), connection)
                connection.answer(number, True, "Done: what the agent sees follows.")
            case "gallery":
                self._show_gallery(number, connection)
            case _:
                self._order([_PLAIN[do]], number, connection, call)

    def _order(self, commands: list[Command], number: Any, connection: Connection, call: Call) -> None:
        """Hands commands to the supervising loop. The answer is sent after they were carried out."""

        def answer(outcome: Outcome) -> None:
            connection.answer(number, outcome.ok, outcome.text, **outcome.details)

        self._server.commands.put(*commands, done=lambda outcome: call(functools.partial(answer, outcome)))

    def _show_gallery(self, number: Any, connection: Connection) -> None:
        """Sends the gallery's memory. Agents draw until the connection ends."""
        memory = self._server.system.gallery
        if memory is None:
            raise UserError("The agents of this run do not draw; --gallery and --system decide that.")
        descriptor = memory.open_to_read()
        if not connection.looks:
            connection.looks = True
            memory.look(pictures=True)
            connection.at_end.append(functools.partial(memory.look_away, pictures=True))
        connection.send({"id": number, "ok": True, "text": "Done: the agents draw."}, descriptor)

    @property
    def due(self) -> float | None:
        """When something is to be sent by itself; None if nothing is."""
        return self._looking.due

    def look(self, now: float) -> None:
        """Sends what is due."""
        self._looking.look(now)


def _agent(arguments: Mapping[str, Any]) -> int:
    """The agent that somebody wants to look at."""
    agent = arguments.get("agent")
    if set(arguments) != {"agent"} or type(agent) is not int:
        raise UserError("look takes the number of an agent.")
    return agent


_REQUESTS = ("hello", "set", "pause", "resume", "checkpoint", "stop", "trace", "follow", "gallery", "look")
