"""`ga3c doctor`: what this machine has, what limits it, what is wrong with it, and the settings it suggests.

`facts` reads, `findings` judges, `measuring` runs the real system for some seconds, `advice` suggests settings, and
`report` tells all of it.
"""
