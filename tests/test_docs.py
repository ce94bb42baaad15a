"""The documentation does what it says: every block runs as printed. The conventions are in CONTRIBUTING.md."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL_PAGES = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "instances/README.md", "benchmarks/README.md"))]
BIN = Path(sys.executable).parent
PRINTED = "127.0.0.1:8080"
"""Address that the pages print."""
RUN = ("bash", "python")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    order: str
    """`skip`, `serve`, `output` or nothing."""
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text().splitlines()
    at = 0
    while at < len(lines):
        fence = re.fullmatch(r"(`{3,})(\w*)\s*", lines[at])
        if fence is None:
            assert not lines[at].startswith("```"), f"{page.name}:{at + 1}: {lines[at]!r} is no plain fence"
            at += 1
            continue
        end = lines.index(fence[1], at + 1)
        comment = re.fullmatch(r"<!-- test: (\w+) ?(.*?) ?-->", lines[at - 1]) if at else None
        order, reason = (comment[1], comment[2]) if comment else ("", "")
        text = "\n".join(lines[at + 1 : end]) + "\n"
        found.append(Block(page.name, at + 1, fence[2], text, order, reason))
        at = end + 1
    return found


BLOCKS = [block for page in PAGES for block in blocks(page)]


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}


def command(block: Block, address: str) -> list[str]:
    """How to run a block: as printed, but with this environment and this server."""
    text = block.text.replace(PRINTED, address).replace("--port 8080", f"--port {address.rpartition(':')[2]}")
    text = text.replace(".venv/bin/", f"{BIN}/")
    return ["bash", "-euo", "pipefail", "-c", text] if block.language == "bash" else [sys.executable, "-c", text]


def run(block: Block, address: str) -> str:
    """Standard output of a block that has to succeed."""
    done = subprocess.run(
        command(block, address), cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def serving(block: Block) -> Iterator[str]:
    """The address of a server that a block starts; stopped at the end."""
    address = free_address()
    with subprocess.Popen(
        command(block, address), cwd=ROOT, env=environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            for _ in range(600):
                assert process.poll() is None, f"{block} ended with {process.returncode}"
                try:
                    with urllib.request.urlopen(f"http://{address}/v1/health", timeout=5):
                        break
                except OSError:
                    time.sleep(0.1)
            else:
                pytest.fail(f"{block}: no answer from {address}")
            yield address
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the server that README.md starts."""
    with serving(next(block for block in BLOCKS if block.order == "serve")) as found:
        yield found


def named(which: list[Block]) -> list[object]:
    return [pytest.param(block, id=str(block)) for block in which]


ALONE = [block for block in BLOCKS if block.language in RUN and not block.order and PRINTED not in block.text]
ASKING = [block for block in BLOCKS if block.language in RUN and not block.order and PRINTED in block.text]


@pytest.mark.parametrize("block", named(ALONE))
def test_runs(block: Block) -> None:
    run(block, PRINTED)


@pytest.mark.parametrize("block", named(ASKING))
def test_runs_against_a_server(block: Block, address: str) -> None:
    answer = run(block, address)
    assert "urn:gangfit:problem" not in answer, answer


@pytest.mark.parametrize("block", named([block for block in BLOCKS if block.order == "serve"]))
def test_serves(block: Block) -> None:
    with serving(block):
        pass


def essence(text: str) -> list[str]:
    """The words of an output, without times and the rules of tables."""
    return re.sub(r"\d+\.\d{2,}( s)?|─+", " ", text).split()


@pytest.mark.parametrize("block", named([block for block in BLOCKS if block.order == "output"]))
def test_prints_what_the_page_says(block: Block) -> None:
    before = BLOCKS[BLOCKS.index(block) - 1]
    assert before.page == block.page
    assert essence(run(before, PRINTED)) == essence(block.text)


class TestConventions:
    def test_orders_are_known_and_reasons_given(self) -> None:
        for block in [*BLOCKS, *blocks(ROOT / "CONTRIBUTING.md")]:
            assert block.order in ("", "skip", "serve", "output"), block
            assert bool(block.reason) is (block.order == "skip"), block
            assert block.order != "output" or block.language == "text", block

    def test_every_order_stands_before_a_block(self) -> None:
        for page in PAGES:
            text = page.read_text()
            assert len(re.findall(r"^<!-- test:", text, re.MULTILINE)) == sum(bool(b.order) for b in blocks(page)), page

    def test_languages_say_what_a_block_is(self) -> None:
        assert {block.language for block in BLOCKS} <= {*RUN, "text", "json"}

    def test_the_three_uses_are_run(self) -> None:
        readme = "".join(block.text for block in [*ALONE, *ASKING] if block.page == "README.md")
        assert all(use in readme for use in ("curl", "from gangfit.solver import solve", "gangfit compare"))

    @pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_links_lead_somewhere(self, page: Path) -> None:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), target

    @pytest.mark.parametrize("target", ["demo", "test", "test-long", "lint", "format"])
    def test_make_targets_exist(self, target: str) -> None:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
