"""The generators: same arguments, same snapshot; and what their documentation states."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import generators
from benchmarks.generators.trace import SIZES
from gangfit.models import Snapshot

SMALL: dict[str, Callable[[int], Snapshot]] = {
    "contiguous_runs": lambda seed: generators.contiguous_runs(256, 0.8, 20, seed),
    "scattered_free": lambda seed: generators.scattered_free(256, 0.8, 20, seed),
    "trace_like": lambda seed: generators.trace_like(64, 0.85, 20, seed),
    "odd_sizes": lambda seed: generators.odd_sizes(64, 0.6, 20, seed),
    "kube_gangs": lambda seed: generators.kube_gangs(20, 4, 500, seed=seed),
    "batch_50": lambda seed: generators.batch_50(seed=seed),
    "equal_gangs": lambda seed: generators.equal_gangs(20, nodes=128, seed=seed),
    "contended": lambda seed: generators.contended("share", 64, 8, seed),
    "reclaimed": lambda seed: generators.reclaimed(seed, nodes=100, gangs=10),
    "field_report_34": lambda seed: generators.field_report_34(100, 10, seed),
}


def nodes(snapshot: Snapshot) -> int:
    return sum(map(len, snapshot.node_names))


def taken(snapshot: Snapshot) -> int:
    return sum(gang.members * gang.request.gpus for gang in snapshot.running)


@pytest.mark.parametrize("name", SMALL)
class TestEveryGenerator:
    def test_same_seed_same_snapshot(self, name: str) -> None:
        assert SMALL[name](3).model_dump_json() == SMALL[name](3).model_dump_json()

    def test_another_seed_another_snapshot(self, name: str) -> None:
        assert SMALL[name](3).model_dump_json() != SMALL[name](4).model_dump_json()

    def test_says_how_to_make_it_again(self, name: str) -> None:
        meta = SMALL[name](3).meta
        assert meta["generator"] == name
        assert meta["seed"] == 3

    def test_alike_nodes_are_one_entry(self, name: str) -> None:
        snapshot = SMALL[name](0)
        assert len(snapshot.nodes) <= nodes(snapshot) / 10


class TestWholeNodes:
    @pytest.mark.parametrize("make", [generators.contiguous_runs, generators.scattered_free])
    @pytest.mark.parametrize("occ", [0.5, 0.9])
    def test_share_taken(self, make: Callable[..., Snapshot], occ: float) -> None:
        share = taken(make(1024, occ, 0)) / (8 * 1024)
        assert occ - 1e-3 <= share <= occ + 16 / 1024

    def test_runs_are_whole_nodes_in_one_stretch(self) -> None:
        for gang in generators.contiguous_runs(512, 0.8, 0).running:
            held = sorted(int(name[1:]) for name in gang.placement)
            assert held[-1] - held[0] < 16
            assert set(gang.placement.values()) == {1}

    def test_pending_sizes(self) -> None:
        sizes = [gang.members for gang in generators.contiguous_runs(512, 0.5, 400).pending]
        assert min(sizes) == 1
        assert 50 < max(sizes) <= 64
        # ⌊2^U(0, 6.2)⌋ is 1 in 1 / 6.2 of all cases.
        assert 0.1 < sizes.count(1) / len(sizes) < 0.25

    def test_weights_of_the_study_and_defaults(self) -> None:
        assert generators.contiguous_runs(64).topology.weights() == [3, 1, 0]
        assert generators.contiguous_runs(64, weights=None).topology.weights() == [16, 4, 1]


class TestTraceLike:
    def test_shares_stated_in_its_documentation(self) -> None:
        gpus = sum(size * share for size, share in SIZES.items())
        assert sum(SIZES.values()) == pytest.approx(1)
        assert sum(share for size, share in SIZES.items() if size <= 8) == pytest.approx(0.86)
        assert sum(share for size, share in SIZES.items() if size >= 64) == pytest.approx(0.06)
        assert sum(size * share for size, share in SIZES.items() if size >= 64) / gpus == pytest.approx(0.59, abs=0.005)

    def test_nodes_are_shared_and_other_resources_bind(self) -> None:
        snapshot = generators.trace_like(128)
        holders: dict[str, int] = {}
        for gang in snapshot.running:
            for name in gang.placement:
                holders[name] = holders.get(name, 0) + 1
        assert max(holders.values()) > 1
        asked = [gang.request for gang in (*snapshot.running, *snapshot.pending)]
        assert {r.gpus for r in asked} == {0, 1, 2, 4, 8}
        assert any(r.gpus and r.cpu_milli / r.gpus > 128_000 / 8 for r in asked)
        assert any(r.gpus and r.memory_mib / r.gpus > 1_048_576 / 8 for r in asked)


class TestOddSizes:
    def test_sizes_models_and_levels(self) -> None:
        snapshot = generators.odd_sizes(256)
        assert {gang.request.gpus for gang in snapshot.pending} == {3, 5, 6, 7}
        assert len({node.gpu_model for node in snapshot.nodes}) == 3
        assert any(gang.gpu_model for gang in snapshot.pending)
        assert [level.name for level in snapshot.topology.levels] == ["pod", "spine", "rack"]


class TestFixedShapes:
    def test_kube_gangs_has_fifty_racks(self) -> None:
        snapshot = generators.kube_gangs()
        assert nodes(snapshot) == 5000
        assert len({node.path for node in snapshot.nodes}) == 50
        assert sum(gang.members for gang in snapshot.pending) == 3000

    def test_batch_has_fifty_pods(self) -> None:
        assert sum(gang.members for gang in generators.batch_50(seed=5).pending) == 50

    def test_field_report_fits_exactly(self) -> None:
        snapshot = generators.field_report_34()
        assert sum(gang.members for gang in snapshot.pending) == nodes(snapshot) == 1000
        assert {gang.topology.required for gang in snapshot.pending} == {"rack"}

    def test_copies_are_equal(self) -> None:
        snapshot = generators.equal_gangs(30, nodes=128)
        assert {(gang.members, gang.request.gpus) for gang in snapshot.pending} == {(10, 2)}


class TestContended:
    @pytest.mark.parametrize("family", generators.FAMILIES)
    def test_nearly_full_and_nodes_keep_to_their_gpus(self, family: str) -> None:
        snapshot = generators.contended(family, 256, 0, 1)
        held: dict[str, int] = {}
        for gang in snapshot.running:
            for name, count in gang.placement.items():
                held[name] = held.get(name, 0) + count * gang.request.gpus
        assert max(held.values()) == 8
        assert 0.9 - 1e-3 <= sum(held.values()) / (8 * 256) <= 1

    def test_runs_stand_side_by_side_and_scattered_ones_do_not(self) -> None:
        def wide(family: str) -> float:
            gangs = generators.contended(family, 1024, 0, 0).running
            spans = [sorted(int(name[1:]) for name in gang.placement) for gang in gangs if gang.members > 1]
            return sum(span[-1] - span[0] >= 16 for span in spans) / len(spans)

        assert wide("run") == 0
        assert 0.3 < wide("scat") < 0.7

    def test_families_share_nodes_and_may_be_preempted_as_documented(self) -> None:
        for family, kind in generators.FAMILIES.items():
            running = generators.contended(family, 1024, 0, 0).running
            assert {gang.request.gpus for gang in running} == set(kind.sizes)
            share = sum(gang.preemptible for gang in running) / len(running)
            assert share == pytest.approx(kind.preemptible, abs=0.1)

    def test_pending_gangs(self) -> None:
        pending = generators.contended("run", 128, 600, 0).pending
        assert {gang.request.gpus for gang in pending} == {8}
        assert min(gang.members for gang in pending) == 2
        assert 24 < max(gang.members for gang in pending) < 32
        for level in (None, "rack", "spine"):
            assert 150 < sum(gang.topology.required == level for gang in pending) < 250

    def test_a_preemption_loses_all_that_ran(self) -> None:
        snapshot = generators.contended("share", 128, 1, 0)
        for gang in snapshot.running:
            assert 300 <= snapshot.time_s - gang.started_s <= 36_000
            assert gang.restart_s == 0
            assert gang.checkpoint is None


class TestReclaimed:
    def test_one_tenant_holds_everything_and_the_other_is_owed_half(self) -> None:
        snapshot = generators.reclaimed(2)
        assert taken(snapshot) == 8 * nodes(snapshot) == 4000
        assert {gang.tenant for gang in snapshot.running} == {"holder"}
        assert {gang.tenant for gang in snapshot.pending} == {"owner"}
        assert len(snapshot.pending) == 50
        assert all(2 <= gang.members <= 8 for gang in snapshot.pending)
        assert {tenant.quota.gpus for tenant in snapshot.tenants if tenant.quota} == {2000}
