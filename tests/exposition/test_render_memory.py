"""A page is made at most once per cycle, format and encoding, off the event loop."""

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator

import pytest

from exporter.exposition.negotiation import Encoding
from exporter.exposition.rendering import Format, Renderer
from exporter.model.published import Published
from tests.exposition.examples import a_published


class Counting:
    """A maker of pages that counts its calls and can be held up."""

    def __init__(self) -> None:
        self.made: list[tuple[int | None, str]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.failures = 0

    def __call__(self, published: Published | None) -> bytes:
        """A page that tells how many were made before it."""
        assert self.go_on.wait(10)
        self.made.append((None if published is None else published.generation, threading.current_thread().name))
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a fault of ours")
        return b"page %d" % len(self.made)


@pytest.fixture
def pages() -> Counting:
    return Counting()


@pytest.fixture
async def renderer(pages: Counting) -> AsyncIterator[Renderer]:
    made = Renderer(dict.fromkeys(Format, pages))
    yield made
    pages.go_on.set()
    made.close()


async def test_same_key_is_made_once(renderer: Renderer, pages: Counting) -> None:
    """A second scrape in the same cycle gets the first one's bytes."""
    published = a_published()
    first = await renderer.render(published, Format.TEXT, Encoding.IDENTITY)
    assert await renderer.render(published, Format.TEXT, Encoding.IDENTITY) is first
    assert len(pages.made) == 1


async def test_gzip_is_made_from_the_same_render(renderer: Renderer, pages: Counting) -> None:
    """Both encodings of one format come from one render, and each is compressed once."""
    published = a_published()
    zipped = await renderer.render(published, Format.TEXT, Encoding.GZIP)
    assert gzip.decompress(zipped) == await renderer.render(published, Format.TEXT, Encoding.IDENTITY)
    assert await renderer.render(published, Format.TEXT, Encoding.GZIP) is zipped
    assert len(pages.made) == 1


async def test_concurrent_requests_wait_for_one_render(renderer: Renderer, pages: Counting) -> None:
    """Twenty scrapers at once cause one render, and the event loop stays free meanwhile."""
    pages.go_on.clear()
    published = a_published()
    waiting = [
        asyncio.create_task(renderer.render(published, Format.TEXT, Encoding(each))) for each in ("identity", "gzip") * 10
    ]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    pages.go_on.set()
    assert len(set(await asyncio.gather(*waiting))) == 2
    assert len(pages.made) == 1


async def test_render_runs_on_its_own_thread(renderer: Renderer, pages: Counting) -> None:
    """Pages are not made on the event loop's thread."""
    await renderer.render(a_published(), Format.TEXT, Encoding.IDENTITY)
    assert pages.made[0][1].startswith("render")


async def test_new_cycle_makes_a_new_page_and_forgets_the_old(renderer: Renderer, pages: Counting) -> None:
    """Each generation is rendered anew; bytes of older ones are not kept."""
    for generation in (1, 2, 2, 3):
        await renderer.render(a_published(generation=generation), Format.TEXT, Encoding.IDENTITY)
    assert [generation for generation, _ in pages.made] == [1, 2, 3]
    assert len(renderer._plain) == 1


async def test_formats_are_made_apart(renderer: Renderer, pages: Counting) -> None:
    """Each format is its own page."""
    published = a_published()
    made = {await renderer.render(published, form, Encoding.IDENTITY) for form in Format}
    assert len(made) == len(pages.made) == len(Format)


async def test_page_before_the_first_cycle_gives_way_to_the_first_cycle(renderer: Renderer, pages: Counting) -> None:
    """What was made without a cycle is not served after one."""
    await renderer.render(None, Format.TEXT, Encoding.IDENTITY)
    await renderer.render(a_published(generation=0), Format.TEXT, Encoding.IDENTITY)
    assert [generation for generation, _ in pages.made] == [None, 0]


@pytest.mark.parametrize("encoding", Encoding)
async def test_scraper_that_goes_away_does_not_spoil_the_page_of_others(
    renderer: Renderer, pages: Counting, encoding: Encoding
) -> None:
    """A cancelled request leaves the render to those who still wait for it."""
    pages.go_on.clear()
    published = a_published()
    leaving, staying = (asyncio.create_task(renderer.render(published, Format.TEXT, encoding)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    pages.go_on.set()
    body = await staying
    assert (gzip.decompress(body) if encoding is Encoding.GZIP else body) == b"page 1"


async def test_failed_render_is_tried_again(renderer: Renderer, pages: Counting) -> None:
    """A fault is not remembered as the page of its cycle."""
    pages.failures = 1
    published = a_published()
    with pytest.raises(RuntimeError):
        await renderer.render(published, Format.TEXT, Encoding.IDENTITY)
    assert await renderer.render(published, Format.TEXT, Encoding.IDENTITY) == b"page 2"
