"""What a run measures: one record, which displays, sinks and the tuner read."""
