from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.clouds import HetznerBench


@pytest.fixture
def bench() -> Iterator[HetznerBench]:
    made = HetznerBench()
    yield made
    made.close()
