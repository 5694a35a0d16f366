"""The two real adapters, each in front of a cloud of the tests, ready to be asked for nodes."""

from __future__ import annotations

from itertools import count
from typing import Any

from ebbtide.adapters.clouds import hetzner
from ebbtide.adapters.clouds.aws import Ec2Cloud, Ec2Settings, make_client
from ebbtide.adapters.clouds.hetzner import HetznerCloud, HetznerSettings
from ebbtide.adapters.clouds.joins import Join
from ebbtide.model.pool import Pool
from tests.builders import make_pool, make_type
from tests.servers.hetzner import TOKEN, HetznerServer
from tests.servers.moto import CREDENTIALS, environment, shared_moto
from tests.servers.proxy import FaultyProxy

CLUSTER = "shop"
PATIENT_SECONDS = 400
"""moto may take many seconds on a machine that has other work; no test is about how long it takes."""
_NUMBERS = count(1)
EC2_ZONES = ("eu-central-1a", "eu-central-1b")
EC2_POOL: Pool = make_pool(
    "general",
    types=(make_type("m7i.large"), make_type("m7i.xlarge")),
    zones=("eu-central-1a", "eu-central-1b"),
)
HETZNER_POOL: Pool = make_pool(
    "general", types=(make_type("cpx32"), make_type("cpx42")), zones=("fsn1", "nbg1")
)
EC2_JOIN = Join("https://10.0.0.2:6443", token_parameter="/ebbtide/shop/join-token")
HETZNER_JOIN = Join("https://10.0.0.2:6443")


class Ec2Bench:
    """EC2 by moto behind the faulty proxy, with a cluster of its own."""

    def __init__(self, **settings: Any) -> None:
        moto = shared_moto()
        self.ec2, self.foreign_id = moto.client("ec2"), moto.foreign_id
        self.proxy = FaultyProxy(moto.port)
        cluster = f"{CLUSTER}-{next(_NUMBERS)}"
        given = {"cluster": cluster, "pools": (EC2_POOL,), "join": EC2_JOIN, "image": moto.image}
        self.settings = Ec2Settings(**{**given, **settings})
        self.cloud = self.connect()

    def connect(self) -> Ec2Cloud:
        """Another handle on the same cloud, as a second process has."""
        with environment(CREDENTIALS):
            client = make_client("ec2", endpoint=self.proxy.url, timeout_seconds=PATIENT_SECONDS)
        return Ec2Cloud(client, self.settings)

    def made(self) -> list[dict[str, Any]]:
        """Everything of the cluster that EC2 has, whatever its state."""
        by_tag = [{"Name": "tag:ebbtide.dev/cluster", "Values": [self.settings.cluster]}]
        found = self.ec2.describe_instances(Filters=by_tag)["Reservations"]
        return [raw for reservation in found for raw in reservation["Instances"]]

    def close(self) -> None:
        self.cloud.close()
        self.proxy.stop()


class HetznerBench:
    def __init__(self, **settings: Any) -> None:
        self.server = HetznerServer()
        self.foreign_id = str(self.server.make("somebody-else", "fsn1", "cpx32", {})["id"])
        given = {"cluster": CLUSTER, "pools": (HETZNER_POOL,), "image": "debian-12", "join": HETZNER_JOIN}
        self.settings = HetznerSettings(**{**given, **settings})
        self.cloud = self.connect()

    def connect(self, token: str = TOKEN) -> HetznerCloud:
        return HetznerCloud(hetzner.make_client(token, self.server.url, PATIENT_SECONDS), self.settings)

    def made(self) -> list[dict[str, Any]]:
        return [s for s in self.server.servers.values() if str(s["id"]) != self.foreign_id]

    def close(self) -> None:
        self.cloud.close()
        self.server.stop()
