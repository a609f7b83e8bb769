"""A3C (Mnih et al. 2016), the system that the GA3C paper compares itself with: every agent has a model of its own.

A learner copies the shared weights, plays a rollout, and applies its gradient to them without a lock. `learner.py` is
that loop; `placements.py` says where the models of each system live, which is all that sets them apart; `shared.py` is
the memory that learners share, and `ipc.py` that of a GPU; `worker.py` and `threads.py` run a learner in a process or
in a thread; `reports.py` is what they tell; `system.py` puts it all together.
"""
