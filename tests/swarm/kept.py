"""Seeds that once failed. Each is run with every push, with what it showed: the first ones awake, without
policies, as they were when they failed; the others with all that is drawn by now."""

from __future__ import annotations

KEPT = {
    107: "a call that landed late was taken for one made twice",
    249: "the Node object of a machine that nobody signed stays: nobody can say that it is gone",
    252: "a name that is reused keeps others from joining while its dead Node object stays",
    474: "an interrupted node that a person had cordoned is emptied all the same",
    1291: "one list left out an interrupted node, and its notice was forgotten",
    2905: "who wanted to resume while the record could not be read did not try again",
    4357: "what a spot notice evicted during a consolidation was held against that",
    6997: "both lists hid the same machine for one look, and at the maximum one more was launched",
    50185: "a deployment in the second of an eviction took the place of what was evicted",
}

KEPT_WIDE = {
    2: "a node whose pool is no longer configured was not counted as room by the checker",
    116: "Node objects that outlive their machines fill the maximum, and the end was not in order",
    154: "a launch in another pool was blamed on a pool whose maximum had been lowered",
    312: "a launch without an answer was repeated above a maximum that a roll-out had lowered",
    314: "what had been decided before a roll-out was judged by what was rolled out",
    348: "a node seemed empty to a runner that was not shown its pods",
    713: "a consolidation went on after it was turned off, and its nodes held up all others",
    1002: "a scale-up was extended for a pool that a roll-out had added",
    1140: "the same of the maximum of a pool",
    1722: "such a Node object keeps new machines from its name",
}
