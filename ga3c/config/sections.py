"""Every setting of a run: frozen dataclasses with one line of help per field. Each field is a flag of the command line
and an argument of `ga3c.train`, by the same name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ga3c.errors import UserError


def require(ok: bool, flag: str, value: object, wanted: str) -> None:
    if not ok:
        raise UserError(f"--{flag.replace('_', '-')} is {value}, but must be {wanted}.")


ActionBounds = Literal["clip", "tanh"]


@dataclass(frozen=True)
class EnvConfig:
    """The environment, and how the agent sees it."""

    frame_skip: int = 4
    """Emulator frames per agent step: the action is repeated on each (Atari)."""
    stack: int = 4
    """Successive frames in one observation (pictures only)."""
    noop_max: int = 30
    """Most no-op actions before an episode starts; the number is drawn at random (Atari)."""
    sticky: float = 0.0
    """Probability that the emulator repeats the last action instead (Atari; today's ALE protocol has 0.25)."""
    full_actions: bool = False
    """Offer all 18 joystick actions instead of the game's own set (Atari)."""
    clip_rewards: bool = True
    """Clip the rewards that are learned from to [-1, 1]; scores are always raw."""
    life_loss: bool = False
    """Treat a lost life as the end of an episode in learning (Atari); scores are over whole episodes."""
    max_frames: int = 108_000
    """Emulator frames after which an episode is truncated (Atari; 108,000 are 30 minutes)."""
    action_bounds: ActionBounds = "clip"
    """How continuous actions get into their bounds: clipped on the way to the environment (clip), or drawn from a
    Gaussian that tanh squashes (tanh)."""
    wrap: tuple[str, ...] = ()
    """Wrappers around each environment, the innermost first: MODULE:NAME of a gymnasium.Wrapper class or of a function
    from environment to environment, with arguments as in "gymnasium.wrappers:TimeLimit(max_episode_steps=500)"."""
    action_masks: Literal["auto", "off"] = "auto"
    """Choose only among the actions that the environment's `info["action_mask"]` allows, where it has one (auto), or
    among all (off)."""

    def __post_init__(self) -> None:
        require(1 <= self.frame_skip <= 60, "frame_skip", self.frame_skip, "between 1 and 60")
        require(1 <= self.stack <= 16, "stack", self.stack, "between 1 and 16")
        require(0 <= self.noop_max <= 1000, "noop_max", self.noop_max, "between 0 and 1000")
        require(0.0 <= self.sticky < 1.0, "sticky", self.sticky, "at least 0 and less than 1")
        require(self.max_frames >= self.frame_skip, "max_frames", self.max_frames, "at least --frame-skip")


PresetName = Literal["fast", "paper"]
Ui = Literal["auto", "live", "plain", "none"]
NamedNet = Literal["small", "large", "nature", "impala", "tiny", "mlp", "small-lstm", "tiny-lstm", "mlp-lstm"]
OwnNet = str
"""MODULE:NAME of a module class, or of a function that makes a module; with -lstm behind it for an LSTM."""
NetName = Literal["auto", NamedNet] | OwnNet
Precision = Literal["fp32", "tf32", "bf16"]
Pixels = Literal["unit", "signed", "contrast"]


KNOWN_NETS = ("auto", *get_args(NamedNet))
A_NET = f"one of {', '.join(KNOWN_NETS)}, or MODULE:NAME of a network of your own"


def is_own(net: NetName) -> bool:
    """Whether a network is a user's own."""
    module, _, name = net.removesuffix("-lstm").rpartition(":")
    return all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


@dataclass(frozen=True)
class NetConfig:
    """The network."""

    net: NetName = "auto"
    """small (A3C 2016), large (the GA3C paper's), nature (DQN 2015), impala (IMPALA's residual network), tiny (pictures
    below 36 x 36), mlp (vectors); small-lstm (A3C's FF+LSTM), tiny-lstm and mlp-lstm add an LSTM of 256 cells; auto:
    chosen by the observation, without an LSTM. It names the torso of pictures; numbers beside pictures go to an MLP.
    MODULE:NAME is a network of your own, a torch.nn.Module, and MODULE:NAME-lstm the same with the LSTM."""
    stride: int = 4
    """Stride of the first layer of `large`: 4, 3, 2 or 1 (the paper's footnote 4)."""
    init: Literal["fan-in", "orthogonal"] = "fan-in"
    """Initial weights: uniform within 1/sqrt(fan-in) (A3C and the 2016 code), or orthogonal."""
    precision: Precision = "tf32"
    """Precision of the network's matrix products: float32, tf32 (CUDA only, float32 elsewhere), or bfloat16."""
    pixels: Pixels = "unit"
    """How bytes of pictures are scaled: 0 to 1 (unit), -1 to 1 as in the 2016 code (signed), or relative to the game's
    background colour, which becomes 0 (contrast)."""
    width: int = 1
    """Factor for the channels of impala, which are 16, 32 and 32 at width 1."""
    layer_norm: bool = False
    """Normalise what enters and leaves the fully-connected layer of impala (Ba et al. 2016)."""
    separate_value: bool = False
    """Give the value a torso of its own, so that its error does not shape the features of the policy."""
    normalise_observations: bool = False
    """Normalise observed floats by their running mean and standard deviation, clipped to [-10, 10]. Bytes, one-hot
    numbers and pictures stay as they are."""

    def __post_init__(self) -> None:
        require(self.net in KNOWN_NETS or is_own(self.net), "net", self.net, A_NET)
        require(self.stride in (1, 2, 3, 4), "stride", self.stride, "4, 3, 2 or 1")
        require(1 <= self.width <= 16, "width", self.width, "between 1 and 16")
        require(self.width == 1 or self.net == "impala", "width", self.width, "1 unless --net is impala")
        if self.layer_norm and self.net != "impala":
            raise UserError(f"--layer-norm is only for --net impala, and --net is {self.net}; leave it out.")
        if self.separate_value and self.net.endswith("-lstm"):
            raise UserError(
                f"--separate-value must be left out with --net {self.net}, whose value needs the policy's LSTM."
            )


Correction = Literal["none", "epsilon", "clipped-is", "vtrace"]


@dataclass(frozen=True)
class LearnConfig:
    """The loss and the optimiser."""

    discount: float = 0.99
    """Discount factor per agent step."""
    rollout: int = 5
    """Agent steps in a rollout (the paper's TMAX)."""
    batch_rollouts: int = 1
    """Rollouts in one update."""
    correction: Correction = "epsilon"
    """Correction for policy lag: none; epsilon, the 2016 code's lower bound on probabilities; clipped-is, clipped
    importance weights on the policy gradient; vtrace, which also corrects the value targets."""
    log_epsilon: float = 1e-6
    """Lower bound on probabilities inside a logarithm (correction epsilon)."""
    rho_clip: float = 1.0
    """Clip of the importance weight of a step's own error (corrections vtrace and clipped-is)."""
    c_clip: float = 1.0
    """Clip of the importance weights that carry errors back in time (correction vtrace)."""
    trace_decay: float = 1.0
    """Lambda of the lambda-return, as in GAE (1: n-step returns)."""
    ratio_clip: float = 0.0
    """PPO's clip range for the ratio of the new to the acting policy (0: no clipping)."""
    normalise_advantages: bool = False
    """Normalise the advantages of a batch to mean 0 and standard deviation 1."""
    scale_returns: bool = False
    """Learn values in units of the running mean and standard deviation of their targets (PopArt), so that learning does
    not depend on the scale of rewards."""
    reuse: int = 1
    """Updates per batch of new rollouts: the first uses that batch, the others draw from the reuse window."""
    reuse_window: int = 64
    """Recent rollouts that a trainer keeps and draws from when rollouts are reused."""
    reduction: Literal["sum", "mean"] = "sum"
    """Sum the loss over the steps of a batch (the paper), or average it."""
    value_weight: float = 0.5
    """Weight of the squared value error."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus at the start (the paper's beta)."""
    entropy_weight_end: float = 0.01
    """Weight of the entropy bonus at the end of the run; it changes linearly."""
    explore_after: int = 0
    """Agent steps without a reward after which an agent explores, until it has a reward: at random it repeats a random
    action for 1 to 128 steps (0: never)."""
    explore_rate: float = 0.1
    """Probability of each step that an agent which explores begins to repeat an action."""
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    """RMSProp (TensorFlow's form) or Adam; all trainers share its statistics."""
    learning_rate: float = 3e-4
    """Learning rate at the start."""
    learning_rate_end: float = 3e-4
    """Learning rate at the end of the run; it changes linearly."""
    rmsprop_decay: float = 0.99
    """Decay of RMSProp's mean of squared gradients."""
    optimiser_epsilon: float = 0.1
    """Epsilon in the optimiser's denominator: inside the root for RMSProp, outside for Adam."""
    clip_norm: float = 0.0
    """Clip gradients to this global norm (0: no clipping)."""

    def __post_init__(self) -> None:
        require(0.0 <= self.discount <= 1.0, "discount", self.discount, "between 0 and 1")
        require(1 <= self.rollout <= 1024, "rollout", self.rollout, "between 1 and 1024")
        require(1 <= self.batch_rollouts <= 4096, "batch_rollouts", self.batch_rollouts, "between 1 and 4096")
        require(0.0 < self.log_epsilon < 0.1, "log_epsilon", self.log_epsilon, "above 0 and below 0.1")
        require(0.0 <= self.trace_decay <= 1.0, "trace_decay", self.trace_decay, "between 0 and 1")
        require(0.0 <= self.ratio_clip < 1.0, "ratio_clip", self.ratio_clip, "at least 0 and less than 1")
        require(0 <= self.explore_after <= 2**31, "explore_after", self.explore_after, "between 0 and 2147483648")
        require(0.0 < self.explore_rate < 1.0, "explore_rate", self.explore_rate, "above 0 and below 1")
        require(1 <= self.reuse <= 64, "reuse", self.reuse, "between 1 and 64")
        require(1 <= self.reuse_window <= 65_536, "reuse_window", self.reuse_window, "between 1 and 65536")
        batch = self.batch_rollouts
        enough = self.reuse == 1 or self.reuse_window >= batch
        require(enough, "reuse_window", self.reuse_window, f"at least --batch-rollouts, which is {batch}")
        for name in ("rho_clip", "c_clip", "learning_rate", "optimiser_epsilon"):
            value = getattr(self, name)
            require(0.0 < value < math.inf, name, value, "above 0")
        for name in ("value_weight", "entropy_weight", "entropy_weight_end", "learning_rate_end", "clip_norm"):
            value = getattr(self, name)
            require(0.0 <= value < math.inf, name, value, "0 or more")
        require(0.0 <= self.rmsprop_decay < 1.0, "rmsprop_decay", self.rmsprop_decay, "at least 0 and less than 1")


DeviceName = Literal["auto", "cpu", "cuda"]
SystemName = Literal["ga3c", "a3c-cpu", "a3c-threads", "a3c-gpu-pull", "a3c-gpu-local", "a3c-gpu-shared"]
GPU_SYSTEMS: tuple[SystemName, ...] = ("a3c-gpu-pull", "a3c-gpu-local", "a3c-gpu-shared")
"""Those that keep every agent's model on a CUDA device."""
TuneName = Literal["off", "on", "paper"]


@dataclass(frozen=True)
class EngineConfig:
    """Agents, predictors, trainers and the queues between them."""

    system: SystemName = "ga3c"
    """ga3c: one model serves all agents. The others are A3C, where every agent has its own copy of shared weights.
    a3c-cpu: agents are processes on the CPU. a3c-threads: agents are threads of one process. a3c-gpu-pull: copies on
    the GPU, weights and statistics fetched from the host for each update. a3c-gpu-local: copies on the GPU, gradients
    applied on the host. a3c-gpu-shared: the shared weights are on the GPU too."""
    device: DeviceName = "auto"
    """Device of the model; auto: CUDA where available, else the CPU."""
    agents: int = 32
    """Agents that play at the same time (the paper's N_A)."""
    workers: int = 0
    """Agent processes; the agents are divided among them (0: by the number of cores)."""
    predictors: int = 2
    """Predictor threads (N_P)."""
    trainers: int = 2
    """Trainer threads (N_T)."""
    prediction_batch: int = 128
    """Most agents in one prediction."""
    queue: int = 100
    """Capacity of the training queue in rollouts; agents are held back while it is full."""
    delay: int = 0
    """Updates by which training on each rollout is delayed, to study policy lag (0: none)."""
    fuse: bool = False
    """Compile the update with torch.compile (CUDA): more updates per second, a longer start."""
    torch_threads: int = 0
    """Threads of one torch operation on the CPU (0: by the number of cores)."""
    deterministic: bool = False
    """Make runs with the same settings equal bit by bit on the same machine: the CPU computes, and predictions and
    updates take turns. It needs a limit in --steps, and can be slower."""
    account: bool = True
    """Measure how long each part of a step and of an update takes (mean, p50, p95, p99)."""
    restarts: int = 10
    """Failures of agent processes within ten minutes after which the run stops."""
    step_timeout: float = 60.0
    """Seconds that one step of an environment may take before its process is killed and replaced (0: any time)."""
    tune: TuneName = "off"
    """Search for the numbers of agents, predictors and trainers with the most updates per second, while training. on:
    settings are compared until the difference exceeds the noise. paper: every minute N_P, N_T or both change by 1,
    and the change is kept if TPS rose. off: the numbers stay. Choosing --agents, --predictors, --trainers or --delay
    turns tuning off unless --tune is given too."""
    max_agents: int = 0
    """Most agents that tuning may use; memory is reserved for them (0: the preset's number)."""
    tune_seconds: float = 0.0
    """Seconds for which tuning measures a setting (0: 15, or 60 with --tune paper)."""
    lag_limit: float = 0.0
    """Highest mean policy lag, in updates, that tuning accepts (0: 1.25 times the lag of the first window plus
    one, in proportion to the agents)."""

    def __post_init__(self) -> None:
        require(1 <= self.agents <= 65_536, "agents", self.agents, "between 1 and 65536")
        require(0 <= self.max_agents <= 65_536, "max_agents", self.max_agents, "between 0 and 65536")
        require(0 <= self.workers <= 4096, "workers", self.workers, "between 0 and 4096")
        require(1 <= self.predictors <= 64, "predictors", self.predictors, "between 1 and 64")
        require(1 <= self.trainers <= 64, "trainers", self.trainers, "between 1 and 64")
        require(1 <= self.prediction_batch <= 65_536, "prediction_batch", self.prediction_batch, "between 1 and 65536")
        require(1 <= self.queue <= 1_000_000, "queue", self.queue, "between 1 and 1000000")
        require(0 <= self.delay <= 100_000, "delay", self.delay, "between 0 and 100000")
        require(0 <= self.torch_threads <= 1024, "torch_threads", self.torch_threads, "between 0 and 1024")
        require(self.restarts >= 0, "restarts", self.restarts, "0 or more")
        require(0 <= self.step_timeout < math.inf, "step_timeout", self.step_timeout, "0 or more")
        require(0 <= self.tune_seconds <= 3600, "tune_seconds", self.tune_seconds, "between 0 and 3600")
        require(0 <= self.lag_limit < math.inf, "lag_limit", self.lag_limit, "0 or more")

    @property
    def room(self) -> int:
        """Agents that processes and memory are reserved for, playing or paused."""
        return max(self.agents, self.max_agents)


DETERMINISTIC: Mapping[str, Any] = {
    "system": "ga3c", "device": "cpu", "predictors": 1, "trainers": 1, "tune": "off", "torch_threads": 1, "restarts": 0,
}  # fmt: skip
"""What --deterministic needs of other settings of the engine, by name. A restarted agent process plays other games than
the one that failed, so there are no restarts."""


GalleryName = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class RunConfig:
    """The length of the run, its seed, and what is recorded."""

    steps: int = 0
    """Stop after this number of agent steps (0: no limit)."""
    minutes: float = 0.0
    """Stop after this number of minutes of training (0: no limit)."""
    seed: int = 1
    """Seed of the weights, the environments and the sampling of actions."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    keep: int = 3
    """Checkpoints to keep, besides the best one."""
    gallery: GalleryName = "auto"
    """Let agents draw what they play while somebody looks in the control room. auto: where this costs nothing until
    then: Atari games, environments with pictures, and those of Gymnasium that draw with pygame. on: make other
    environments with render_mode="rgb_array" for it too, which may slow them down at any time. off: never."""
    profile: float = 0.0
    """Record what agents, predictors, trainers and the GPU did in the last seconds of the run, as trace.json for
    ui.perfetto.dev (0: off)."""
    log: str = "csv,tensorboard"
    """Where metrics are recorded, separated by commas: csv, tensorboard, wandb, mlflow."""

    def __post_init__(self) -> None:
        require(self.steps >= 0, "steps", self.steps, "0 or more")
        require(0 <= self.minutes < math.inf, "minutes", self.minutes, "0 or more")
        require(0 <= self.seed < 2**31, "seed", self.seed, "between 0 and 2147483647")
        require(0 < self.checkpoint_seconds < math.inf, "checkpoint_seconds", self.checkpoint_seconds, "above 0")
        require(self.keep >= 1, "keep", self.keep, "1 or more")
        require(0 <= self.profile <= 60, "profile", self.profile, "between 0 and 60")


@dataclass(frozen=True)
class Config:
    """All settings of a run, as `config.toml` in the run's folder holds them."""

    env_id: str = "ALE/Pong-v5"
    """A Gymnasium id, MODULE:ID, or MODULE:NAME of an environment class or factory."""
    preset: PresetName = "fast"
    env: EnvConfig = field(default_factory=EnvConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    run: RunConfig = field(default_factory=RunConfig)
    env_args: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keyword arguments for `gymnasium.make`, or for the class or factory."""

    def __post_init__(self) -> None:
        workers, agents = self.engine.workers, self.engine.room
        require(workers <= agents, "workers", workers, f"at most the number of agents, which is {agents}")
        learn = self.learn
        corrected = learn.reuse == 1 or learn.correction == "vtrace" or learn.ratio_clip > 0.0
        require(corrected, "reuse", learn.reuse, "1 without --correction vtrace or --ratio-clip, which bound its age")
        corrected = learn.explore_after == 0 or learn.correction in ("clipped-is", "vtrace")
        wanted = "0 without --correction vtrace or clipped-is, which correct for exploration"
        require(corrected, "explore_after", learn.explore_after, wanted)
        if self.engine.deterministic:
            self._check_deterministic()
        if self.engine.system != "ga3c":
            self._check_a3c()
        self._check_room()

    def _check_deterministic(self) -> None:
        """Refuses settings with which a run would depend on the speed of its threads and processes."""
        engine, run = self.engine, self.run
        for name, wanted in DETERMINISTIC.items():
            value = getattr(engine, name)
            require(value == wanted, name, value, f"{wanted} with --deterministic")
        batch, agents = engine.prediction_batch, engine.agents
        wanted = f"at least --agents, which is {agents}, with --deterministic"
        require(batch >= agents, "prediction_batch", batch, wanted)
        require(
            run.minutes == 0.0, "minutes", f"{run.minutes:g}", "left out with --deterministic: give --steps instead"
        )
        require(run.steps > 0, "steps", run.steps, "above 0 with --deterministic")

    def _check_room(self) -> None:
        """Not a check of `EngineConfig`, which the command line first reads over defaults with more agents."""
        agents, most, tunes = self.engine.agents, self.engine.max_agents, self.engine.tune == "on"
        wanted = f"at least --agents, which is {agents}" if tunes else "left out without --tune on"
        require(most in (0, agents) or (most > agents and tunes), "max_agents", most, wanted)

    def _check_a3c(self) -> None:
        """Refuses settings that an A3C system ignores: there, every agent predicts and learns by itself."""
        engine, learn, system = self.engine, self.learn, self.engine.system
        if system != "a3c-threads":
            only = "cuda" if system in GPU_SYSTEMS else "cpu"
            require(engine.device == only, "device", engine.device, f"{only} with --system {system}")
        require(engine.agents <= 512, "agents", engine.agents, f"at most 512 with --system {system}")
        unused = (
            "tune", "max_agents", "workers", "predictors", "trainers", "prediction_batch", "queue", "fuse",
            "tune_seconds", "lag_limit", "delay",
        )  # fmt: skip
        for name in unused:
            value, default = getattr(engine, name), getattr(EngineConfig, name)
            require(value == default, name, value, f"left out: --system {system} has no use for it")
        if not engine.account:
            raise UserError(f"--no-account must be left out: --system {system} keeps no account.")
        after = learn.explore_after
        require(after == 0, "explore_after", after, f"0 with --system {system}, whose agents do not explore so")
        for name in ("batch_rollouts", "reuse"):
            value = getattr(learn, name)
            require(value == 1, name, value, f"1 with --system {system}, where each rollout makes one update")

    def progress(self, steps: int, seconds: float) -> float:
        """The share of the run that is over, 0 to 1, by the limit that is nearer. The schedules follow it."""
        by_steps = steps / self.run.steps if self.run.steps else 0.0
        by_time = seconds / (60.0 * self.run.minutes) if self.run.minutes else 0.0
        return min(1.0, max(by_steps, by_time))
