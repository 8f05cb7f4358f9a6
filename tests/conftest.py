"""What every test shares: tests that need a program which isn't here are skipped, with a sentence that says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from labs.stacks.environment import NAMES, missing
from shardwise.doctor import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


NEEDS = {
    "browser": (
        lambda: chromium() is not None,
        "Chromium is not here, so this browser test is skipped (apt install chromium).",
    ),
    "node": (
        lambda: shutil.which("node") is not None,
        "Node.js is not here, so this test is skipped (apt install nodejs npm).",
    ),
    "poppler": (
        lambda: shutil.which("pdftoppm") is not None,
        "pdftoppm is not here, so the code on a printed certificate is not read (apt install poppler-utils).",
    ),
    "bwrap": (
        lambda: shutil.which("bwrap") is not None,
        "bubblewrap is not here, so this test is skipped (apt install bubblewrap).",
    ),
    "stacks": (lambda: not missing(*NAMES), missing(*NAMES)),
    "gpu": (_has_gpu, "PyTorch finds no GPU here, so this test is skipped."),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here: dict[str, bool] = {}
    for item in items:
        for name, (is_here, sentence) in NEEDS.items():
            if item.get_closest_marker(name):
                if name not in here:
                    here[name] = is_here()
                if not here[name]:
                    item.add_marker(pytest.mark.skip(reason=sentence))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium for the tests of one file, and ended with it: Playwright can't be started twice in one process, and
    while it runs nothing else can use asyncio there. Each test opens a context of its own.
    """
    from tests.browser.driver import chromium as start

    with start() as started:
        yield started
