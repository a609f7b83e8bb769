"""Trains the runs of trials: as many at a time as there are shares of the cores, the oldest trial's first."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ga3c.agents.guardian import Guardian
from ga3c.config import Config
from ga3c.errors import RunFailed, UserError
from ga3c.sweep import pruning, runs, shares
from ga3c.sweep.plan import Plan, RunName
from ga3c.sweep.runs import Progress, RunProcess
from ga3c.sweep.shares import Share
from ga3c.sweep.study import Past, State, Study
from ga3c.sweep.yardstick import Yardstick

_LOOK_SECONDS = 0.25
_END_SECONDS = 30.0
"""Seconds that runs have to write their last checkpoint when the sweep is stopped."""
_FAILURES = 3
"""If so many trials fail before any other ends, the fault is not in their settings."""
_NO_EPISODE = "no episode ended; give the runs more --steps or --minutes."


@dataclass(frozen=True)
class Rules:
    """When trials, and the sweep, end; the fields are flags of `ga3c sweep`."""

    trials: int
    prune_below: float
    prune_after: int
    hang_seconds: float


@dataclass
class Attempt:
    """A trial that is being trained."""

    past: Past
    configs: Mapping[RunName, Config]
    waiting: list[RunName] = field(default_factory=list)
    training: dict[RunName, RunProcess] = field(default_factory=dict)
    progress: dict[RunName, Progress] = field(default_factory=dict)

    def take_end(self, run: RunName, score: float) -> None:
        """Notes the score of a run that is complete."""
        curve = {**self.past.curves.get(run, {}), pruning.RUNGS: score}
        curves, scores = {**self.past.curves, run: curve}, {**self.past.scores, run: score}
        self.past = dataclasses.replace(self.past, curves=curves, scores=scores)
        self.progress[run] = Progress(1.0, score)

    def take_rung(self, run: RunName, now: Progress) -> bool:
        """Notes the score at a rung that is reached for the first time; returns whether there was one."""
        self.progress[run] = now
        curve = self.past.curves.get(run, {})
        rung = min(pruning.RUNGS - 1, int(now.share * pruning.RUNGS))
        if rung <= max(curve, default=0) or math.isnan(now.score):
            return False
        self.past = dataclasses.replace(self.past, curves={**self.past.curves, run: {**curve, rung: now.score}})
        return True


class Scheduler:
    """Trains the trials of a sweep, and keeps each in the sweep's file."""

    def __init__(
        self, plan: Plan, study: Study, folder: Path, parts: list[Share], rules: Rules, on_end: Callable[[Past], None]
    ) -> None:
        """`parts` are the shares of the cores. Calls `on_end` with each trial that ends."""
        self.plan = plan
        self.folder = folder
        self.attempts: list[Attempt] = []
        self._study = study
        self._share = parts[0]
        self._free = list(parts)
        self._rules = rules
        self._on_end = on_end
        self._pasts = {past.number: past for past in study.pasts()}
        self._starts = 0

    @property
    def pasts(self) -> list[Past]:
        """All trials, those that are being trained with their latest scores."""
        return [self._pasts[number] for number in sorted(self._pasts)]

    @property
    def yardstick(self) -> Yardstick:
        return Yardstick(self.plan.env_ids, self.pasts)

    def configs(self, past: Past) -> dict[RunName, Config]:
        """The settings of a trial's runs. Presets depend on the cores, of which each run has a share."""
        with shares.within(self._share):
            return {run: self.plan.config(run, past.params) for run in self.plan.runs}

    def run_folder(self, past: Past, run: RunName) -> Path:
        return self.folder / "trials" / f"{past.number:04}" / run.folder

    def train(self, first: Mapping[str, Any], on_look: Callable[[], bool]) -> bool:
        """Trains until the number of trials is reached. Trials that were running when the sweep ended last go on first;
        the very first trial has the settings of `first`. Calls `on_look` some times a second: False ends the sweep, and
        so does any exception; then runs end with a checkpoint. Returns whether all trials were made."""
        with self._guarded() as guardian:
            for past in [past for past in self.pasts if past.state == "running"]:
                self._take(past)
            while True:
                while self._start(guardian, first):
                    pass
                if not self.attempts:
                    return True
                if not on_look():
                    return False
                time.sleep(_LOOK_SECONDS)
                for attempt in list(self.attempts):
                    self._look(attempt)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[Guardian]:
        """Ends all runs at the end of the block, in order if there is time."""
        guardian = Guardian()
        try:
            yield guardian
        finally:
            processes = [process for attempt in self.attempts for process in attempt.training.values()]
            try:
                for process in processes:
                    process.ask_to_end()
                deadline = time.monotonic() + _END_SECONDS
                for process in processes:
                    process.wait(deadline)
            finally:
                for process in processes:
                    process.kill()
                guardian.close()

    # -- starting -----------------------------------------------------------------------------------------------------

    def _start(self, guardian: Guardian, first: Mapping[str, Any]) -> bool:
        """Starts the next run if a share is free; a new trial if no run waits. Returns whether there may be more."""
        if not self._free:
            return False
        waiting = next((attempt for attempt in self.attempts if attempt.waiting), None)
        if waiting is None:
            if len(self._pasts) >= self._rules.trials:
                return False
            self._take(self._study.ask(self.plan.space, self._value, first))
            return True
        run = waiting.waiting.pop(0)
        self._starts += 1
        mark, folder = guardian.mark(self._starts), self.run_folder(waiting.past, run)
        waiting.training[run] = RunProcess(waiting.configs[run], folder, self._free.pop(0), mark)
        waiting.progress[run] = Progress()
        return True

    def _take(self, past: Past) -> None:
        """Begins a trial, or goes on with it: runs that are complete on disk are not trained again."""
        self._pasts[past.number] = past
        try:
            attempt = Attempt(past, self.configs(past))
        except UserError as error:  # settings that do not go together
            return self._conclude(Attempt(past, {}), "failed", str(error))
        self.attempts.append(attempt)
        for run in self.plan.runs_of(past.number):
            score = runs.final_score(attempt.configs[run], self.run_folder(past, run))
            if score is None:
                attempt.waiting.append(run)
            elif math.isnan(score):
                return self._conclude(attempt, "failed", f"{run.env_id}: {_NO_EPISODE}")
            else:
                attempt.take_end(run, score)
        self._pasts[past.number] = attempt.past
        return None if attempt.waiting else self._conclude(attempt, "complete")

    # -- looking ------------------------------------------------------------------------------------------------------

    def _look(self, attempt: Attempt) -> None:
        """Follows the runs of a trial. Ends it if one of them failed, if all are complete, or if it is behind."""
        noted = False
        for run, process in list(attempt.training.items()):
            code, now = process.exit_code(), process.progress()
            if code is None and process.idle_seconds <= self._rules.hang_seconds:
                noted = attempt.take_rung(run, now) or noted
                continue
            score = None if code is None else runs.final_score(attempt.configs[run], process.folder)
            if score is None or math.isnan(score):
                hung = f"no step within {self._rules.hang_seconds:g} s; it was killed."
                reason = hung if code is None else process.why() if score is None else _NO_EPISODE
                return self._conclude(attempt, "failed", f"{run.env_id}: {reason}")
            attempt.take_end(run, score)
            self._free.insert(0, attempt.training.pop(run).share)
            noted = True
        self._pasts[attempt.past.number] = attempt.past
        if not attempt.waiting and not attempt.training:
            return self._conclude(attempt, "complete")
        if noted:
            self._note(attempt)
            if self._is_behind(attempt):
                return self._conclude(attempt, "pruned")
        return None

    def _is_behind(self, attempt: Attempt) -> bool:
        others = [past.curves for past in self.pasts if past.number != attempt.past.number and past.state != "failed"]
        return pruning.is_behind(attempt.past.curves, others, self._rules.prune_below, self._rules.prune_after)

    def _value(self, past: Past) -> float:
        return self.yardstick.value(past)

    def _note(self, attempt: Attempt) -> None:
        done = [attempt.progress.get(run, Progress()).share for run in self.plan.runs]
        self._study.note(attempt.past, self._value(attempt.past), percent=int(100 * sum(done) / len(done)))

    # -- ending -------------------------------------------------------------------------------------------------------

    def _conclude(self, attempt: Attempt, state: State, reason: str = "") -> None:
        """Ends a trial: kills what still trains, and keeps its scores."""
        for process in attempt.training.values():
            process.kill()
            self._free.insert(0, process.share)
        attempt.training.clear()
        if attempt in self.attempts:
            self.attempts.remove(attempt)
        best_before = self.yardstick.best(self.pasts)
        ended = attempt.past = dataclasses.replace(attempt.past, state=state, reason=reason)
        self._pasts[ended.number] = ended
        self._note(attempt)
        self._study.conclude(ended, self._value(ended))
        self._drop_weights(ended, best_before)
        self._on_end(ended)
        self._check_failures()

    def _drop_weights(self, ended: Past, best_before: Past | None) -> None:
        """Removes the checkpoints of a trial that is not the best, and of the one that was."""
        best = self.yardstick.best(self.pasts)
        for past in (ended, best_before):
            if past is not None and past != best:
                for run in self.plan.runs:
                    runs.drop_weights(self.run_folder(past, run))

    def _check_failures(self) -> None:
        ended = [past for past in self.pasts if past.state != "running"]
        if len(ended) >= _FAILURES and all(past.state == "failed" for past in ended):
            raise RunFailed(f"The first {len(ended)} trials failed; the last because of this: {ended[-1].reason}")
