"""A3C (Mnih et al. 2016), which the GA3C paper compares itself with: every agent has its own model.

A learner copies the shared weights, plays a rollout, and applies its gradient to the shared weights without a lock.
`learner.py` is that loop; `placements.py` says where each system keeps its models, the only difference between systems;
`shared.py` is the memory that learners share, `ipc.py` the same on a GPU; `worker.py` and `threads.py` run a learner in
a process or in a thread; `reports.py` is what learners send to the server; `system.py` connects all of them.
"""
