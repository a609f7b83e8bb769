"""`ga3c sweep`: a search for settings over several environments at once.

A trial is one choice of settings; it trains a run for every environment and seed, each in a process of its own.
`space` is what is searched, `study` keeps the trials (Optuna, SQLite), `scheduler` trains their runs (`runs`) on shares
of the cores, `pruning` decides which trials to stop early, `yardstick` makes one number of a trial's scores, and
`outcome`, `picture` and `view` show what was found."""
