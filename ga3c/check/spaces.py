"""What does not fit its space, and numbers that a network hardly learns from: pure functions of the evidence."""

from collections.abc import Iterable, Iterator

from ga3c.check.evidence import Evidence, Misfit, Numbers, Play
from ga3c.check.finding import Finding

ENOUGH_STEPS = 100
"""Steps before anything is said of what never happened."""
_LARGE_NUMBER = 1000.0
_BIG_NUMBER = 50.0
_SMALL_NUMBER = 1e-3
_MANY_CHOICES = 1000
_MISFITS: dict[str, tuple[str, str, str]] = {
    "keys": ("observation-keys", "the network's inputs are fixed by the space",
             "return every key of observation_space in each observation, or take it out of the space"),
    "shape": ("observation-shape", "the network's inputs are fixed by the space",
              "declare the shape that is returned, or return the shape that is declared"),
    "dtype": ("observation-dtype", "numbers would be rounded, or cannot be read",
              "declare the dtype that is returned, for most spaces np.float32"),
    "member": ("observation-member", "what is outside its space has no place in the network's inputs",
               "return only what observation_space contains"),
    "reset": ("reset-api", "this is the API of gym before 0.26",
              "write reset(self, *, seed=None, options=None), and return (observation, info)"),
    "step": ("step-api", "this is the API of gym before 0.26, or something else is missing",
             "return (observation, reward, terminated, truncated, info)"),
    "info": ("info", "wrappers and trainers read info by its keys", "return a dict as info; {} will do"),
    "reward": ("reward-type", "rewards are added up", "return a float as the reward"),
    "flags": ("flags", "they say where an episode ends", "return bool(...) for terminated and truncated"),
}  # fmt: skip
"""By kind: the finding's name, why it matters, and what to do."""


def misfits(evidence: Evidence, play: Play) -> Iterator[Finding]:
    for misfit in _first_of_each(play.misfits):
        if misfit.kind == "not-finite":
            yield _not_finite(misfit)
        elif misfit.kind == "bounds":
            yield Finding(
                "doubtful", "observation-bounds", f"{misfit.method} gave {misfit.text} ({_times(misfit)})",
                "bounds scale bytes and tell what is possible; wrong ones hide errors",
                "correct the bounds of observation_space, or clip; -np.inf and np.inf are bounds too",
            )  # fmt: skip
        else:
            name, why, do = _MISFITS[misfit.kind]
            verb = "gave " if misfit.kind in ("keys", "shape", "dtype", "member") else ""
            yield Finding("fault", name, f"{misfit.method} {verb}{misfit.text} ({_times(misfit)})", why, do)


def _first_of_each(misfits: Iterable[Misfit]) -> Iterator[Misfit]:
    """One misfit of each kind: what both methods return has one cause."""
    seen = set()
    for misfit in misfits:
        key = (misfit.kind, misfit.text.startswith("a reward"))
        if key not in seen:
            seen.add(key)
            yield misfit


def _not_finite(misfit: Misfit) -> Finding:
    name = "reward-not-finite" if misfit.text.startswith("a reward") else "observation-not-finite"
    return Finding(
        "fault", name, f"{misfit.method} gave {misfit.text} ({_times(misfit)})",
        "one NaN in a loss destroys all weights, so a run refuses it",
        "find the division by zero or the simulation that diverges, and end the episode there",
    )  # fmt: skip


def _times(misfit: Misfit) -> str:
    return "once" if misfit.count == 1 else f"{misfit.count} times"


def numbers(evidence: Evidence, play: Play) -> Iterator[Finding]:
    enough = play.observations > ENOUGH_STEPS
    if enough and play.numbers and all(part.constant == part.size for part in play.numbers):
        yield Finding(
            "doubtful", "observation-constant", f"all {play.observations} observations were the same",
            "an agent that always sees the same cannot tell states apart",
            "check that step returns the new state, and not the array that was made by reset",
        )  # fmt: skip
        return
    for part in play.numbers:
        if part.is_picture or not part.size:
            continue
        yield from _scale(part)
        if enough and part.constant:
            yield Finding(
                "note", "numbers-constant",
                f"{part.constant} of {part.size} numbers{_of(part)} were the same in {play.observations} observations",
                "they tell an agent nothing, unless they change later", "leave them out if they never change",
            )  # fmt: skip


def _scale(part: Numbers) -> Iterator[Finding]:
    largest = max(abs(part.low), abs(part.high))
    seen = f"observed numbers{_of(part)} go from {part.low:.4g} to {part.high:.4g}"
    why = "a network learns best from numbers of about -1 to 1"
    do = "divide them by their range in the environment, or use --normalise-observations"
    if part.dtype in ("uint8", "bool"):
        return
    if largest > _LARGE_NUMBER or 0.0 < largest < _SMALL_NUMBER:
        yield Finding("doubtful", "observation-scale", seen, why, do)
    elif largest > _BIG_NUMBER:
        yield Finding("note", "observation-scale", seen, why, do)


def _of(part: Numbers) -> str:
    return f" of observation{part.name}" if part.name else ""


def reuse(evidence: Evidence, play: Play) -> Iterator[Finding]:
    if play.reused:
        yield Finding(
            "note", "observation-reused", "an observation changes when the next one is made",
            "nothing is lost here, where each is copied at once; other trainers keep references",
            "return a copy: self.state.copy()",
        )  # fmt: skip


def actions(evidence: Evidence) -> Iterator[Finding]:
    for part in evidence.actions:
        if part.kind == "Box" and part.unbounded:
            yield Finding(
                "doubtful", "action-bounds", f"{part.unbounded} numbers of an action have no bounds",
                "they are drawn in units of 1, whatever size of action the environment needs",
                "give action_space finite bounds: actions are then chosen in units of them",
            )  # fmt: skip
        if part.kind == "Box" and part.empty:
            yield Finding(
                "doubtful", "action-range", f"{part.empty} numbers of an action have equal bounds",
                "nothing can be chosen there", "take them out of action_space",
            )  # fmt: skip
        if part.kind == "Box" and not part.unbounded and (part.low > 0 or part.high < 0):
            yield Finding(
                "note", "action-asymmetric", f"the bounds of an action, {part.low:g} to {part.high:g}, leave out 0",
                "an untrained policy begins in the middle of the bounds", "check that the middle is a fair start",
            )  # fmt: skip
        if part.kind in ("Discrete", "MultiDiscrete") and part.choices == 1:
            yield Finding(
                "doubtful", "action-single", "there is only one action", "nothing can be learned",
                "check the number of actions in action_space",
            )  # fmt: skip
        if part.choices > _MANY_CHOICES:
            yield Finding(
                "note", "action-many", f"an action is one of {part.choices:,}", "each is tried very rarely",
                "split the choice into several (MultiDiscrete), or mask actions that are not allowed",
            )  # fmt: skip
