"""The mathematics of learning: pure functions of tensors, each capturable in a CUDA graph.

Batches are batch-major: B rollouts of T steps, [B, T].
"""
