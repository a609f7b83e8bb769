"""The command line: `ga3c train`, `sweep`, `resume`, `ctl`, `eval`, `play`, `export`, `card`, `push`, `plot`, `report`,
`web`, `envs`, `bench`, `doctor`, `check`, `completion`."""

import os

# Before numpy is imported: the tuner's matrices are small, and threads of OpenBLAS that wait for one another are slower
# than one thread, and take cores from the agents.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ga3c import __version__, flags, interruption, zoo
from ga3c.errors import RunFailed, UserError, show_warnings_plainly
from ga3c.flags import asking, keywords, parsing
from ga3c.flags.arguments import (
    CardArguments,
    CheckArguments,
    CompletionArguments,
    CtlArguments,
    DoctorArguments,
    EnvsArguments,
    EvalArguments,
    ExportArguments,
    PlayArguments,
    PlotArguments,
    PushArguments,
    ReportArguments,
    ResumeArguments,
    SweepArguments,
    TrainArguments,
    WebArguments,
)

if TYPE_CHECKING:
    from ga3c.run.evaluate import Evaluation, Played

# Commands import what they need when they run: torch takes seconds to import, and `ga3c --help` does not need it. Until
# then a signal ends the process at once; after it, what was begun is cleaned up.


def train(arguments: Sequence[str]) -> None:
    args, settings = flags.chosen(TrainArguments, arguments, "ga3c train", tunes=True)
    from ga3c import api

    interruption.unwind()
    api.train(
        args.env_id, preset=args.preset, config=args.config_file, out=args.out, ui=args.ui,
        web=args.web, web_port=args.web_port, web_readonly=args.web_readonly,
        env_args=keywords.env_args(args.env_args), **settings,
    )  # fmt: skip


def sweep(arguments: Sequence[str]) -> None:
    args, fixed = flags.chosen(SweepArguments, arguments, "ga3c sweep", tunes=False)
    from ga3c.sweep import command

    interruption.unwind()
    command.run(args, fixed)


def resume(arguments: Sequence[str]) -> None:
    args = parsing.read(ResumeArguments, arguments, "ga3c resume")
    from ga3c import api
    from ga3c.view import consent

    interruption.unwind()
    trust = consent.given(args.folder, args.trust)
    api.resume(
        args.folder, steps=args.steps, minutes=args.minutes, device=args.device, ui=args.ui, trust=trust,
        web=args.web, web_port=args.web_port, web_readonly=args.web_readonly,
    )  # fmt: skip


def ctl(arguments: Sequence[str]) -> None:
    args = parsing.read(CtlArguments, arguments, "ga3c ctl")
    from ga3c.view import ctl

    do, more = asking.request(args.words)
    interruption.unwind()
    ctl.ask(args.folder, do, more, args.json)


def evaluate(arguments: Sequence[str]) -> None:
    args = parsing.read(EvalArguments, arguments, "ga3c eval")
    from ga3c import api
    from ga3c.view import consent, scores

    interruption.unwind()
    folder = zoo.resolve(args.folder)
    trust = consent.given(folder, args.trust)

    def run(on_episode: Callable[["Played"], None], on_steps: Callable[[int], None]) -> "Evaluation":
        return api.evaluate(
            folder, args.episodes, policy=args.policy, checkpoint=args.checkpoint, seed=args.seed,
            device=args.device, protocol=args.protocol, trust=trust, on_episode=on_episode, on_steps=on_steps,
        )  # fmt: skip

    scores.show(run, args.episodes, args.json)


def play(arguments: Sequence[str]) -> None:
    args = parsing.read(PlayArguments, arguments, "ga3c play")
    from ga3c.view import consent, play

    interruption.unwind()
    folder = zoo.resolve(args.folder)
    trust = consent.given(folder, args.trust)
    play.show(
        folder, args.video, episodes=args.episodes, max_seconds=args.max_seconds, policy=args.policy,
        checkpoint=args.checkpoint, seed=args.seed, trust=trust,
    )  # fmt: skip


def export(arguments: Sequence[str]) -> None:
    args = parsing.read(ExportArguments, arguments, "ga3c export")
    from ga3c.export import command

    interruption.unwind()
    command.export(args)


def card(arguments: Sequence[str]) -> None:
    args = parsing.read(CardArguments, arguments, "ga3c card")
    from ga3c.export import command

    interruption.unwind()
    command.card(args)


def push(arguments: Sequence[str]) -> None:
    args = parsing.read(PushArguments, arguments, "ga3c push")
    from ga3c.export import command

    interruption.unwind()
    command.push(args)


def plot(arguments: Sequence[str]) -> None:
    args = parsing.read(PlotArguments, arguments, "ga3c plot")
    from ga3c.view import plot

    interruption.unwind()
    plot.show(args.folders, args.x, args.y, args.smooth, args.out, args.group)


def report(arguments: Sequence[str]) -> None:
    args = parsing.read(ReportArguments, arguments, "ga3c report")
    from ga3c.report import command

    interruption.unwind()
    command.write(args.folders, args.out)


def web(arguments: Sequence[str]) -> None:
    args = parsing.read(WebArguments, arguments, "ga3c web")
    from ga3c.run import serving

    serving.check_packages()
    from ga3c.web import command

    interruption.unwind()
    command.serve(args.folders, args.host, args.port, args.web_readonly, args.open)


def environments(arguments: Sequence[str]) -> None:
    args = parsing.read(EnvsArguments, arguments, "ga3c envs")
    from ga3c.envs import catalog

    entries = catalog.list_ids(args.pattern)
    if not entries:
        near = ", ".join(catalog.suggest(args.pattern or ""))
        package = None if near else catalog.package_of(args.pattern or "")
        hint = f"; near it: {near}." if near else "."
        if package:
            hint = f"; `ga3c envs {package}:` imports the package {package}, and lists what it registers."
        raise UserError(f"No environment matches {args.pattern!r}{hint}")
    table = Table(box=None, pad_edge=False)
    for title in ("environment", "kind", "note"):
        table.add_column(title, no_wrap=title == "environment")
    for entry in entries:
        table.add_row(entry.id, entry.kind, escape(entry.note))
    Console().print(table)


def bench(arguments: Sequence[str]) -> None:
    from ga3c import bench

    bench.run(arguments)


def doctor(arguments: Sequence[str]) -> None:
    args = parsing.read(DoctorArguments, arguments, "ga3c doctor")
    from ga3c.bench import record
    from ga3c.doctor import command, report

    interruption.unwind()
    found = command.examine(args.env_id, args.device, args.seconds, keywords.env_args(args.env_args), args.wrap)
    if args.json:
        print(record.to_json(found.as_dict()))
    else:
        report.show(found, Console())
    if not found.can_train:
        raise RunFailed("Something must be repaired before this machine can train; the findings say how.")


def check(arguments: Sequence[str]) -> None:
    args = parsing.read(CheckArguments, arguments, "ga3c check")
    from ga3c.bench import record
    from ga3c.check import command, report

    interruption.unwind()
    found = command.examine(
        args.env_id, keywords.env_args(args.env_args) or {}, args.wrap, play_seconds=args.play_seconds,
        seconds=args.seconds, device=args.device,
    )  # fmt: skip
    if args.json:
        print(record.to_json(found.as_dict()))
    else:
        report.show(found, Console())
    if not found.is_sound:
        raise RunFailed(f"{args.env_id} must be repaired before it is trained; the findings say how.")


def completion(arguments: Sequence[str]) -> None:
    args = parsing.read(CompletionArguments, arguments, "ga3c completion")
    from ga3c import bench
    from ga3c.flags import completion

    kinds = {name: command.arguments for name, command in COMMANDS.items()}
    print(completion.script(args.shell, kinds, bench.BENCHMARKS))


class Command(NamedTuple):
    """A command: what runs it, what it does in a few words, and its flags; those of `bench` depend on what follows."""

    run: Callable[[Sequence[str]], None]
    text: str
    arguments: type | None = None


COMMANDS = {
    "train": Command(train, "train an agent on an environment of Gymnasium or your own", TrainArguments),
    "sweep": Command(sweep, "search for settings over several environments at once", SweepArguments),
    "resume": Command(resume, "continue a run from its last checkpoint", ResumeArguments),
    "ctl": Command(ctl, "steer a run that trains: pause it, set its numbers and rates, stop it", CtlArguments),
    "eval": Command(evaluate, "play whole episodes and report raw scores", EvalArguments),
    "play": Command(play, "watch a trained agent, or record a video", PlayArguments),
    "export": Command(
        export, "write a policy as ONNX, TorchScript or safetensors, with an example that plays it", ExportArguments
    ),
    "card": Command(card, "write a model card with evaluated scores", CardArguments),
    "push": Command(push, "upload a policy with its card to the Hugging Face Hub", PushArguments),
    "plot": Command(plot, "draw the learning curves of several runs on one picture", PlotArguments),
    "report": Command(
        report, "write runs or results as one HTML file with all their curves and tables", ReportArguments
    ),
    "web": Command(web, "watch and steer runs in the browser", WebArguments),
    "envs": Command(environments, "list the environments that can be trained here", EnvsArguments),
    "bench": Command(bench, "measure how fast this machine trains, and where the time goes"),
    "doctor": Command(
        doctor, "examine this machine: what limits it, what is wrong, which settings suit it", DoctorArguments
    ),
    "check": Command(check, "check an environment: what keeps it from being learned, and what to do", CheckArguments),
    "completion": Command(
        completion, "print a script for bash, zsh or fish that completes commands and flags", CompletionArguments
    ),
}


def usage() -> str:
    rows = "\n".join(f"  {name:12}{command.text}" for name, command in COMMANDS.items())
    return (
        f"ga3c {__version__}: asynchronous actor-critic with agents in processes and one model on the device.\n\n"
        f"usage: ga3c COMMAND [...]\n\n{rows}\n\n`ga3c COMMAND --help` explains each."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code: 0, 1 if a run failed, 2 if the input was wrong, 128 + signal if it was
    interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
    except UserError as error:
        code = _fail(error.command_text, 2)
    except RunFailed as error:
        code = _fail(error.command_text, 1)
    except KeyboardInterrupt as error:
        code = _fail(str(error) or "Interrupted.", interruption.exit_code() or 130)
    except BrokenPipeError:
        code = 0  # the reader of the output has ended, as `head` does
    except OSError as error:
        code = _refused(error)
    except Exception:
        if not interruption.exit_code():
            raise
        code = _fail("Interrupted.", interruption.exit_code())  # an import turns a signal into another error
    return _flushed(code)


def _run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(__version__)
        return 0
    if words[0] not in COMMANDS:
        near = difflib.get_close_matches(words[0], COMMANDS)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(COMMANDS)}."
        raise UserError(f"There is no command {words[0]!r}{hint}")
    show_warnings_plainly()
    try:
        COMMANDS[words[0]].run(words[1:])
    except SystemExit as end:  # `--help` of a command
        return end.code if isinstance(end.code, int) else 0
    return 0


def _flushed(code: int) -> int:
    """Writes what is left of the output. What cannot be written any more is dropped, so that nothing complains when the
    process ends."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
    except OSError as error:
        _drop(sys.stdout)
        return _refused(error)
    return code


def _drop(stream: object) -> None:
    """Lets the descriptor of a stream lead to /dev/null."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[attr-defined]
        os.close(null)


def _refused(error: OSError) -> int:
    return _fail(f"The system refused something that this command needs: {error}.", 1)


def _fail(text: str, code: int) -> int:
    try:
        print(f"ga3c: {text}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)
    return code
