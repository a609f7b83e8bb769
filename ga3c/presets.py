"""Two sets of settings: `paper`, as the GA3C paper and its 2016 code had them, and `fast`, what learns fastest here."""

import dataclasses

from ga3c import machine
from ga3c.config import (
    GPU_SYSTEMS,
    Config,
    DeviceName,
    EngineConfig,
    EnvConfig,
    LearnConfig,
    NetConfig,
    NetName,
    Precision,
    PresetName,
    RunConfig,
    SystemName,
)
from ga3c.envs.spec import EnvSpec


def base(preset: PresetName, spec: EnvSpec, on_cuda: bool, net: NetName = "auto") -> Config:
    """The default settings for an environment, a device and a network."""
    if preset == "paper":
        return paper(spec)
    if not spec.is_picture:
        return fast_control(spec, net) if spec.action.kind == "box" else fast_vectors(spec, net)
    config = fast_pictures(spec, on_cuda)
    return for_recurrent(config) if net.endswith("-lstm") else config


def paper(spec: EnvSpec) -> Config:
    """[P]: Babaeizadeh et al., ICLR 2017. [C]: the authors' code, NVlabs/GA3C, file Config.py, at its defaults.
    [A]: Mnih et al. 2016, which the paper follows where it is silent."""
    return Config(
        env_id=spec.id,
        preset="paper",
        env=EnvConfig(
            frame_skip=4,  # [P] section 2: each action is repeated four times
            stack=4,  # [C] STACKED_FRAMES
            noop_max=30,  # [A] section 5.1, by the evaluation of Mnih et al. 2015
            sticky=0.0,
            clip_rewards=spec.source == "atari",  # [C] REWARD_MIN, REWARD_MAX: -1 and 1
            life_loss=False,
        ),
        net=NetConfig(
            net="auto",
            init="fan-in",  # [C] NetworkVP.py: uniform in 1/sqrt(fan-in)
            pixels="signed",  # [C] Environment.py: bytes / 128 - 1
        ),
        learn=LearnConfig(
            discount=0.99,  # [C] DISCOUNT
            rollout=5,  # [P] section 2: TMAX = 5
            batch_rollouts=1,  # [P] section 2: grouping batches slowed convergence; [C] TRAINING_MIN_BATCH_SIZE 0
            correction="epsilon",
            log_epsilon=1e-6,  # [C] LOG_EPSILON
            reduction="sum",  # [C] NetworkVP.py: reduce_sum
            value_weight=0.5,  # [C] NetworkVP.py
            entropy_weight=0.01,  # [C] BETA_START
            entropy_weight_end=0.01,  # [C] BETA_END
            optimiser="rmsprop",
            # [P] names no learning rate, [A] draws it from 1e-4 to 1e-2, and [C] has 3e-4. The result with 1e-3 is in
            # results/pong-paper/README.md.
            learning_rate=1e-3,
            learning_rate_end=1e-3,
            rmsprop_decay=0.99,  # [C] RMSPROP_DECAY
            optimiser_epsilon=0.1,  # [C] RMSPROP_EPSILON
            clip_norm=0.0,  # [C] USE_GRAD_CLIP False
        ),
        engine=EngineConfig(
            agents=32,  # [C] AGENTS
            predictors=2,  # [P] section 2: N_P = N_T = 2 as a rule of thumb
            trainers=2,
            prediction_batch=128,  # [C] PREDICTION_BATCH_SIZE
            queue=100,  # [C] MAX_QUEUE_SIZE
        ),
        run=RunConfig(steps=50_000_000),
    )


def fast_pictures(spec: EnvSpec, on_cuda: bool) -> Config:
    """Rollouts with lambda-returns, each used two or three times under PPO's clip range, with V-trace against policy
    lag. Rewards of Atari are clipped; those of other pictures have any scale."""
    is_atari = spec.source == "atari"
    learn = LearnConfig(
        rollout=32,
        correction="vtrace",
        trace_decay=0.95,
        ratio_clip=0.2,
        normalise_advantages=True,
        scale_returns=not is_atari,
        reduction="mean",
        entropy_weight=0.01,
        entropy_weight_end=0.001,
        explore_after=1000 if spec.action.kind == "discrete" and not spec.action.masked else 0,
        optimiser="adam",
        learning_rate=5e-4,
        optimiser_epsilon=1e-5,
        clip_norm=0.5,
    )
    config = Config(
        env_id=spec.id,
        preset="fast",
        env=EnvConfig(clip_rewards=is_atari, life_loss=is_atari),
        net=NetConfig(init="orthogonal", pixels="contrast"),
        learn=learn,
        engine=EngineConfig(predictors=1, trainers=1, prediction_batch=256, queue=8),
    )
    config = _on_cuda(config) if on_cuda else _on_cpu(config)
    return config if spec.layout.has_screens else for_small_pictures(config)


def _on_cuda(config: Config) -> Config:
    """A residual network, which learns more from each frame, and large updates from few agents, which keep the lag
    low. results/ablation/README.md has what was measured."""
    agents = 8 * max(1, machine.num_cores() - 1)
    return dataclasses.replace(
        config,
        net=dataclasses.replace(config.net, net="impala", precision="bf16"),
        learn=dataclasses.replace(
            config.learn, batch_rollouts=min(16, agents), reuse=2, reuse_window=agents, learning_rate_end=0.0
        ),
        engine=dataclasses.replace(config.engine, agents=agents),
        run=RunConfig(steps=10_000_000),
    )


def _on_cpu(config: Config) -> Config:
    """A small network, and every rollout used three times. results/pong-cpu/README.md has the alternatives that were
    measured."""
    precision: Precision = "bf16" if machine.multiplies_bf16() else "tf32"
    return dataclasses.replace(
        config,
        net=dataclasses.replace(config.net, net="small", precision=precision),
        learn=dataclasses.replace(config.learn, batch_rollouts=4, reuse=3, reuse_window=32, learning_rate_end=1e-4),
        engine=dataclasses.replace(config.engine, agents=16 * machine.num_cores()),
        run=RunConfig(steps=1_500_000),
    )


def for_small_pictures(config: Config) -> Config:
    """The network for small pictures, which is also faster without bfloat16: its layers are too small to gain by it."""
    return dataclasses.replace(config, net=dataclasses.replace(config.net, net="tiny", precision="tf32"))


def for_recurrent(config: Config) -> Config:
    """A lower learning rate and a longer run, for networks with an LSTM. With the learning rate of the others the LSTM
    saturates in the first hundred updates: its output no longer depends on the picture, and does not recover.
    Measured with `unit` pixels only."""
    return dataclasses.replace(
        config,
        net=dataclasses.replace(config.net, pixels="unit"),
        learn=dataclasses.replace(config.learn, learning_rate=2e-4),
        run=dataclasses.replace(config.run, steps=max(config.run.steps, 2_500_000)),
    )


def fast_vectors(spec: EnvSpec, net: NetName = "auto") -> Config:
    """Vectors: long rollouts with lambda-returns, each used sixteen times under PPO's clip range. Values are learned in
    units of their own scale, which differs by orders of magnitude between tasks.

    results/classic/README.md has what it learns, and the alternatives that were measured."""
    return Config(
        env_id=spec.id,
        preset="fast",
        env=EnvConfig(clip_rewards=False),
        net=NetConfig(net="auto", init="orthogonal", separate_value=not net.endswith("-lstm")),
        learn=LearnConfig(
            discount=0.999,
            rollout=128,
            batch_rollouts=2,
            correction="none",  # with V-trace the same rollouts teach LunarLander to hover
            trace_decay=0.98,
            ratio_clip=0.2,
            normalise_advantages=True,
            scale_returns=True,
            reuse=16,
            reuse_window=16,
            reduction="mean",
            entropy_weight=0.01,
            entropy_weight_end=0.0,
            optimiser="adam",
            learning_rate=5e-4,
            learning_rate_end=0.0,
            optimiser_epsilon=1e-5,
            clip_norm=0.5,
        ),
        engine=EngineConfig(agents=16, predictors=1, trainers=1, prediction_batch=256, queue=16),
        run=RunConfig(steps=500_000),
    )


def fast_control(spec: EnvSpec, net: NetName = "auto") -> Config:
    """Vectors with continuous actions. Other than for vectors with Discrete ones, observations are normalised, since
    they mix units, returns reach as far as the time limit suggests, and there is no entropy bonus. Updates have as many
    steps, but of more and shorter rollouts: steps of different times and agents have more to say than neighbours.

    results/control/README.md has what it learns, and what was measured."""
    config = fast_vectors(spec, net)
    learn = dataclasses.replace(
        config.learn,
        discount=_discount(spec),
        rollout=32,
        batch_rollouts=8,
        reuse_window=64,
        trace_decay=0.95,
        entropy_weight=0.0,
        learning_rate=3e-4,
    )
    return dataclasses.replace(
        config,
        net=dataclasses.replace(config.net, normalise_observations=True),
        learn=learn,
        run=RunConfig(steps=1_000_000),
    )


def _discount(spec: EnvSpec) -> float:
    """Returns reach over a fifth of the longest episode: 0.975 for Pendulum's 200 steps, 0.995 for 1,000."""
    return 0.99 if spec.time_limit is None else min(max(1.0 - 5.0 / spec.time_limit, 0.9), 0.999)


def for_a3c(config: Config, system: SystemName) -> Config:
    """The same settings for an A3C system, where an update is made of one rollout that is used once: a shorter one, for
    more updates."""
    rollout = min(config.learn.rollout, 32)
    learn = dataclasses.replace(config.learn, rollout=rollout, batch_rollouts=1, reuse=1, explore_after=0)
    where: DeviceName = "cuda" if system in GPU_SYSTEMS else "auto" if system == "a3c-threads" else "cpu"
    engine = EngineConfig(system=system, device=where, agents=max(4, machine.num_cores()))
    return dataclasses.replace(config, learn=learn, engine=engine)
