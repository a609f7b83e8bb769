"""Runs on a Ray cluster: Ray places hosts of agents on its nodes, starts, watches and restarts them."""
