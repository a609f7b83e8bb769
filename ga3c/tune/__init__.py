"""Dynamic adjustment: changes the numbers of agents, predictors and trainers of a running system."""
