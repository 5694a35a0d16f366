"""Bugs of replacements: repair, expiry and drift."""

from __future__ import annotations

from tests.mutants.plant import Mutant

TABLE = "unit:tests/simulation/test_crash_table_replacing.py"
MACHINE = "unit:tests/unit/operations/test_replaced.py"
CHOICE = "unit:tests/unit/test_replacing.py"
UNWELL = "unit:tests/unit/test_unwell.py"
OUTDATED = "unit:tests/unit/test_outdated.py"

OF_REPLACING = (
    Mutant(
        "a node is drained before its replacement is Ready",
        "scale_down.advance",
        "not operation.abort_reason and not operation.replaced",
        "False",
        (MACHINE, TABLE),
    ),
    Mutant(
        "an interrupted node waits for its replacement",
        "scale_down.advance",
        "held and situation.notice_for(removal.instance_id) is None",
        "held",
        (MACHINE, TABLE),
    ),
    Mutant(
        "a replacement that never joins does not end the operation",
        "why_not_replaced",
        "slot.terminated or (slot.settled and not operation.replaced)",
        "False",
        (MACHINE, TABLE),
    ),
    Mutant(
        "a node that recovered is removed all the same",
        "_is_fit_again",
        "not conditions_of(node, situation.snapshot, situation.settings)",
        "False",
        (MACHINE, TABLE),
    ),
    Mutant(
        "a repair continues after it was turned off",
        "stopping._why_stays",
        "operation.cause is RemovalReason.UNHEALTHY and not situation.settings.repair",
        "False",
        (MACHINE, "story:repair-that-is-turned-off"),
    ),
    Mutant(
        "a silent node of a pool that sleeps stays until it wakes",
        "replacing._why_kept",
        "pool.may_be_empty and not (_is_silent(unfit) and _ended(unfit, q))",
        "pool.may_be_empty",
        ("unit:tests/unit/test_replacing.py", "story:repair-a-silent-node-of-a-pool-that-sleeps"),
    ),
    Mutant(
        "a silent node of a pool that sleeps is replaced",
        "replacing._carries",
        "asleep or _why_full(unfit.node.pool, q)",
        "_why_full(unfit.node.pool, q)",
        ("unit:tests/unit/test_replacing.py",),
    ),
    Mutant(
        "that a node is well again is a failure",
        "_why_stays",
        'NotReplaced(Stop(AbortCause.FIT_AGAIN, f"{node.name} is {again}", node.name), excused=True)',
        'NotReplaced(Stop(AbortCause.FIT_AGAIN, f"{node.name} is {again}", node.name))',
        (MACHINE, TABLE),
    ),
    Mutant(
        "pods that nobody ends keep a silent node forever",
        "is_lost",
        "pod.terminating and 0 < pod.ends_at <= before",
        "False",
        (UNWELL, TABLE),
    ),
    Mutant(
        "a pod on a silent node counts as ended before its grace is over",
        "is_lost",
        "0 < pod.ends_at <= before",
        "True",
        (UNWELL,),
    ),
    Mutant(
        "the health brake does not hold",
        "pool_well",
        "sick <= limit",
        "True",
        (UNWELL, CHOICE),
    ),
    Mutant(
        "a node that still joins is repaired",
        "unwell_now",
        "conditions and snapshot.instance_of[node.name].id not in joining",
        "conditions",
        (UNWELL,),
    ),
    Mutant(
        "a replacement is drifted as well",
        "why_drifted",
        "hashed and instance.launch_hash == pool.launch_hash",
        "False",
        (OUTDATED,),
    ),
    Mutant(
        "something is launched for a node that cannot be drained",
        "replacing._why_kept",
        "held_by((budget,)) or _why_not_drainable(unfit, q)",
        "held_by((budget,))",
        (CHOICE,),
    ),
    Mutant(
        "an older version may take over a replacement",
        "Record.format_version",
        "any(down.slots for down in downs)",
        "False",
        (TABLE,),
    ),
)
