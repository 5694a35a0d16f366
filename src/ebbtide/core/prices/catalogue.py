"""The node types that can be named without being defined, with their list prices.

The one list of them: pools, the price book, the simulator and the documentation all read it. A price says
where it came from and from which day.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from ebbtide.core.prices import ec2_types
from ebbtide.model.money import Price
from ebbtide.model.pool import NodeType
from ebbtide.model.resources import Resources

SOURCE = "Ebbtide built-in list"
AS_OF = "2026-11-15"
MIB_PER_GIB = 1024


def _hetzner(name: str, cpus: int, memory_gib: int, per_hour: str) -> NodeType:
    return NodeType(
        name=name,
        allocatable=Resources(cpu_milli=cpus * 1000, memory_mib=memory_gib * MIB_PER_GIB),
        price=Price(per_hour=Decimal(per_hour), currency="EUR", source=SOURCE, as_of=AS_OF),
    )


def _ec2(line: str) -> NodeType:
    name, cpu_milli, memory_mib, pods, per_hour = line.split()
    price = Price(Decimal(per_hour), "USD", ec2_types.SOURCE, ec2_types.AS_OF)
    return NodeType(name, Resources(int(cpu_milli), int(memory_mib)), int(pods), price)


HETZNER: Mapping[str, NodeType] = {
    node_type.name: node_type
    for node_type in (
        _hetzner("cpx12", 1, 2, "0.0048"),
        _hetzner("cpx22", 2, 4, "0.0096"),
        _hetzner("cpx32", 4, 8, "0.0168"),
        _hetzner("cpx42", 8, 16, "0.0312"),
        _hetzner("cpx52", 12, 24, "0.0624"),
        _hetzner("cpx62", 16, 32, "0.1056"),
    )
}
EC2: Mapping[str, NodeType] = {
    node_type.name: node_type for node_type in map(_ec2, ec2_types.TABLE.strip().splitlines()[1:])
}
EC2_FAMILIES = tuple(dict.fromkeys(f"{name.partition('.')[0]}.*" for name in EC2))
CATALOGUE: Mapping[str, NodeType] = {**HETZNER, **EC2}
