"""What the cluster engines share: tables as arrays, parts of a pass, the loop on the driver, scoring.

Nothing here imports an engine. A pass goes the same way on each of them: the driver numbers the rows of all
partitions (`driver.py`), workers make one part of each partition (`parts.py`) and merge parts in a tree, and the driver
takes what is left, one part.
"""
