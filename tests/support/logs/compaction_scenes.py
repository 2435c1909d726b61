"""Transactions over a compacted partition, and what a read_committed reader has of it in the end.

Each scene is a line of steps over one partition of one batch a segment, so that a round may end behind any batch:
`1:k=v` writes in a transaction of producer 1, `1:k=` a tombstone, `1+` commits, `1-` aborts, `1^-` aborts with the next
epoch; `1!k=v` writes with the producer id outside of a transaction, `k=v` without one; `/` compacts all that may be,
`~` lets the tombstones' time pass, `>3` deletes the records before offset 3, `R` restarts from the log and at most one
producer snapshot, whichever.
"""

SCENES = {
    "a delete after an abort": ("1:k=v 1+ 1:j=x 1- 1:k= 1+ f=1 / ~ f=2 /", ""),
    "a delete after an abort that is clean already": ("1:k=v 1+ 1:j=x 1- f=1 / 1:k= 1+ f=2 / ~ f=3 /", ""),
    "a delete after an abort without data left": ("1:k=v 1+ 1:j=x 1- f=1 / ~ f=2 / 1:k= 1+ f=3 / ~ f=4 /", ""),
    "a newer value after an abort": ("1:k=v 1+ 1:k=x 1- 1:k=w 1+ f=1 / ~ f=2 /", "k=w"),
    "an abort whose marker is dirty": ("1:k=v 1+ 1:k=x 1- / 1:k= 1+ f=1 / ~ f=2 /", ""),
    "an abort half of which is clean": ("1:k=v 1+ 1:k=x 1:j=x 1- / 1:k=w 1:j=w 1+ f=1 / ~ f=2 /", "k=w j=w"),
    "a commit whose marker is dirty": ("1:j=x 1- 1:k=v 1+ / 1:k= 1+ / ~ f=1 / ~ f=2 /", ""),
    "a delete that aborts": ("1:k=v 1+ 1:k= 1- f=1 / ~ f=2 / ~ f=3 /", "k=v"),
    "a delete that aborts among commits": ("1:k=v 1+ 1:k= 1- 1:j=w 1+ f=1 / ~ f=2 / ~ f=3 /", "k=v j=w"),
    "an abort around a commit of another": ("2:j=x 1:k=v 2:k=x 1+ 1:k= 2- 1+ 2:j=w 2+ f=1 / ~ f=2 /", "j=w"),
    "a commit around an abort of another": ("1:k=v 1+ 1:k= 2:k=x 2- 1:j=w 1+ f=1 / ~ f=2 /", "j=w"),
    "three interleaved": ("1:a=x 2:b=v 3:c=x 1- 3:b=x 2:c=v 2+ 1:b= 3- 1+ 2:a=v 2- f=1 / ~ f=2 /", "c=v"),
    "an abort with the next epoch": ("1:k=v 1+ 1:j=x 1^- 1:k= 1+ f=1 / ~ f=2 /", ""),
    "two aborts with the next epochs": ("1:k=v 1+ 1:j=x 1^- 1:j=x 1^- f=1 / 1:k= 1+ f=2 / ~ f=3 /", ""),
    "an abort of nothing": ("1:k=v 1+ 1- 1:k= 1+ 1- f=1 / ~ f=2 /", ""),
    "an abort of nothing at the dirty offset": ("1:k=v 1+ f=1 / 1- 1:k= 1+ f=2 / ~ f=3 /", ""),
    "outside of transactions after an abort": ("1!k=v 1:j=x 1- 1!k= f=1 / ~ f=2 /", ""),
    "outside of transactions before an abort": ("1!k=v 1!k= 1:j=x 1- f=1 / ~ f=2 /", ""),
    "markers that were emptied": ("1:k=v 1+ 1:j=x 1^- f=1 / ~ f=2 / ~ f=3 / 1:k= 1+ f=4 / ~ f=5 /", ""),
    "log start in an abort": ("k=v 1:j=x 1:j=x 1- 1:k= 1+ >2 f=1 / ~ f=2 /", ""),
    "log start in an abort, read again": ("k=v 1:j=x 1:j=x 1- >2 R 1:k=w 1+ 1:k= 1+ f=1 / ~ f=2 / R", ""),
    "log start at an abort's marker": ("k=v 1:j=x 1- >2 1:k=w 1+ 1:k= 1+ f=1 / ~ f=2 /", ""),
    "log start in a commit": ("k=v 1:j=x 1- 1:k=w 1:k= 1+ >4 1:j=w 1+ f=1 / ~ f=2 /", "j=w"),
    "a commit over segments without records left": ("1:k=v 2:k=w 1^+ 2^+ k=x f=1 / ~ f=2 / ~ f=3 / R", "k=x"),
    "an abort over segments without records left": ("2:j=x 1:k=v 1^- 2^- k=x f=1 / ~ f=2 / ~ f=3 / R", "k=x"),
    "a commit after the log start": ("j=v 1:k=v k=x 1^+ >2 1:k=x 1^+ k=w f=1 / ~ f=2 / ~ f=3 / R", "k=w"),
    "a restart in between": ("1:k=v 1+ 1:j=x 1- f=1 / R 1:k= 1+ f=2 / R ~ f=3 / R", ""),
}
