"""`ga3c check`: what is wrong or doubtful with an environment, each with what to do, and whether 30 seconds of training
show learning.

`player` plays it in a process of its own and gathers an `Evidence`, `probes` ask it for seeds, shared state and leaks,
`gathering` starts and follows that process, `findings` judges the evidence, `training` trains, `learning` judges the
curves, and `report` prints the result.
"""
