"""Every setting of a run: frozen dataclasses, one line of help per field; `cli` turns them into flags."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from ga3c.errors import UserError


def _require(ok: bool, flag: str, value: object, wanted: str) -> None:
    if not ok:
        raise UserError(f"--{flag.replace('_', '-')} is {value}, but must be {wanted}.")


@dataclass(frozen=True)
class EnvConfig:
    """What is played, and how it is shown to the agent."""

    frame_skip: int = 4
    """Emulator frames for which an action is repeated (Atari)."""
    stack: int = 4
    """Successive frames that make one observation (pictures only)."""
    noop_max: int = 30
    """At most so many no-ops before an episode starts (Atari)."""
    sticky: float = 0.0
    """Probability that the emulator repeats the last action instead (Atari; 0.25 is today's ALE protocol)."""
    full_actions: bool = False
    """Offer all 18 joystick actions instead of the game's own set (Atari)."""
    clip_rewards: bool = True
    """Learn from the sign-limited reward in [-1, 1]; scores are always raw."""
    life_loss: bool = False
    """Learn from a lost life as if the episode had ended (Atari); scores are over whole episodes."""
    max_frames: int = 108_000
    """Emulator frames after which an episode is cut off (Atari; 108,000 are 30 minutes)."""

    def __post_init__(self) -> None:
        _require(1 <= self.frame_skip <= 60, "frame_skip", self.frame_skip, "between 1 and 60")
        _require(1 <= self.stack <= 16, "stack", self.stack, "between 1 and 16")
        _require(0 <= self.noop_max <= 1000, "noop_max", self.noop_max, "between 0 and 1000")
        _require(0.0 <= self.sticky < 1.0, "sticky", self.sticky, "at least 0 and less than 1")
        _require(self.max_frames >= self.frame_skip, "max_frames", self.max_frames, "at least --frame-skip")


Ui = Literal["auto", "live", "plain", "none"]
NamedNet = Literal["small", "large", "nature", "mlp", "small-lstm", "mlp-lstm"]
NetName = Literal["auto", NamedNet]
Precision = Literal["fp32", "tf32", "bf16"]
Pixels = Literal["unit", "signed", "contrast"]


@dataclass(frozen=True)
class NetConfig:
    """The network."""

    net: NetName = "auto"
    """small (A3C 2016), large (the GA3C paper's), nature (DQN 2015), mlp (vectors); small-lstm (A3C's FF+LSTM) and
    mlp-lstm remember with 256 cells; auto: by the observation, without memory."""
    stride: int = 4
    """Stride of the first layer of `large`: 4, 3, 2 or 1 (the paper's footnote 4)."""
    init: Literal["fan-in", "orthogonal"] = "fan-in"
    """How weights start: uniform in 1/sqrt(fan-in) (A3C and the 2016 code) or orthogonal."""
    precision: Precision = "tf32"
    """Of products inside the network: all 32 bits, a GPU's 19-bit tf32 (elsewhere 32 bits), or bfloat16."""
    pixels: Pixels = "unit"
    """What a pixel's byte becomes: a number from 0 to 1 (unit), from -1 to 1 as in the 2016 code (signed), or as signed
    but 0 for the game's background (contrast)."""

    def __post_init__(self) -> None:
        _require(self.stride in (1, 2, 3, 4), "stride", self.stride, "4, 3, 2 or 1")


Correction = Literal["none", "epsilon", "clipped-is", "vtrace"]


@dataclass(frozen=True)
class LearnConfig:
    """The loss and the optimiser."""

    discount: float = 0.99
    """Discount of a reward one step later."""
    rollout: int = 5
    """Agent steps in a rollout (the paper's TMAX)."""
    batch_rollouts: int = 1
    """Rollouts in one update."""
    correction: Correction = "epsilon"
    """Against policy lag: none, the 2016 code's clamp of the log, clipped importance weights of the policy's gradient
    alone, or V-trace, which corrects the values' targets too."""
    log_epsilon: float = 1e-6
    """Probabilities are kept above this inside a logarithm (correction `epsilon`)."""
    rho_clip: float = 1.0
    """V-trace and clipped-is: ceiling of the importance weight of a step's own error."""
    c_clip: float = 1.0
    """V-trace: ceiling of the importance weight that carries errors back."""
    trace_decay: float = 1.0
    """Lambda, by which an error counts less with every step it is carried back (1: n-step returns)."""
    ratio_clip: float = 0.0
    """Steps whose action has become likelier or unlikelier by more than this share teach no more (PPO; 0: off)."""
    normalise_advantages: bool = False
    """Bring the advantages of a batch to mean 0 and deviation 1."""
    reuse: int = 1
    """Updates per batch of new rollouts: one from it, the others from rollouts drawn from --reuse-window."""
    reuse_window: int = 64
    """How many of its last rollouts a trainer keeps to draw from (with --reuse above 1)."""
    reduction: Literal["sum", "mean"] = "sum"
    """Losses are summed over a batch's steps (the paper) or averaged."""
    value_weight: float = 0.5
    """Weight of the squared value error."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus at the start (the paper's beta)."""
    entropy_weight_end: float = 0.01
    """Weight of the entropy bonus at the end of the run, reached linearly."""
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    """RMSProp in TensorFlow's form with statistics shared by all trainers, or Adam."""
    learning_rate: float = 3e-4
    """Learning rate at the start."""
    learning_rate_end: float = 3e-4
    """Learning rate at the end of the run, reached linearly."""
    rmsprop_decay: float = 0.99
    """Decay of RMSProp's mean square."""
    optimiser_epsilon: float = 0.1
    """Keeps the optimiser's division finite: inside the root for RMSProp, outside for Adam."""
    clip_norm: float = 0.0
    """Gradients are scaled down to this global norm (0: never)."""

    def __post_init__(self) -> None:
        _require(0.0 <= self.discount <= 1.0, "discount", self.discount, "between 0 and 1")
        _require(1 <= self.rollout <= 1024, "rollout", self.rollout, "between 1 and 1024")
        _require(1 <= self.batch_rollouts <= 4096, "batch_rollouts", self.batch_rollouts, "between 1 and 4096")
        _require(0.0 < self.log_epsilon < 0.1, "log_epsilon", self.log_epsilon, "above 0 and below 0.1")
        _require(0.0 <= self.trace_decay <= 1.0, "trace_decay", self.trace_decay, "between 0 and 1")
        _require(0.0 <= self.ratio_clip < 1.0, "ratio_clip", self.ratio_clip, "at least 0 and less than 1")
        _require(1 <= self.reuse <= 64, "reuse", self.reuse, "between 1 and 64")
        _require(1 <= self.reuse_window <= 65_536, "reuse_window", self.reuse_window, "between 1 and 65536")
        batch = self.batch_rollouts
        enough = self.reuse == 1 or self.reuse_window >= batch
        _require(enough, "reuse_window", self.reuse_window, f"at least --batch-rollouts, which is {batch}")
        for name in ("rho_clip", "c_clip", "learning_rate", "optimiser_epsilon"):
            value = getattr(self, name)
            _require(0.0 < value < math.inf, name, value, "above 0")
        for name in ("value_weight", "entropy_weight", "entropy_weight_end", "learning_rate_end", "clip_norm"):
            value = getattr(self, name)
            _require(0.0 <= value < math.inf, name, value, "0 or more")
        _require(0.0 <= self.rmsprop_decay < 1.0, "rmsprop_decay", self.rmsprop_decay, "at least 0 and less than 1")


DeviceName = Literal["auto", "cpu", "cuda"]
SystemName = Literal["ga3c", "a3c-cpu", "a3c-threads", "a3c-gpu-pull", "a3c-gpu-local", "a3c-gpu-shared"]
GPU_SYSTEMS: tuple[SystemName, ...] = ("a3c-gpu-pull", "a3c-gpu-local", "a3c-gpu-shared")
"""Those that keep every agent's model on a CUDA device."""
TuneName = Literal["off", "on", "paper"]


@dataclass(frozen=True)
class EngineConfig:
    """Agents, predictors, trainers and the queues between them."""

    system: SystemName = "ga3c"
    """ga3c: one model serves all agents. a3c-cpu: every agent is a process with a model of its own, around weights they
    share without locks. a3c-threads: the same in threads of one process. a3c-gpu-pull: models on the GPU, weights and
    statistics fetched from the host for each update. a3c-gpu-local: models on the GPU, gradients applied on the host.
    a3c-gpu-shared: the shared weights on the GPU too."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    agents: int = 32
    """Agents that play at once (the paper's N_A)."""
    workers: int = 0
    """Processes that share the agents among them (0: as many as the cores serve best)."""
    predictors: int = 2
    """Predictor threads (N_P)."""
    trainers: int = 2
    """Trainer threads (N_T)."""
    prediction_batch: int = 128
    """Most agents in one prediction."""
    queue: int = 100
    """Most rollouts that wait for training; agents are held back when it is full."""
    delay: int = 0
    """Let rollouts wait for so many updates before they are learned from, to study policy lag (0: none)."""
    fuse: bool = False
    """On CUDA, compile an update's many small operations into few: more updates a second after a longer start."""
    torch_threads: int = 0
    """Threads inside one torch operation on the CPU (0: chosen by the machine)."""
    account: bool = True
    """Keep the account of time: how long each part of a step and of an update takes (p50, p95, p99)."""
    restarts: int = 10
    """Agent processes may fail so many times before the run stops."""
    tune: TuneName = "off"
    """While it trains, look for the numbers of agents, predictors and trainers with the most updates per second. on, or
    --tune alone: by comparing settings until noise allows a verdict. paper: every minute, N_P and N_T by +-1, kept if
    TPS rose. off: all as they are, which is also what naming one of the numbers, or --delay, means unless --tune is
    given."""
    max_agents: int = 0
    """With --tune on, the most agents that may come to play: the others pause (0: as many as the preset has)."""
    tune_seconds: float = 0.0
    """Seconds for which --tune measures a setting (0: 15, or 60 with paper)."""
    lag_limit: float = 0.0
    """Most updates of policy lag, in the mean, that --tune on lets a setting have (0: a quarter more than at first, for
    as many agents as there may be)."""

    def __post_init__(self) -> None:
        _require(1 <= self.agents <= 65_536, "agents", self.agents, "between 1 and 65536")
        _require(0 <= self.max_agents <= 65_536, "max_agents", self.max_agents, "between 0 and 65536")
        _require(0 <= self.workers <= 4096, "workers", self.workers, "between 0 and 4096")
        _require(1 <= self.predictors <= 64, "predictors", self.predictors, "between 1 and 64")
        _require(1 <= self.trainers <= 64, "trainers", self.trainers, "between 1 and 64")
        _require(1 <= self.prediction_batch <= 65_536, "prediction_batch", self.prediction_batch, "between 1 and 65536")
        _require(1 <= self.queue <= 1_000_000, "queue", self.queue, "between 1 and 1000000")
        _require(0 <= self.delay <= 100_000, "delay", self.delay, "between 0 and 100000")
        _require(0 <= self.torch_threads <= 1024, "torch_threads", self.torch_threads, "between 0 and 1024")
        _require(self.restarts >= 0, "restarts", self.restarts, "0 or more")
        _require(0 <= self.tune_seconds <= 3600, "tune_seconds", self.tune_seconds, "between 0 and 3600")
        _require(0 <= self.lag_limit < math.inf, "lag_limit", self.lag_limit, "0 or more")

    @property
    def room(self) -> int:
        """Agents for which processes and memory are there, whether they play or pause."""
        return max(self.agents, self.max_agents)


@dataclass(frozen=True)
class RunConfig:
    """How long, from which seed, and what is kept."""

    steps: int = 0
    """Stop after so many agent steps (0: no limit by steps)."""
    minutes: float = 0.0
    """Stop after so many minutes of training (0: no limit by time)."""
    seed: int = 1
    """Seeds the weights, the environments and the sampling of actions."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    keep: int = 3
    """How many of the last checkpoints stay, besides the best."""
    profile: float = 0.0
    """Write trace.json with what agents, predictors, trainers and GPU did in the last so many seconds (open it in
    ui.perfetto.dev; 0: off)."""

    def __post_init__(self) -> None:
        _require(self.steps >= 0, "steps", self.steps, "0 or more")
        _require(0 <= self.minutes < math.inf, "minutes", self.minutes, "0 or more")
        _require(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")
        _require(0 < self.checkpoint_seconds < math.inf, "checkpoint_seconds", self.checkpoint_seconds, "above 0")
        _require(self.keep >= 1, "keep", self.keep, "1 or more")
        _require(0 <= self.profile <= 60, "profile", self.profile, "between 0 and 60")


@dataclass(frozen=True)
class Config:
    """Everything that decides a run; it is what `config.toml` in the run's folder holds."""

    env_id: str = "ALE/Pong-v5"
    preset: Literal["fast", "paper"] = "fast"
    env: EnvConfig = field(default_factory=EnvConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        workers, agents = self.engine.workers, self.engine.room
        _require(workers <= agents, "workers", workers, f"at most the number of agents, which is {agents}")
        learn = self.learn
        corrected = learn.reuse == 1 or learn.correction == "vtrace" or learn.ratio_clip > 0.0
        _require(corrected, "reuse", learn.reuse, "1 without --correction vtrace or --ratio-clip, which bound its age")
        if self.engine.system != "ga3c":
            self._check_a3c()
        self._check_room()

    def _check_room(self) -> None:
        """Not a check of the engine alone: flags are read over other defaults first, which may have more agents."""
        agents, most, tunes = self.engine.agents, self.engine.max_agents, self.engine.tune == "on"
        wanted = f"at least --agents, which is {agents}" if tunes else "left out without --tune on"
        _require(most in (0, agents) or (most > agents and tunes), "max_agents", most, wanted)

    def _check_a3c(self) -> None:
        """Refuses what an A3C system would not heed: there, an agent predicts and learns by itself, in its place."""
        engine, learn, system = self.engine, self.learn, self.engine.system
        if system != "a3c-threads":
            only = "cuda" if system in GPU_SYSTEMS else "cpu"
            _require(engine.device == only, "device", engine.device, f"{only} with --system {system}")
        _require(engine.agents <= 512, "agents", engine.agents, f"at most 512 with --system {system}")
        unused = (
            "tune", "max_agents", "workers", "predictors", "trainers", "prediction_batch", "queue", "fuse",
            "tune_seconds", "lag_limit", "delay",
        )  # fmt: skip
        for name in unused:
            value, default = getattr(engine, name), getattr(EngineConfig, name)
            _require(value == default, name, value, f"left out: --system {system} has no use for it")
        if not engine.account:
            raise UserError(f"--no-account must be left out: --system {system} keeps no account.")
        for name in ("batch_rollouts", "reuse"):
            value = getattr(learn, name)
            _require(value == 1, name, value, f"1 with --system {system}, where each rollout makes one update")

    def progress(self, steps: int, seconds: float) -> float:
        """How much of the run is over, 0 to 1, by whichever limit is nearer; the schedules follow it."""
        by_steps = steps / self.run.steps if self.run.steps else 0.0
        by_time = seconds / (60.0 * self.run.minutes) if self.run.minutes else 0.0
        return min(1.0, max(by_steps, by_time))


def to_toml(config: Config) -> str:
    """The config as TOML: plain values first, then a table per section."""
    head, tables = [], []
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            rows = [f"{f.name} = {_toml_value(getattr(value, f.name))}" for f in dataclasses.fields(value)]
            tables.append("\n".join([f"[{item.name}]", *rows]))
        else:
            head.append(f"{item.name} = {_toml_value(value)}")
    return "\n\n".join(["\n".join(head), *tables]) + "\n"


def from_toml(tables: dict[str, Any]) -> Config:
    """The inverse of `to_toml`, for what `tomllib` parsed. Unknown names are an error, missing ones take defaults."""
    config: Config = _build(Config, tables)
    return config


def _build(cls: type, values: dict[str, Any]) -> Any:
    known = {f.name: f for f in dataclasses.fields(cls)}
    for name in values:
        if name not in known:
            raise UserError(f"config.toml holds {name!r}, which this version of ga3c does not know.")
    parts: dict[str, Any] = {}
    for name, value in values.items():
        kind = known[name].type
        if get_origin(kind) is Literal:
            choices = get_args(kind)
            _require(value in choices, name, value, f"one of {', '.join(choices)}")
        elif kind is int:
            _require(type(value) is int, name, value, "a whole number")
        parts[name] = _build(kind, value) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else value
    return cls(**parts)


def _toml_value(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
