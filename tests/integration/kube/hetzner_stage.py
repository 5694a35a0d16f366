"""What happens by itself in a cluster on Hetzner, played: machines that Ebbtide launches join, and volumes
are made where their pods go. A thread looks at the cloud of the tests and at the API server all the time."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3

from tests.integration.kube.objects import Json, node
from tests.servers.clouds import HetznerBench
from tests.servers.kube_api import Api, ApiRefused

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
LOCATION = "csi.hetzner.cloud/location"
SELECTED = "volume.kubernetes.io/selected-node"
LABEL = re.compile(r'^  - "([^"=]+)=([^"]*)"$', re.MULTILINE)
PERIOD_SECONDS = 0.2
SILENT = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
CLASS: Json = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "hcloud-volumes"},
    "provisioner": "csi.hetzner.cloud",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class HetznerStage:
    def __init__(self, api: Api, hetzner: HetznerBench) -> None:
        self._api = api
        self._hetzner = hetzner
        self._joined: dict[int, str] = {}
        """The name of each machine, by its number."""
        self._stop = threading.Event()
        self.launched: list[str] = []
        """Names of the machines that joined, in their order."""
        self.volumes: list[str] = []

    def run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            try:
                self._join()
                self._fall_silent()
                self._provision()
            except (urllib3.exceptions.HTTPError, OSError, ApiRefused):
                continue  # somebody else was there first, or the server is busy: look again

    def stop(self) -> None:
        self._stop.set()

    def _join(self) -> None:
        for server in self._hetzner.made():
            if server["id"] in self._joined or "ebbtide.dev/cluster" not in server["labels"]:
                continue
            server["status"] = "running"
            place = server["location"]["name"]
            labels = {**dict(LABEL.findall(server["user_data"])), LOCATION: place}
            spec = {"providerID": f"hcloud://{server['id']}"}
            self._api.post("/api/v1/nodes", node(server["name"], place, "", labels=labels, spec=spec))
            self._joined[server["id"]] = server["name"]
            self.launched.append(server["name"])

    def _fall_silent(self) -> None:
        """The kubelet of a machine that was deleted reports nothing any more."""
        there = {server["id"] for server in self._hetzner.made()}
        for number in self._joined.keys() - there:
            path = f"/api/v1/nodes/{self._joined[number]}/status"
            try:
                self._api.patch(path, {"status": {"conditions": SILENT}})
            except ApiRefused as refused:
                if refused.code != 404:
                    raise
            del self._joined[number]

    def _provision(self) -> None:
        for claim in self._api.items(CLAIMS):
            meta, spec = claim["metadata"], claim["spec"]
            if SELECTED not in meta.get("annotations", {}) or spec.get("volumeName"):
                continue
            name = f"pvc-{meta['uid']}"
            self._api.post(VOLUMES, _volume(name, meta, spec))
            bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
            self._api.patch(f"{CLAIMS}/{meta['name']}", {"metadata": bound, "spec": {"volumeName": name}})
            self._api.patch(f"{CLAIMS}/{meta['name']}/status", {"status": {"phase": "Bound"}})
            self.volumes.append(name)


def _volume(name: str, claim: Json, spec: Json) -> Json:
    """As the driver binds it: to a place by a label that only nodes that have joined carry."""
    terms = [{"matchExpressions": [{"key": LOCATION, "operator": "In", "values": ["fsn1"]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "csi": {"driver": "csi.hetzner.cloud", "volumeHandle": "4711", "fsType": "ext4"},
            "claimRef": {
                "namespace": claim["namespace"],
                "name": claim["name"],
                "uid": claim["uid"],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }


@contextmanager
def hetzner_stage(api: Api, hetzner: HetznerBench) -> Iterator[HetznerStage]:
    stage = HetznerStage(api, hetzner)
    api.post(CLASSES, CLASS)
    thread = threading.Thread(target=stage.run, name="hetzner", daemon=True)
    thread.start()
    try:
        yield stage
    finally:
        stage.stop()
        thread.join(30)
        api.delete(f"{CLASSES}/{CLASS['metadata']['name']}")
        _forget(api, CLAIMS)
        _forget(api, VOLUMES)


def _forget(api: Api, path: str) -> None:
    """Nobody runs here who would let go of what is protected."""
    for item in api.items(path):
        found: Any = f"{path}/{item['metadata']['name']}"
        api.delete(found)
        try:
            api.patch(found, {"metadata": {"finalizers": None}})
        except ApiRefused as refused:
            if refused.code != 404:
                raise
