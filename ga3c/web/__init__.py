"""The control room: runs in the browser, live or over. It is a process of its own, so that no browser can slow a run.

`gate` decides what is served at all, and `connections` how many may ask. `site` has the addresses and who answers them:
`api` and `records` from the folders of runs (`catalog`, `run_files`, `samples`), `live` and `look` from runs that go
on, `jobs` by other commands. `hub` tells pages what changes. Nothing here imports torch.
"""
