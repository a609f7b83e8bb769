"""A model card: Markdown that tells what a policy scores, under which rules, and how it was trained. The lines between
dashes at its beginning are those that the Hugging Face Hub reads. Every number is one that was measured."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ga3c.config import Config, to_toml
from ga3c.export.scores import Scores
from ga3c.metrics.text import count

FIRST_LINES = "---\nlibrary_name: ga3c"
"""How every card begins."""


@dataclass(frozen=True)
class Facts:
    """What a card tells."""

    called: str
    """The folder or the name by which commands find the policy."""
    config: Config
    steps: int
    """Agent steps of training."""
    training_score: float
    """Mean of the last episodes of training; NaN before the first."""
    scores: Scores
    pictures: Sequence[tuple[str, str]] = ()
    """Files beside the card, each with what it shows."""


def text(facts: Facts) -> str:
    """The card."""
    parts = [_head(facts), _title(facts), _table(facts), _pictures(facts), _use(facts), _settings(facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(facts: Facts) -> str:
    """YAML. Texts are written as JSON, which YAML reads too."""
    env = json.dumps(facts.config.env_id)
    name = json.dumps(f"ga3c-{facts.config.env_id}")
    value = json.dumps(f"{facts.scores.mean:.2f} +/- {facts.scores.deviation:.2f}")
    return f"""{FIRST_LINES}
tags:
- reinforcement-learning
- deep-reinforcement-learning
- ga3c
- {env}
model-index:
- name: {name}
  results:
  - task:
      type: reinforcement-learning
      name: reinforcement-learning
    dataset:
      name: {env}
      type: {env}
    metrics:
    - type: mean_reward
      value: {value}
      name: mean_reward
      verified: false
---"""


def _title(facts: Facts) -> str:
    env_id = facts.config.env_id
    module, colon, _ = env_id.rpartition(":")
    own = f" Its environment is in the module `{module}`, which must be importable." if colon else ""
    return f"# {env_id}\n\nA policy that GA3C trained, by asynchronous advantage actor-critic.{own}"


def _table(facts: Facts) -> str:
    scores = facts.scores
    episodes = len(scores.scores)
    rows = [
        (f"mean score of {count(episodes, 'episode')}", f"{scores.mean:,.2f}"),
        ("standard deviation", f"{scores.deviation:,.2f}"),
        ("lowest and highest", f"{min(scores.scores):,.2f} and {max(scores.scores):,.2f}"),
        ("mean length", f"{sum(scores.lengths) / episodes:,.1f} agent steps"),
        ("training", f"{facts.steps:,} agent steps"),
    ]
    if math.isfinite(facts.training_score):
        rows.append(("mean of the last episodes of training", f"{facts.training_score:,.2f}"))
    lines = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return (
        f"| what | result |\n|---|---|\n{lines}\n\nScores are raw sums of rewards over whole episodes. "
        f"Protocol: {scores.rules}; sampled actions; seed {scores.seed}."
    )


def _pictures(facts: Facts) -> str:
    marks = {True: "!", False: ""}  # a video is a link
    return "\n\n".join(f"{marks[name.endswith('.png')]}[{shows}]({name})" for name, shows in facts.pictures)


def _use(facts: Facts) -> str:
    episodes, seed = len(facts.scores.scores), facts.scores.seed
    return f"""## Use it

```sh
ga3c play {facts.called}
ga3c eval {facts.called} --episodes {episodes} --seed {seed}
ga3c export {facts.called} --format onnx
```

```python
import ga3c

policy = ga3c.load({json.dumps(facts.called)})
action, state = policy.act(observation, None)
```"""


def _settings(facts: Facts) -> str:
    return f"""## Train it again

`ga3c train {facts.config.env_id} --config config.toml` trains with the same settings. Agents are asynchronous, so that
two runs are not equal step by step.

<details><summary>Settings</summary>

```toml
{to_toml(facts.config).strip()}
```

</details>"""
