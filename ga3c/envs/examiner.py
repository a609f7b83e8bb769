"""The process that makes an environment and tries it, so that the server does not have to: `examination.py` starts it.

It answers in JSON lines on a descriptor of its own, since an environment may print anything. It announces
each phase before it begins: {"doing": PHASE, "method": NAME}. The answer comes before the environment is closed."""

import contextlib
import dataclasses
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ga3c.envs import atari, catalog, gym, own, trial, wrapping
from ga3c.envs.guard import failed, place_of, reason_of
from ga3c.errors import UserError

Tell = Callable[..., None]


def main() -> None:
    serve(_examine)


def serve(work: Callable[[dict[str, Any], Tell], None]) -> None:
    """Does the task of this process, tells what it is not able to do, and ends the process."""
    task: dict[str, Any] = json.load(sys.stdin)
    _die_with(task["server_pid"])
    _leave_no_core()
    faulthandler.enable(all_threads=False)  # a crash, or the server's SIGABRT, shows the line
    os.set_inheritable(task["answers"], False)  # programs that the environment starts must not keep it open
    answers = os.fdopen(task["answers"], "wb")

    def tell(**message: Any) -> None:
        answers.write(json.dumps(message).encode() + b"\n")
        answers.flush()

    try:
        work(task, tell)
    except UserError as error:
        tell(error=error.command_text)
    except BaseException as error:  # an environment may raise SystemExit too
        tell(error=str(failed(task["env_id"], "its own code", error)))
    # Threads and exit handlers of the environment are not waited for.
    os._exit(0)


def _examine(task: dict[str, Any], tell: Tell) -> None:
    """Finds, makes, tries and closes the environment, and tells what was found. Without arguments it is only found."""
    env_id, args, wraps = task["env_id"], task["env_args"], task["wraps"]
    tell(doing="make", method="the import")
    own.receive(task["env_pickle"])
    registered = catalog.find(env_id)
    if atari.is_atari(registered.entry_point, registered.kwargs):
        names = ("game", "mode", "difficulty", "continuous")
        tell(atari={name: registered.kwargs[name] for name in names if name in registered.kwargs})
        return
    if args is None:
        tell(closed=True)
        return
    tell(doing="make", method="its constructor")
    env = gym.construct(env_id, registered, args, wraps)
    description = dataclasses.replace(gym.described(env_id, env), vector_from=gym.vector_from(registered))
    notes, masked = trial.check(env_id, env, lambda method: tell(doing="try", method=method))
    files = _files([env_id, *wrapping.factory_ids(wraps)], env)
    tell(description=dataclasses.replace(description, masked=masked).to_json(), notes=notes, files=files)
    tell(doing="close", method="close")
    try:
        env.close()
    except BaseException as error:
        place = place_of(error)
        tell(note=f"{env_id}: close failed: {reason_of(error)}" + (f" ({place})." if place else "."))
    tell(closed=True)


def _files(ids: list[str], env: Any) -> list[str]:
    """The user's modules that describe the environment: once they change, it must be described again."""
    modules = {*(one.rpartition(":")[0] for one in ids), type(env.unwrapped).__module__}
    files = (getattr(sys.modules.get(module), "__file__", None) for module in modules)
    return [file for file in files if file]


def _die_with(parent: int) -> None:
    """Asks the kernel to kill this process when the server dies: an environment that hangs would stay for ever."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # the server died before the kernel was asked
        os._exit(0)


def _leave_no_core() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
