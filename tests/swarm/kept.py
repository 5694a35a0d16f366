"""Seeds that once failed. Each is run with every push, with what it showed; awake, without policies, as
they were when they failed."""

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
