"""What is doubtful about rewards and ends of episodes: pure functions of the evidence."""

from collections.abc import Iterator

from ga3c.check.evidence import Evidence, Play
from ga3c.check.finding import Finding, Level
from ga3c.check.spaces import ENOUGH_STEPS

ENDLESS_STEPS = 10_000
"""Steps without the end of an episode that are doubtful."""
_ENOUGH_EPISODES = 5
_LARGE_REWARD = 1e4
_SMALL_REWARD = 1e-3


def rewards(evidence: Evidence, play: Play) -> Iterator[Finding]:
    if not play.rewards:
        return
    largest = max(abs(play.least_reward), abs(play.largest_reward))
    scale_do = "scale them to about 1 (--wrap with a gymnasium.RewardWrapper), or use --scale-returns"
    if largest > _LARGE_REWARD:
        seen = f"rewards go from {play.least_reward:.4g} to {play.largest_reward:.4g}"
        why = "the loss has the squares of returns, and one large reward outweighs all others"
        yield Finding("doubtful", "reward-scale", seen, why, scale_do)
    elif 0.0 < largest < _SMALL_REWARD:
        seen = f"no reward is larger than {largest:.2g}"
        yield Finding("doubtful", "reward-scale", seen, "the entropy bonus outweighs rewards so small", scale_do)
    if play.rewards <= ENOUGH_STEPS:
        return
    share = play.zero_rewards / play.rewards
    shaped = (
        "reward what leads there too, make the first episodes easier, or use --explore-after with --correction vtrace"
    )
    if share == 1.0:
        seen = f"all {play.rewards} rewards were 0"
        yield Finding("note", "reward-sparse", seen, "random play finds nothing to learn from", shaped)
    elif share > 0.99:
        seen = f"{100 * share:.2f}% of the rewards were 0"
        yield Finding("note", "reward-sparse", seen, "random play finds little to learn from", shaped)
    elif play.least_reward == play.largest_reward and len(set(play.lengths)) <= 1:
        seen = f"all {play.rewards} rewards were {play.least_reward:g}, and no episode was shorter than another"
        yield Finding("note", "reward-same", seen, "random play finds no difference between good and bad", shaped)


def lengths(evidence: Evidence, play: Play) -> Iterator[Finding]:
    limit = (
        "give gymnasium.register max_episode_steps, or --wrap 'gymnasium.wrappers:TimeLimit(max_episode_steps=1000)'"
    )
    if not play.lengths:
        longer = evidence.time_limit is not None and evidence.time_limit > play.longest
        level: Level = "doubtful" if play.longest >= ENDLESS_STEPS and not longer and not evidence.is_atari else "note"
        if play.longest > ENOUGH_STEPS:
            yield Finding(
                level, "endless", f"no episode ended within {play.longest:,} steps",
                "scores are those of whole episodes, and an agent that is stuck stays stuck", limit,
            )  # fmt: skip
        return
    if len(play.lengths) < _ENOUGH_EPISODES:
        return
    least, most = min(play.lengths), max(play.lengths)
    if most == 1 and play.steps > ENOUGH_STEPS:
        yield Finding(
            "doubtful", "ends-at-once", f"all {len(play.lengths)} episodes ended with their first step",
            "nothing that comes later can be learned", "check the condition behind terminated and truncated",
        )  # fmt: skip
    elif least == most and play.truncated == 0:
        yield Finding(
            "doubtful", "time-limit-terminates", f"all {len(play.lengths)} episodes were terminated after {most} steps",
            "a time limit that terminates teaches that the state itself is worth nothing",
            "return truncated instead of terminated where only the time is over",
        )  # fmt: skip
