"""`ga3c doctor`: what this machine has, what limits it, what is wrong with it, and which settings suit it.

`facts` reads the machine, `findings` judges it, `measuring` runs the real system for some seconds, `advice` suggests
settings, and `report` prints the result.
"""
