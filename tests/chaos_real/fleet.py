"""What EC2 really has, asked past the network; and the endpoint of EC2 and SQS where every call arrives.

moto remembers terminated instances forever; after a while they are forgotten here, as EC2 does.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl

from tests.servers.moto import MotoServer
from tests.servers.proxy import XML, Answer, FaultyProxy, Form

CLUSTER_TAG = "ebbtide.dev/cluster"
POOL_TAG = "ebbtide.dev/pool"
ALIVE = ("pending", "running")
FORGOTTEN_AFTER_SECONDS = 60.0


@dataclass(frozen=True)
class Machine:
    id: str
    state: str
    zone: str
    pool: str
    spot: bool

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    @property
    def node_name(self) -> str:
        return f"node-{self.id}"

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.id}"


class Fleet:
    def __init__(self, moto: MotoServer, cluster: str) -> None:
        self._ec2 = moto.client("ec2")
        self._cluster = cluster
        self._ended_at: dict[str, float] = {}
        self.forgotten: set[str] = set()
        self.foreign = {moto.foreign_id, self._of_another_cluster(moto.image)}

    def machines(self) -> list[Machine]:
        """Of the cluster, whatever their state."""
        by_tag = [{"Name": f"tag:{CLUSTER_TAG}", "Values": [self._cluster]}]
        found = self._ec2.describe_instances(Filters=by_tag)["Reservations"]
        return [_machine(raw) for reservation in found for raw in reservation["Instances"]]

    def take(self, instance_id: str) -> None:
        """The cloud takes a machine back."""
        self._ec2.terminate_instances(InstanceIds=[instance_id])

    def forget(self, machines: Sequence[Machine]) -> None:
        now = time.monotonic()
        for machine in machines:
            since = self._ended_at.setdefault(machine.id, now) if not machine.alive else now
            if now - since >= FORGOTTEN_AFTER_SECONDS:
                self.forgotten.add(machine.id)
                self._ec2.delete_tags(Resources=[machine.id], Tags=[{"Key": CLUSTER_TAG}])

    def foreign_alive(self) -> set[str]:
        found = self._ec2.describe_instances(InstanceIds=sorted(self.foreign))["Reservations"]
        return {
            raw["InstanceId"]
            for reservation in found
            for raw in reservation["Instances"]
            if raw["State"]["Name"] in ALIVE
        }

    def _of_another_cluster(self, image: str) -> str:
        tags = [{"Key": CLUSTER_TAG, "Value": f"not-{self._cluster}"}, {"Key": POOL_TAG, "Value": "general"}]
        made = self._ec2.run_instances(
            ImageId=image,
            MinCount=1,
            MaxCount=1,
            InstanceType="m7i.large",
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        instance_id: str = made["Instances"][0]["InstanceId"]
        return instance_id


def _machine(raw: Any) -> Machine:
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
    spot = raw.get("InstanceLifecycle") == "spot"
    zone = raw["Placement"]["AvailabilityZone"]
    return Machine(raw["InstanceId"], raw["State"]["Name"], zone, tags.get(POOL_TAG, ""), spot)


class Judge(Protocol):
    def terminating(self, instance_ids: Sequence[str]) -> None:
        """Just before it is carried out."""

    def launched(self) -> None: ...


class Endpoint(FaultyProxy):
    """EC2 with idempotent launches, and SQS; a judge sees every launch and every termination."""

    def __init__(self, moto: MotoServer, fleet: Fleet, judge: Judge) -> None:
        self._moto_port = moto.port
        self._fleet = fleet
        self._judge = judge
        super().__init__(moto.port)

    def answer(self, body: bytes, path: str, headers: list[tuple[str, str]]) -> Answer | None:
        if any(name.lower() == "x-amz-target" for name, _ in headers):
            return self._as_it_is(body, path, headers)
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        if form.get("Action") == "DescribeInstances":  # lists need not wait for each other
            return self._once("DescribeInstances", form, path, headers)
        self.forms.clear()
        return super().answer(body, path, headers)

    def _as_it_is(self, body: bytes, path: str, headers: list[tuple[str, str]]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._moto_port, timeout=30)
        try:
            connection.request("POST", path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _once(self, action: str, form: Form, path: str, headers: list[tuple[str, str]]) -> Answer:
        ids = [value for key, value in form.items() if key.startswith("InstanceId.")]
        if action == "TerminateInstances":
            self._judge.terminating(ids)
        if self._fleet.forgotten.intersection(ids):
            code = "InvalidInstanceID.NotFound"
            return 400, XML.format(code=code, message=f"{ids} do not exist").encode()
        status, answer = super()._once(action, form, path, headers)
        if action == "RunInstances" and status == 200:
            self._judge.launched()
        return status, answer
