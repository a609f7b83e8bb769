"""The server: builds the parts of the paper's figure 1, connects, starts, supervises and stops them."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence

import torch

from ga3c import checkpoint, device, nets
from ga3c.agents.pool import AgentPool, Failure
from ga3c.checkpoint import Checkpoint
from ga3c.config import Config
from ga3c.envs.spec import EnvSpec
from ga3c.errors import RunFailed
from ga3c.learn.schedules import linear
from ga3c.model import Model
from ga3c.predictor import Predictor
from ga3c.queues import TrainingQueue
from ga3c.runfolder import RunFolder
from ga3c.sinks.base import Sink
from ga3c.stats import Counters, Episode, Gauges, Snapshot, Stats
from ga3c.store import ExperienceStore
from ga3c.trace import Tracer
from ga3c.trainer import Trainer, batches_per_launch

_TICK = 0.1
"""Seconds between looks at the processes and the limits."""
_RECORD = 1.0
"""Seconds between records of metrics."""
_SILENCE = 30.0
"""Seconds without a word from an agent process after which people are told."""
_PATIENCE = 2.0
"""Seconds that agent processes get to end by themselves."""


class Server:
    """One run. Whoever reads `__init__` has seen who talks to whom."""

    def __init__(self, config: Config, spec: EnvSpec, folder: RunFolder, start: int = 0) -> None:
        """`start` is the number of steps that a resumed run has behind it."""
        engine, learn = config.engine, config.learn
        self.config = config
        self._folder = folder
        self._sinks: list[Sink] = []
        self._best_saved = checkpoint.best_score(folder.checkpoints)
        self._stopping = False
        self._reason = ""
        self._failure: RunFailed | None = None
        self._failures = 0
        self._shown_traceback = False
        where = device.choose(engine.device)
        device.prepare(where, engine.torch_threads, config.run.seed, tf32=config.net.precision != "fp32")

        workers = engine.workers or default_workers(engine.agents, where)
        seed = (config.run.seed + start) % 2**31  # a resumed run does not play its first games again
        traced = config.run.profile > 0
        self.pool = AgentPool(
            spec, config.env, engine.agents, workers, engine.prediction_batch, seed, folder.logs, traced
        )
        self._frames = device.SharedFrames(self.pool.slots.frames, where)

        batch = learn.batch_rollouts
        self.training_queue = TrainingQueue(max(engine.queue, 2 * batch), batch)
        # Room for what waits, what trainers hold, what one prediction finishes, and a batch that is not yet full: with
        # that much, whoever waits for room waits for a trainer that has work.
        kept = learn.reuse_window if learn.reuse > 1 else 0
        held = batches_per_launch(learn, self.training_queue.capacity, captures=where.type == "cuda") * batch + kept
        spare_blocks = self.training_queue.capacity + engine.trainers * held + batch + self.pool.max_agents
        self.store = ExperienceStore(spec, engine.agents, learn.rollout, spare_blocks, learn.discount, where)
        self.model = Model(nets.build(spec, config.net), learn, where)
        self.stats = Stats(spec.frames_per_step, config.progress, self._gauges)
        if traced:
            self.stats.trace = Tracer(config.run.profile)

        def lane(number: int, urgent: bool) -> device.Lane:
            return device.Lane(where, seed * 1000 + number, urgent, engine.fuse)

        self.predictors = [
            Predictor(
                n, self.pool, self._frames, self.training_queue, self.store, self.model, lane(n, urgent=True),
                self.stats,
            )
            for n in range(engine.predictors)
        ]  # fmt: skip
        self.trainers = [
            Trainer(
                n, self.training_queue, self.store, self.model, lane(500 + n, urgent=False), self.stats, learn,
                self._rates,
            )
            for n in range(engine.trainers)
        ]  # fmt: skip

    def resume(self, saved: Checkpoint, recent: Sequence[Episode]) -> None:
        """Goes on from a checkpoint; `recent` are the last episodes before it. Call before `run`."""
        self.model.load(saved.tensors, saved.counters.updates)
        self.stats.resume(saved.counters, recent, saved.best_score)

    def run(self, sinks: Sequence[Sink]) -> None:
        """Trains until a limit is reached, somebody asks it to stop, or it cannot go on (RunFailed)."""
        self._sinks = list(sinks)
        self._tell(f"Training {self.config.env_id} in {self._folder.path}.")
        with self._signals():  # to the end: what would interrupt the last checkpoint must wait for it
            try:
                self.pool.start()
                for thread in (*self.predictors, *self.trainers):
                    thread.start()
                self.stats.start_clock()
                self._save(self._record())  # a run can be resumed from its first moment on
                self._supervise()
            except OSError as error:
                self._failure = RunFailed(f"The run stopped because the system refused something it needs: {error}.")
            finally:
                self._shut_down()
            counters = self._save(self._record())
            self._write_trace()
        if self._failure is not None:
            raise self._failure
        self._tell(f"{self._reason} Checkpoint at {counters.steps:,} steps.")

    def stop(self, reason: str) -> None:
        """Asks the run to end; returns at once. It takes no lock, so a signal handler may call it at any moment."""
        self._reason = self._reason or reason
        self._stopping = True

    # -- supervision --------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        now = time.monotonic()
        next_record, next_checkpoint = now + _RECORD, now + self.config.run.checkpoint_seconds
        while not self._stopping:
            time.sleep(_TICK)
            self._care_for_agents()
            now = time.monotonic()
            if now >= next_record:
                next_record = now + _RECORD
                snapshot = self._record()
                if now >= next_checkpoint:
                    next_checkpoint = now + self.config.run.checkpoint_seconds
                    self._save(snapshot)
            if self.stats.failure:
                self._failure = RunFailed(self.stats.failure)
                self.stop("A thread failed.")
            elif self.stats.progress >= 1.0:
                self.stop("The run is complete.")

    def _care_for_agents(self) -> None:
        """Tells of agent processes that died or hang, and starts the dead anew unless that happened too often."""
        for failure in self.pool.find_failed():
            self._report(failure)
        if self._failure is not None:
            return
        for _ in range(self.pool.restart_failed()):
            self.stats.restarted()
        for worker in self.pool.find_silent(_SILENCE):
            self._tell(f"Agent process {worker} has not made a step for {_SILENCE:.0f} s; its environment may hang.")

    def _report(self, failure: Failure) -> None:
        self._failures += 1
        how = f"signal {-failure.exit_code}" if failure.exit_code < 0 else f"exit code {failure.exit_code}"
        allowed = self.config.engine.restarts
        if self._failures > allowed:
            last_words = f"\n{failure.last_words}" if failure.last_words else ""
            self._failure = RunFailed(
                f"Agent processes failed {self._failures} times, more than --restarts {allowed} allows; "
                f"the last was process {failure.worker} ({how}, log in {failure.log}).{last_words}"
            )
            self.stop("Agent processes failed too often.")
            return
        self._tell(f"Agent process {failure.worker} ended with {how}; it is started anew (failure {self._failures}).")
        if failure.last_words and not self._shown_traceback:
            self._shown_traceback = True
            self._tell(failure.last_words)

    def _shut_down(self) -> None:
        """Ends every thread and process. Closing the queues is what ends the threads."""
        if self.stats.trace is not None:
            self.stats.trace.close()
        self.pool.queue.close()
        self.training_queue.close()
        self.store.close()
        for thread in (*self.predictors, *self.trainers):
            if thread.ident is not None:  # it was started
                thread.join()
        self.pool.stop(_PATIENCE)
        self._frames.close()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and a closed terminal end the run in order; outside the main thread none are taken."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, _: object) -> None:
            self.stop(f"Stopped by {signal.Signals(number).name}.")

        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it on purpose
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- what is kept and shown ---------------------------------------------------------------------------------------

    def _record(self) -> Snapshot:
        snapshot, episodes = self.stats.snapshot()
        for sink in list(self._sinks):
            try:
                sink.write(snapshot, episodes)
            except OSError as error:
                self._drop(sink, error)
        return snapshot

    def _tell(self, text: str) -> None:
        for sink in list(self._sinks):
            try:
                sink.message(text)
            except OSError as error:
                self._drop(sink, error)

    def _drop(self, sink: Sink, error: OSError) -> None:
        """A terminal that is gone, or a full disk, is no reason to lose the training too."""
        self._sinks.remove(sink)
        self._tell(f"{type(sink).__name__} cannot be written any more ({error}) and is left out from now on.")

    def _save(self, snapshot: Snapshot) -> Counters:
        """Takes a checkpoint, and keeps it as the best too where it is. Its counters are those of the last record, so
        that the curves on disk go exactly as far as it does."""
        folder = self._folder.checkpoints
        counters, tensors = Counters.of(snapshot), self.model.state()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise RunFailed(
                "The weights are no longer finite, so nothing was saved; lower --learning-rate or set --clip-norm, and "
                f"go on from the last good checkpoint with `ga3c resume {self._folder.path}`."
            )
        saved = Checkpoint(tensors, counters, snapshot.score, snapshot.best_score)
        checkpoint.save(checkpoint.path_for(folder, counters.steps), saved)
        checkpoint.prune(folder, self.config.run.keep)
        # Before a full window of episodes there is no best score: a lucky first episode is not the best.
        if not math.isnan(snapshot.best_score) and snapshot.score > self._best_saved:
            checkpoint.save(checkpoint.best_path(folder), saved)
            self._best_saved = snapshot.score
        return counters

    def _write_trace(self) -> None:
        if self.stats.trace is None:
            return
        path = self._folder.trace
        try:
            seconds = self.stats.trace.write(path, self.pool.slots.rings)
        except OSError as error:
            self._tell(f"{path} could not be written ({error}).")
        else:
            self._tell(f"What everybody did in the last {seconds:.1f} s is in {path}: open it in ui.perfetto.dev.")

    def _rates(self) -> tuple[float, float]:
        learn, progress = self.config.learn, self.stats.progress
        return (
            linear(learn.learning_rate, learn.learning_rate_end, progress),
            linear(learn.entropy_weight, learn.entropy_weight_end, progress),
        )

    def _gauges(self) -> Gauges:
        engine, slots = self.config.engine, self.pool.slots
        return Gauges(
            prediction_queue=self.pool.queue.waiting(),
            training_queue=len(self.training_queue),
            agents=engine.agents,
            predictors=engine.predictors,
            trainers=engine.trainers,
            stepping_ns=int(slots.stepping_ns.sum()),
            waiting_ns=int(slots.waiting_ns.sum()),
        )


def default_workers(agents: int, where: torch.device) -> int:
    """One process per core, less one for the server's threads where a GPU does their work."""
    cores = device.num_cores()
    return max(1, min(agents, cores - 1 if where.type == "cuda" else cores))
