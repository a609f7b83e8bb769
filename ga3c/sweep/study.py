"""The trials of a sweep: kept by Optuna in a SQLite file, so that a sweep can go on after any end, and chosen by its
TPE sampler (Bergstra et al. 2011)."""

import contextlib
import importlib.util
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ga3c.errors import UserError
from ga3c.sweep.plan import Plan, RunName
from ga3c.sweep.space import Space

if TYPE_CHECKING:
    import optuna

State = Literal["running", "complete", "pruned", "failed"]
_NAME = "sweep"
_LEAST_FOR_IMPORTANCE = 5
"""Complete trials."""
_SEED = 77_003
"""Seed of the sampler; the number of trials so far is added to it."""


def need_optuna() -> None:
    """Refuses to start where Optuna is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise UserError('ga3c sweep needs Optuna; install it with pip install "ga3c[sweep]".')


@dataclass(frozen=True)
class Past:
    """A trial as the file has it."""

    number: int
    state: State
    params: Mapping[str, Any]
    curves: Mapping[RunName, Mapping[int, float]] = field(default_factory=dict)
    """Scores by rung, of each run that has begun."""
    scores: Mapping[RunName, float] = field(default_factory=dict)
    """Scores at the end, of each run that has ended."""
    reason: str = ""
    """Why it failed or was pruned."""

    @property
    def latest(self) -> dict[RunName, float]:
        """The last score of each run that has one."""
        return {run: curve[max(curve)] for run, curve in self.curves.items() if curve}


class Study:
    """The file of a sweep. One process at a time may have it open."""

    def __init__(self, path: Path, plan: Plan) -> None:
        """Opens the file, or begins it. Refuses the file of another sweep."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            self._study = optuna.create_study(
                study_name=_NAME, storage=f"sqlite:///{path}", direction="maximize", load_if_exists=True
            )
            held = self._study.user_attrs.get("plan")
        except Exception as error:  # whatever SQLAlchemy, Alembic or Optuna raise over a file that is not theirs
            reason = str(error).splitlines()[0]
            raise UserError(f"{path} cannot be used ({reason}); move it away, or choose another --out.") from error
        wanted = json.loads(json.dumps(plan.identity()))
        if held is None:
            self._study.set_user_attr("plan", wanted)
        elif different := [name for name in wanted if held.get(name) != wanted[name]]:
            name = different[0]
            raise UserError(
                f"{path.parent} holds a sweep with {name} {_shown(held.get(name))}, not {_shown(wanted[name])}; "
                "use the same, or choose another --out."
            )

    def pasts(self) -> list[Past]:
        """All trials so far, in their order."""
        return [_past(trial) for trial in self._study.get_trials(deepcopy=False)]

    def ask(self, space: Space, value: Callable[[Past], float], first: Mapping[str, Any]) -> Past:
        """A new trial, which is now running. The first has the settings of `first`, as far as they are in the space."""
        pasts = self.pasts()
        params = propose(space, pasts, value, first if not pasts else {})
        from optuna.trial import TrialState, create_trial

        distributions = {name: part.distribution() for name, part in space.items()}
        self._study.add_trial(create_trial(state=TrialState.RUNNING, params=params, distributions=distributions))
        return self.pasts()[-1]

    def note(self, past: Past, value: float, percent: int) -> None:
        """Keeps the scores of a running trial. `value` is its value at so many percent of its training."""
        trial = self._trial(past.number)
        trial.set_user_attr("curves", {str(run): curve for run, curve in past.curves.items()})
        trial.set_user_attr("scores", {str(run): score for run, score in past.scores.items()})
        if not math.isnan(value):
            with _quiet():  # a value for these percent may be there
                trial.report(value, percent)

    def conclude(self, past: Past, value: float) -> None:
        """Ends a running trial in the state of `past`."""
        from optuna.trial import TrialState

        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        if past.reason:
            self._trial(past.number).set_user_attr("reason", past.reason)
        with _quiet():
            self._study.tell(past.number, value if past.state == "complete" else None, state=states[past.state])

    def _trial(self, number: int) -> "optuna.Trial":
        import optuna

        found = self._study.get_trials(deepcopy=False)[number]
        return optuna.trial.Trial(self._study, found._trial_id)


def importance(space: Space, pasts: Sequence[Past], value: Callable[[Past], float]) -> dict[str, float]:
    """The share of each setting in what makes a trial one of the better ones (PED-ANOVA, Watanabe et al. 2023), highest
    first; empty where there are too few complete trials."""
    import optuna

    complete = [past for past in pasts if past.state == "complete"]
    if len(complete) < _LEAST_FOR_IMPORTANCE:
        return {}
    study = _in_memory(space, complete, value)
    with _quiet():
        found = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator(), params=list(space)
        )
    return dict(found)


def propose(
    space: Space, pasts: Sequence[Past], value: Callable[[Past], float], first: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings to try next. Values of past trials are computed anew, because scales change during a sweep; a
    trial that failed counts as one of the worst."""
    study = _in_memory(space, pasts, value)
    if first:
        study.enqueue_trial(dict(first))
    return dict(study.ask({name: part.distribution() for name, part in space.items()}).params)


def _in_memory(space: Space, pasts: Sequence[Past], value: Callable[[Past], float]) -> "optuna.Study":
    import optuna
    from optuna.trial import TrialState, create_trial

    states = {"running": TrialState.RUNNING, "complete": TrialState.COMPLETE}
    distributions = {name: part.distribution() for name, part in space.items()}
    with _quiet():
        sampler = optuna.samplers.TPESampler(seed=_SEED + len(pasts), multivariate=True, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for past in pasts:
        reached = {len(past.latest): value(past)} if past.state == "pruned" and past.latest else {}
        study.add_trial(
            create_trial(
                state=states.get(past.state, TrialState.PRUNED),
                value=value(past) if past.state == "complete" else None,
                params=dict(past.params),
                distributions=distributions,
                intermediate_values=reached,
            )
        )
    return study


def _past(trial: "optuna.trial.FrozenTrial") -> Past:
    from optuna.trial import TrialState

    states: dict[TrialState, State] = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}
    states |= {TrialState.FAIL: "failed"}
    curves = trial.user_attrs.get("curves", {})
    return Past(
        trial.number,
        states.get(trial.state, "running"),
        dict(trial.params),
        {RunName.parse(run): {int(rung): score for rung, score in curve.items()} for run, curve in curves.items()},
        {RunName.parse(run): score for run, score in trial.user_attrs.get("scores", {}).items()},
        trial.user_attrs.get("reason", ""),
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={part}" for name, part in value.items()) or "none"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's warnings, which speak of its own arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
