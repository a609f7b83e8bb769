"""What is kept of long runs: everything at first, then less and less, evenly."""

import itertools

from ga3c.metrics.thinning import FULL_EPISODES, FULL_SECONDS, Thinning, keeps_episode


def test_every_snapshot_of_the_first_hour_is_kept() -> None:
    thinning = Thinning()
    assert all(thinning.keeps(tenth / 10) for tenth in range(0, 36_000, 11))


def test_a_week_keeps_few_snapshots_and_no_long_gap() -> None:
    thinning, week = Thinning(), 7 * 24 * 3600
    kept = [second for second in range(week) if thinning.keeps(float(second))]
    assert FULL_SECONDS < len(kept) < 22_500
    assert all(later - earlier <= max(1.0, later / FULL_SECONDS + 1) for earlier, later in itertools.pairwise(kept))


def test_a_clock_that_falls_back_does_not_stop_the_record() -> None:
    thinning = Thinning()
    assert thinning.keeps(1_000_000.0)
    assert not thinning.keeps(1_000_001.0)
    assert thinning.keeps(7200.0)


def test_episodes_are_kept_by_their_number() -> None:
    full = FULL_EPISODES
    assert all(keeps_episode(number) for number in (1, 2, 3, full - 1, full))
    counts = [
        sum(map(keeps_episode, range(start + 1, start + 1001))) for start in (0, full, 2 * full, 3 * full, 4 * full)
    ]
    assert counts == [1000, 500, 250, 250, 125]
