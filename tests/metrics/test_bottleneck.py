import math
from dataclasses import dataclass

import pytest
from bench_support import snapshot

from ga3c.metrics.bottleneck import Use, find, find_in_run

UNKNOWN = math.nan


@dataclass(frozen=True)
class Shares:
    """Written out, in the order in which the display shows them."""

    agent_stepping: float
    agent_waiting: float
    predictor_predicting: float
    predictor_waiting: float
    predictor_blocked: float
    trainer_training: float
    trainer_waiting: float


STEPPING = Shares(0.96, 0.04, 0.30, 0.70, 0.00, 0.40, 0.60)
PREDICTING = Shares(0.29, 0.71, 0.95, 0.05, 0.00, 0.40, 0.60)
TRAINING = Shares(0.50, 0.50, 0.60, 0.35, 0.05, 0.97, 0.03)
HELD_BACK = Shares(0.20, 0.80, 0.30, 0.30, 0.40, 0.99, 0.01)
NOBODY = Shares(0.20, 0.80, 0.35, 0.65, 0.00, 0.10, 0.90)
ROOM = Use(cores=0.5, gpu=0.3)
NO_CORES = Use(cores=0.97)
NO_GPU = Use(cores=0.5, gpu=0.98)


@pytest.mark.parametrize(
    ("shares", "use", "stage", "sentence"),
    [
        (STEPPING, None, "environments",
         "agents step environments 96% of the time: only more or faster cores can speed this up"),
        (STEPPING, ROOM, "environments",
         "agents step environments 96% of the time: some cores are free, so raise --workers"),
        (PREDICTING, None, "predictors", "agents wait 71% of the time for predictions: raise --predictors or --agents"),
        (PREDICTING, ROOM, "predictors", "agents wait 71% of the time for predictions: raise --predictors or --agents"),
        (PREDICTING, NO_CORES, "predictors",
         "agents wait 71% of the time for predictions: 97% of the cores are in use, "
         "so choose a smaller --net or a lower --precision"),
        (TRAINING, None, "trainers",
         "trainers are busy 97% of the time: raise --trainers or --batch-rollouts"),
        (HELD_BACK, ROOM, "trainers",
         "training holds predictors back 40% of the time: raise --trainers or --batch-rollouts"),
        (HELD_BACK, NO_GPU, "trainers",
         "training holds predictors back 40% of the time: the GPU is in use 98% of the time, "
         "so choose a smaller --net, a lower --precision or more --batch-rollouts"),
        (NOBODY, None, "agents",
         "agents wait 80% of the time for predictions and predictors 65% for agents: raise --agents"),
        (NOBODY, NO_CORES, "agents",
         "agents wait 80% of the time for predictions and predictors 65% for agents: 97% of the cores are in use, "
         "so more agents would not help"),
    ],
)  # fmt: skip
def test_each_bottleneck_in_a_sentence(shares: Shares, use: Use | None, stage: str, sentence: str) -> None:
    found = find([shares], use)
    assert found is not None
    assert (found.stage, found.sentence) == (stage, sentence)


def test_where_nothing_is_trained_the_others_still_tell() -> None:
    acting = Shares(0.29, 0.71, 0.95, 0.05, 0.00, UNKNOWN, UNKNOWN)
    found = find([acting])
    assert found is not None
    assert found.stage == "predictors"


def test_several_records_count_together_and_what_did_not_happen_counts_nothing() -> None:
    unknown = Shares(*[UNKNOWN] * 7)
    found = find([PREDICTING, unknown, Shares(0.49, 0.51, 0.95, 0.05, 0.00, 0.40, 0.60)])
    assert found is not None
    assert found.what == "agents wait 61% of the time for predictions"


def test_a_run_that_has_just_begun_has_none() -> None:
    assert find([]) is None
    assert find([Shares(*[UNKNOWN] * 7)]) is None


@pytest.mark.parametrize(
    ("in_use", "advice"),
    [(0.55, "some cores are free, so raise --workers"), (0.99, "only more or faster cores can speed this up")],
)
def test_the_advice_of_a_run_knows_how_many_cores_are_idle(in_use: float, advice: str) -> None:
    shares = {name: getattr(STEPPING, name) for name in vars(STEPPING)}
    found = find_in_run([snapshot(1.0, **shares, core_utilisation=in_use, gpu_utilisation=math.nan)])
    assert found is not None
    assert found.advice == advice


def test_a_run_that_stands_still_gets_no_advice() -> None:
    """Its stages wait for an environment that hangs, and not for one another."""
    moving, still = (dict.fromkeys(vars(STEPPING), value) for value in (0.5, math.nan))
    records = [snapshot(1.0, **shares, core_utilisation=0.5) for shares in (moving, moving, still, still, still)]
    assert find_in_run(records[:-1]) is not None
    assert find_in_run(records) is None
