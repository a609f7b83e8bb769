"""One training run from start to end: settings, folder, supervision, checkpoints, evaluation."""
