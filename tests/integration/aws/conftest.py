from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.clouds import Ec2Bench


@pytest.fixture
def bench() -> Iterator[Ec2Bench]:
    made = Ec2Bench()
    yield made
    made.close()
