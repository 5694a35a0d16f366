"""So many at a time: in order, and none is lost to one who gives up."""

from __future__ import annotations

import asyncio

from ebbtide.gate.passing import Turns


def test_so_many_at_a_time_in_the_order_in_which_they_came() -> None:
    async def story() -> None:
        turns, began, go = Turns(2), list[int](), asyncio.Event()

        async def one(number: int) -> None:
            async with turns:
                began.append(number)
                await go.wait()

        tasks = [asyncio.create_task(one(number)) for number in range(6)]
        await asyncio.sleep(0)
        assert began == [0, 1]
        go.set()
        await asyncio.gather(*tasks)
        assert began == [0, 1, 2, 3, 4, 5]

    asyncio.run(story())


def test_who_gives_up_leaves_the_turn_to_the_next_also_in_the_moment_it_comes() -> None:
    async def story() -> None:
        turns, began = Turns(1), list[str]()

        async def one(name: str) -> None:
            async with turns:
                began.append(name)

        async with turns:
            waits, late, last = (asyncio.create_task(one(name)) for name in ("waits", "late", "last"))
            await asyncio.sleep(0)
            waits.cancel()
        # Now it is the turn of "late", which has not heard of it yet.
        late.cancel()
        await asyncio.gather(waits, late, last, return_exceptions=True)
        assert began == ["last"]
        async with turns:
            began.append("again")
        assert began == ["last", "again"]

    asyncio.run(story())
