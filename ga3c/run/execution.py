"""The execution of commands: what the supervising loop does with the orders that wait in the queue."""

from collections.abc import Callable
from typing import Any

from ga3c.run import commands
from ga3c.run.commands import (
    Command,
    Order,
    Outcome,
    Pause,
    ReleaseRates,
    Resume,
    SetNumbers,
    SetRates,
    SetTuning,
    Stop,
    TakeCheckpoint,
    WriteTrace,
)
from ga3c.run.recorder import Recorder
from ga3c.run.reporter import Reporter
from ga3c.run.steering import Steering


class Execution:
    """Carries out commands to one run, each with an event that says so."""

    def __init__(
        self,
        steering: Steering,
        recorder: Recorder,
        reporter: Reporter,
        write_trace: Callable[[], float],
        stop: Callable[[str], None],
        is_ending: Callable[[], bool],
    ) -> None:
        """`write_trace` returns the seconds that are in the trace. A run that `is_ending` is not waited for."""
        self._steering = steering
        self._recorder = recorder
        self._reporter = reporter
        self._write_trace = write_trace
        self._stop = stop
        self._is_ending = is_ending

    def carry_out(self, order: Order) -> None:
        """Carries out commands that were sent together, up to the first that fails."""
        done: list[Outcome] = []
        for command in order.commands:
            done.append(self._execute(command))
            if not done[-1].ok:
                order.done(done[-1])
                return
        order.done(commands.joined(order.commands, done))

    def _execute(self, command: Command) -> Outcome:
        """Carries out a command. One that cannot be carried out is a warning, and changes nothing."""
        name, details = type(command).__name__, commands.details(command)
        try:
            found = self._do(command)
        except (OSError, RuntimeError, MemoryError, ValueError) as error:
            text = f"{str(error).strip().removesuffix('.') or repr(error)}."
            self._reporter.tell("warning", f"The command {command!r} was not carried out: {text}", **details)
            return Outcome(False, text)
        if isinstance(command, commands.STEERING):
            self._recorder.expect_checkpoint()
        text = f"Done: {command}."
        self._reporter.tell("command", text, command=name, **details, **found)
        return Outcome(True, text, found)

    def _do(self, command: Command) -> dict[str, Any]:
        """Does it, and returns what there is to tell besides."""
        steering = self._steering
        match command:
            case SetNumbers():
                steering.set_numbers(command)
            case SetRates():
                steering.set_rates(command)
            case ReleaseRates():
                steering.release_rates(command)
            case SetTuning():
                steering.set_tuning(command.tuning)
            case Pause():
                steering.pause(self._is_ending)
                self._recorder.record()
            case Resume():
                self._recorder.discount_pause()  # while the clock still stands
                steering.resume()
                self._recorder.go_on()
            case TakeCheckpoint():
                return {"steps": self._recorder.save_now().steps}
            case WriteTrace():
                return {"seconds": self._write_trace()}
            case Stop():
                self._stop(command.reason)
        return {}
