"""moto's server over HTTP: EC2, SSM and SQS for tests, in a process of its own.

It is started once for a run and never emptied: each test has a cluster name of its own, as clusters in
one account have. `environment(CREDENTIALS)` is what a client needs when it is made.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

REGION = "eu-central-1"
START_SECONDS = 200
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
CHECKS = {
    "MOTO_ENABLE_AMI_VALIDATION": "true",
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true",
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
}
"""moto takes any image and any type unless it is told to check them, as EC2 does."""


class MotoServer:
    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._clients: dict[str, Any] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="ebb-moto-"))
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, env={**os.environ, **CREDENTIALS, **CHECKS}
            )
        self._await()
        ec2 = self.client("ec2")
        self.image: str = ec2.register_image(Name="k3s-agent", RootDeviceName="/dev/sda1")["ImageId"]
        asked = {"ImageId": self.image, "MinCount": 1, "MaxCount": 1, "InstanceType": "m7i.large"}
        self.foreign_id: str = ec2.run_instances(**asked)["Instances"][0]["InstanceId"]
        """An instance that belongs to no cluster."""

    def client(self, service: str) -> Any:
        """A plain client for setting up and for looking behind the adapters' backs; kept for all tests."""
        import boto3

        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.url,
                region_name=REGION,
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
        return self._clients[service]

    def stop(self) -> None:
        for client in self._clients.values():
            client.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/moto-api/data.json", timeout=20) as answer:
                    json.load(answer)
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError(f"moto did not start: {(self._folder / 'log').read_text()[-2000:]}")


@cache
def shared_moto() -> MotoServer:
    server = MotoServer()
    atexit.register(server.stop)
    return server


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
