"""Plays the policy of an exported folder by its `example.py`, in an installation without torch and without ga3c, and
leaves what it saw and did: python -I elsewhere.py FOLDER OUT STEPS."""

import importlib.util
import json
import pickle
import sys
from pathlib import Path
from typing import Any


def main(folder: Path, out: Path, steps: int) -> None:
    for package in ("torch", "ga3c"):
        assert importlib.util.find_spec(package) is None, f"{package} is installed here"
    spec = importlib.util.spec_from_file_location("example", folder / "example.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    about = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    env = example.make_environment(about["environment"], False)
    policy = example.Policy(folder, env.observation_space)
    env.action_space.seed(1)
    seen: list[Any] = []
    observation, info, begins = None, {}, True
    for step in range(steps):
        if begins:
            observation, info = env.reset(seed=step)
            policy.begin()
        action = policy.act(observation, info)
        seen.append((observation, begins, action))
        # Every third step is random, since a policy that does nothing would see nothing else.
        observation, _, terminated, truncated, info = env.step(action if step % 3 else env.action_space.sample())
        begins = terminated or truncated
    out.write_bytes(pickle.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
