"""Run inside a fresh process that has only the package on its path: the ports of one Lambda function.

EC2 and DynamoDB are moto's, by AWS_ENDPOINT_URL; the cluster is one control plane that stays as it is. The
events come on standard input, one JSON document each line, and their results go out the same way.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, sys.argv[1])

from ebbtide.adapters.clouds.aws import Ec2Cloud, Ec2Settings, make_client
from ebbtide.adapters.clouds.notices import HandedInbox
from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import create_tables
from ebbtide.bootstrap import LineNotifier, SystemClock, TimeOrderedIds
from ebbtide.engine.ports import Ports
from ebbtide.entrypoints import aws_lambda
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.pod import Pod, Resources
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Node, Reading

POOL = Pool("general", (NodeType("m7i.large", Resources(1930, 7000)),), ("eu-central-1a",))
SERVER = Node("server", "uid-server", control_plane=True)
POD = Pod("kube-system", "coredns", "uid-coredns", node_name="server")
UNWANTED = ("typer", "rich", "sqlalchemy", "alembic", "numpy", "highspy", "hcloud", "pytest", "moto")


class OneServer:
    def read(self) -> ClusterView:
        return ClusterView((SERVER,), (POD,))

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        return ()

    def soft_taint(self, effect: SoftTaint, token: int) -> None: ...

    def cordon(self, effect: Cordon, token: int) -> None: ...

    def uncordon(self, effect: Uncordon, token: int) -> None: ...

    def evict(self, effect: Evict) -> None: ...

    def delete_node(self, effect: DeleteNode) -> None: ...


class Idle:
    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        return Reading(0.5, int(time.time()))


class Context:
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def get_remaining_time_in_millis(self) -> int:
        return 20_000  # a run with an open interruption continues until shortly before its end


def opener(url: str, image: str, cluster: str) -> tuple[Ports, Settings]:
    settings = Settings(cluster=cluster, pools=(POOL,), min_workers=1, pending_up_seconds=0)
    clock = SystemClock()
    ports = Ports(
        store=DynamoStore.open(url, clock, cluster),
        cluster=OneServer(),
        cloud=Ec2Cloud(make_client("ec2"), Ec2Settings(cluster, (POOL,), image=image)),
        metrics=Idle(),
        inbox=HandedInbox(),
        notifier=LineNotifier(sys.stderr),
        clock=clock,
        new_id=TimeOrderedIds(),
    )
    return ports, settings


def main(url: str, image: str, cluster: str) -> None:
    create_tables(url)
    for line in sys.stdin:
        answer: dict[str, Any] = {}
        try:
            aws_lambda.run(json.loads(line), Context(), lambda: opener(url, image, cluster))
        except Exception as error:  # what Lambda would show as the failure of the run
            answer["failed"] = f"{type(error).__name__}: {error}"
        answer["threads"] = threading.active_count()
        answer["unwanted"] = [name for name in UNWANTED if name in sys.modules]
        answer["outside"] = [path for path in sys.path if "site-packages" in path]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[2:])
