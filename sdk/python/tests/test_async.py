"""AsyncSession: the same, in an event loop that is never held up."""
import asyncio
import inspect
import os
import time

import pytest

import fumehood
from fumehood import store


def run(main):
    """Runs a coroutine function in a loop of its own, which says when it was held up."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(asyncio.wait_for(main(), 60))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_the_names_are_those_of_session():
    def public(kind):
        return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    sync, twin = public(fumehood.Session), public(fumehood.AsyncSession)
    assert set(sync) <= set(twin)
    for name, method in sync.items():
        if not callable(method) or name in ("open",):
            continue
        here, there = inspect.signature(method), inspect.signature(twin[name])
        assert list(here.parameters) == list(there.parameters), name
    assert list(inspect.signature(fumehood.Session).parameters) == list(
        inspect.signature(fumehood.AsyncSession).parameters)


def test_running_asking_and_the_record(house, tmp_path):
    async def main():
        async with fumehood.AsyncSession() as session:
            result = await session.run("x = 6\nprint('out')\nx * 7")
            assert (result.stdout, result.result) == ("out\n", "42")
            results = await asyncio.gather(*(session.run("x * %d" % n) for n in range(20)))
            assert [one.result for one in results] == [str(6 * n) for n in range(20)]
            assert (await session.complete("x.bit_l")).matches == ["bit_length"]
            assert (await session.inspect("x")).found
            assert [variable.name for variable in await session.variables()] == ["x"]
            await session.section("S")
            await session.note("n")
            assert await session.text("c1") == "out\n42"
            assert len(await session.outputs()) == 21
            assert len((await session.notebook())["cells"]) == 23
            assert (await session.save(tmp_path)).startswith(str(tmp_path))
            assert (await session.limits(wall_s=9))["wall_s"]["value"] == 9
            assert (await session.policy())["tier_floor"]
            assert (await session.status()).state == "idle"
            assert [event.seq async for event in session.events(3)][0] == 4
            assert (await session.changes())[0] == [] and (await session.images())[0] == []
            await session.restart()
            assert (await session.run("x")).error.name == "NameError"
            with pytest.raises(fumehood.NotFoundError):
                await session.text("c99")
        assert store.everyone() == []
    run(main)


def test_files(house, tmp_path):
    async def main():
        large = os.urandom(3 << 20)
        async with fumehood.AsyncSession() as session:
            files = session.files
            await files.make_folder("d")
            assert await files.put("d/large", large) == len(large)
            assert await files.get("d/large") == large
            assert await files.download("d/large", tmp_path) == len(large)
            assert await files.upload(tmp_path / "large", "again") == len(large)
            assert [entry.name for entry in await files.list()] == ["again", "d"]
            await files.remove("d", whole=True)
            assert (await session.run("len(open('again', 'rb').read())")).result == str(len(large))
    run(main)


def test_streams_callbacks_and_input(house):
    async def main():
        async with fumehood.AsyncSession() as session:
            seen = [event.text async for event in session.stream("for i in range(3): print(i)")
                    if event.type == "stream"]
            assert "".join(seen) == "0\n1\n2\n"
            heard = []

            async def hear(text):
                await asyncio.sleep(0)
                heard.append(text)
            await session.run("print('x')", on_stdout=hear)
            assert heard == ["x\n"]

            async def answer(prompt, password):
                await asyncio.sleep(0)
                return prompt.upper() + str(password)
            assert (await session.run("input('a')", input=answer)).result == "'AFalse'"
            waiting = asyncio.Queue()
            await waiting.put("q")
            assert (await session.run("input()", input=waiting)).result == "'q'"
            assert (await session.run("input()", input=["l"])).result == "'l'"
            async for event in session.stream("print('on')\nwhile True: pass"):
                if event.type == "stream":
                    break
            assert (await session.run("'next'")).result == "'next'"
    run(main)


def test_a_cancelled_task_interrupts_its_cell(house):
    async def main():
        async with fumehood.AsyncSession() as session:
            for code in ("while True: pass", "import time; time.sleep(60)"):
                on = asyncio.Event()
                task = asyncio.ensure_future(session.run(
                    "print('on', flush=True)\n" + code, on_stdout=lambda _text: on.set()))
                await on.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await session.run("'next'")).result == "'next'"
            task = asyncio.ensure_future(session.run("while True: pass"))
            await asyncio.sleep(0)  # sent, and not yet answered
            task.cancel()
            assert (await session.run("'again'")).result == "'again'"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run("while True: pass"), 0.2)
            assert (await session.run("1")).ok
    run(main)


def test_a_cancelled_start_leaves_no_session(house):
    async def main():
        for pause in (0, 0.001, 0.005, 0.02):
            task = asyncio.ensure_future(fumehood.AsyncSession(spare=False).start())
            await asyncio.sleep(pause)
            task.cancel()
            try:
                await (await task).close()
            except asyncio.CancelledError:
                pass
        until = time.monotonic() + 30
        while store.everyone():
            assert time.monotonic() < until, store.everyone()
            await asyncio.sleep(0.01)
    run(main)


def test_the_loop_goes_on(house):
    async def main():
        late = []

        async def clock():
            while True:
                await asyncio.sleep(0.005)
                late.append(time.monotonic())
        ticking = asyncio.ensure_future(clock())
        async with fumehood.AsyncSession(spare=False) as session:
            before = len(late)
            await session.run("import time; time.sleep(1)")
            assert len(late) > before + 5
            await session.run("print('x' * 20_000_000)", max_chars=0)
        ticking.cancel()
    run(main)


def test_names_open_and_gone(house):
    async def main():
        async with fumehood.AsyncSession("named") as session:
            await session.run("x = 1")
        again = await fumehood.AsyncSession.open("named")
        assert (await again.run("x")).result == "1"
        os.kill(again._hello["pid"], 9)
        with pytest.raises(fumehood.GoneError):
            await again.run("while True: pass")
        with pytest.raises(fumehood.GoneError):
            await again.status()
        await again.close()
        await (await fumehood.AsyncSession.open("named")).remove()
        with pytest.raises(fumehood.NotFoundError):
            await fumehood.AsyncSession.open("named")
        unstarted = fumehood.AsyncSession()
        await unstarted.close()
    run(main)
