"""Seeds: none of a run is given twice."""

import itertools

from ga3c.envs.seeding import continued_seed, environment_seed, evaluation_seed, lane_seed


def test_no_two_agents_and_no_two_lives_play_the_same_games() -> None:
    lives = list(itertools.product((0, 1, 7), range(300), range(20)))  # seed, index, incarnation
    assert len({environment_seed(*life) for life in lives}) == len(lives)
    assert all(0 <= environment_seed(*life) < 2**31 for life in lives)
    assert len({lane_seed(seed, number, life) for seed, number, life in lives}) == len(lives)


def test_the_numbers_are_those_of_earlier_runs() -> None:
    """A run is repeated by its seed."""
    assert environment_seed(3, 5) == 3_000_014
    assert environment_seed(3, 5, incarnation=2) == 3_131_088
    assert environment_seed(2**31 - 1, 0) == (2**31 - 1) * 1_000_003 % 2**31
    assert (continued_seed(3, 0), continued_seed(3, 500), continued_seed(2**31 - 1, 2)) == (3, 503, 1)
    assert lane_seed(3, 501) == 3_501
    assert lane_seed(3, 1, incarnation=2) == 131_077_001


def test_an_evaluation_plays_other_games_than_the_training_with_its_seed() -> None:
    for seed in (0, 1, 1000):
        trained = {environment_seed(seed, index, life) for index in range(1000) for life in range(5)}
        evaluated = {evaluation_seed(seed, index) for index in range(16)}
        assert len(evaluated) == 16
        assert not trained & evaluated
        assert all(0 <= own < 2**31 for own in evaluated)
    assert evaluation_seed(3, 5) == evaluation_seed(3, 5) != evaluation_seed(5, 3)
