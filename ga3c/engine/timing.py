"""The time stamps of predictions and updates, and their way to the statistics, the account of time and the trace.

A stage calls one method after each step of its work; nothing else in it deals with time. All times are nanoseconds of
`time.monotonic_ns`.
"""

from collections.abc import Sequence
from time import monotonic_ns

from ga3c.agents.prediction_queue import Request
from ga3c.agents.slots import Slots
from ga3c.engine.lane import Lane
from ga3c.engine.rows import Index
from ga3c.metrics.account import OF_PREDICTORS, OF_TRAINERS, quick
from ga3c.metrics.stats import Ended, Stats
from ga3c.metrics.trace import Track


class PredictionTimes:
    """Times one prediction after the other, in the order of the methods below."""

    def __init__(self, track: Track, lane: Lane, stats: Stats, slots: Slots) -> None:
        self._track = track
        self._lane = lane
        self._stats = stats
        self._posted_ns = slots.posted_ns
        self._taken_ns, self._ready_ns = quick(slots.taken_ns), quick(slots.ready_ns)
        self._histograms = stats.account.histograms(OF_PREDICTORS) if stats.account is not None else None
        self._waited = self._blocked = self._agents_waited = 0
        self._begin = self._placed = self._launched = self._copied = self._done = self._ready = self._replied = 0

    def begin(self, waited: int) -> None:
        """The predictor has waited for requests and taken some."""
        self._waited = waited
        self._begin = monotonic_ns()

    def placed(self, blocked: int) -> None:
        """Each frame has its row. The predictor waited `blocked` nanoseconds of that for room in the store."""
        self._blocked = blocked
        self._placed = monotonic_ns()

    def launch(self) -> None:
        """The inputs are ready, and the device begins."""
        self._launched = monotonic_ns()
        if self._histograms is not None or self._stats.trace is not None:
            self._lane.begin()

    def copied(self) -> None:
        """The observations lie where the network reads them. In a captured graph this has no time of its own."""
        self._copied = monotonic_ns()

    def done(self) -> None:
        """The lane has finished: the actions are on the host."""
        self._done = monotonic_ns()

    def reply(self, requests: Sequence[Request], agents: Index) -> None:
        """The agents are about to be woken. Once they are, their next request overwrites the stamps of this one."""
        self._agents_waited = int((monotonic_ns() - self._posted_ns[agents]).sum())
        if self._histograms is not None:
            self._stamp(requests)

    def _stamp(self, requests: Sequence[Request]) -> None:
        """Leaves in the slots what agent processes need for their part of the account."""
        self._ready = self._done
        if self._lane.captures:
            # The device's own clock says when it was done: the time that this thread took to wake up is part of
            # returning the actions.
            self._ready = min(self._done, self._launched + self._lane.timed())
        for request in requests:
            number = request.group.number
            self._taken_ns[number], self._ready_ns[number] = self._begin + self._blocked, self._ready

    def replied(self) -> None:
        """The agents are awake."""
        self._replied = monotonic_ns()

    def end(self, agents: int, steps: int, ended: Sequence[Ended]) -> None:
        """The finished rollouts are in the training queue. Reports the prediction: its agents, the environment steps
        whose results it received, and the episodes that ended with them."""
        put = monotonic_ns() - self._replied
        taken = self._begin + self._blocked
        self._stats.predicted(
            agents=agents, steps=steps, ended=ended, agents_waited=self._agents_waited, waited=self._waited,
            blocked=self._blocked + put, preparing=self._launched - taken, predicting=self._done - self._launched,
            replying=self._replied - self._done,
        )  # fmt: skip
        if self._histograms is not None:
            batching, copying, on_device = self._histograms
            copied = self._launched if self._lane.captures else self._copied
            batching.add(self._placed - taken, agents)
            copying.add(copied - self._placed, agents)
            on_device.add(self._ready - copied, agents)
        if self._stats.trace is not None:
            self._trace(agents, taken, self._replied + put)

    def _trace(self, agents: int, taken: int, end: int) -> None:
        trace = self._stats.trace
        assert trace is not None
        # The store is searched for room first, so a wait for room is drawn at the beginning.
        trace.add(
            self._track, self._begin - self._waited,
            ("wait", self._begin), ("blocked", taken), ("prepare", self._launched), ("predict", self._done),
            ("reply", self._replied), ("blocked", end), agents=agents,
        )  # fmt: skip
        if (span := self._lane.span()) is not None:
            trace.add(Track("gpu", self._track.name), span[0], ("predict", span[1]), agents=agents)


class UpdateTimes:
    """Times one launch of updates after the other, in the order of the methods below."""

    def __init__(self, track: Track, lane: Lane, stats: Stats) -> None:
        self._track = track
        self._lane = lane
        self._stats = stats
        self._histograms = stats.account.histograms(OF_TRAINERS) if stats.account is not None else None
        self._waited = self._begin = self._busy = self._on_device = self._gather_begin = self._gathering = 0

    def begin(self, waited: int) -> None:
        """The trainer has waited for rollouts and taken some."""
        self._waited = waited
        self._gathering = 0
        self._begin = monotonic_ns()

    def launch(self) -> None:
        """The inputs are ready, and the device begins."""
        self._lane.begin()

    def gather(self) -> None:
        """Rollouts are about to be gathered. In a captured graph this has no time of its own."""
        self._gather_begin = monotonic_ns()

    def gathered(self) -> None:
        self._gathering += monotonic_ns() - self._gather_begin

    def done(self) -> None:
        """The lane has finished: the weights are changed."""
        self._on_device = self._lane.timed()

    def of_each(self, count: int) -> tuple[int, int, int]:
        """What each of `count` updates waited, took, and took on the device."""
        self._busy = monotonic_ns() - self._begin
        return self._waited // count, self._busy // count, self._on_device // count

    def end(self, count: int) -> None:
        """Adds `count` updates, which were reported, to the account and to the trace."""
        if (trace := self._stats.trace) is not None:
            begin, end = self._begin, self._begin + self._busy
            trace.add(self._track, begin - self._waited, ("wait", begin), ("update", end), updates=count)
            if (span := self._lane.span()) is not None:
                trace.add(Track("gpu", self._track.name), span[0], ("update", span[1]), updates=count)
        if self._histograms is not None:
            waiting, gathering, device, overhead = self._histograms
            spent = monotonic_ns() - self._begin  # the time that reporting took is overhead too
            waiting.add(self._waited // count, count)
            device.add((self._on_device - self._gathering) // count, count)
            overhead.add((spent - self._on_device) // count, count)
            if not self._lane.captures:
                gathering.add(self._gathering // count, count)
