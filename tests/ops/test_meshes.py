"""distribute(mesh=): ranks of one data-parallel group get the same rows, context-parallel ranks their part of them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.distribute.meshes import share_of_processes
from headrace.testing import check_transformation

D = hr.Dataset


def sequences(n=12, length=8):
    return D.from_tensor_slices({"tokens": np.arange(n * length).reshape(n, length), "id": np.arange(n)})


def test_eight_processes_of_torch_in_a_mesh(tmp_path):
    pytest.importorskip("torch")
    program = Path(__file__).with_name("mesh_run.py")
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True, timeout=300)
    found = [json.loads((tmp_path / f"rank-{rank}").read_text()) for rank in range(8)]
    for one in found:
        dp, cp, _ = one["at"]
        pieces = [[0, 1, 6, 7], [2, 3, 4, 5]][cp]
        want = [[[100 * (4 * s + 2 * dp + i) + p for p in pieces] for i in range(2)] for s in range(10)]
        assert one["got"] + one["rest"] == want
        assert one["plain"] == [list(range(10 * s + 5 * dp, 10 * s + 5 * dp + 5)) for s in range(4)]
    for dp in (0, 1):
        read = [one["read"] for one in found if one["at"][0] == dp]
        assert sum(count > 0 for count in read) == 1, "one process of a group reads"
        assert max(read) == 16, "and no further than its steps"


def test_a_tuple_names_the_dimensions_the_last_fastest():
    sizes = {"pp": 2, "dp": 3, "tp": 2}
    shares = [[int(x) for x in D.range(6).distribute(mesh=(rank, 12, sizes))] for rank in range(12)]
    assert shares == [[dp, dp + 3] for _ in range(2) for dp in range(3) for _ in range(2)]


@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
def test_context_ranks_have_every_token_once(order):
    parts = [
        list(sequences().distribute(mesh=(rank, 2, {"dp": 1, "cp": 2}), batch_size=3, context=order)) for rank in (0, 1)
    ]
    for first, second in zip(*parts, strict=True):
        assert first["tokens"].shape == (3, 4)
        both = np.sort(np.concatenate([first["tokens"], second["tokens"]], 1), 1)
        assert (np.diff(both, axis=1) == 1).all()
        assert first["id"].tolist() == second["id"].tolist()
    row = parts[0][0]["tokens"][0].tolist()
    assert row == ([0, 1, 2, 3] if order == "contiguous" else [0, 1, 6, 7])


def test_every_promise_is_kept():
    check_transformation(sequences().distribute(mesh=(1, 4, {"dp": 2, "cp": 2}), batch_size=2, context="zigzag"))
    rows = D.range(9).map(lambda n: np.arange(4 + 2 * (n % 3)), output_signature=hr.TensorSpec((None,), "int64"))
    check_transformation(rows.distribute(mesh=(1, 2, {"cp": 2}), context="zigzag"))
    check_transformation(sequences().distribute(mesh=(0, 2, {"cp": 2}), context_fields=["tokens"]))


def test_a_state_of_one_context_rank_is_restored_in_another():
    it = iter(sequences().distribute(mesh=(0, 2, {"dp": 1, "cp": 2}), batch_size=2))
    next(it)
    other = sequences().distribute(mesh=(3, 4, {"dp": 2, "cp": 2}), batch_size=1).iterator(state=it.state())
    assert next(other)["id"].tolist() == [3]


def test_processes_of_jax_hold_ranges_of_rows():
    assert share_of_processes(np.array([[0], [0], [1], [1]]), 1) == (1, 2)
    assert share_of_processes(np.array([[0, 1], [2, 3]]), 3) == (1, 2)
    assert share_of_processes(np.array([[0, 1], [0, 1]]), 1) == (0, 1)
    with pytest.raises(ValueError, match="each process must hold one range"):
        share_of_processes(np.array([[0], [1], [0], [1]]), 0)
    with pytest.raises(ValueError, match="no device of process 5"):
        share_of_processes(np.array([[0], [1]]), 5)


def test_meshes_of_jax_in_one_process():
    jax = pytest.importorskip("jax")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    for given in (mesh, sharding):
        ds = D.range(6).distribute(mesh=given, batch_size=2)
        assert [b.tolist() for b in ds] == [[0, 1], [2, 3], [4, 5]]
    (first, *_) = D.range(6).distribute(mesh=sharding, batch_size=2).to_jax(sharding=sharding)
    assert first.sharding == sharding and first.tolist() == [0, 1]


def test_two_processes_of_jax_hold_parts_of_global_arrays(tmp_path):
    pytest.importorskip("jax")
    program = Path(__file__).with_name("jax_mesh_run.py")
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True, timeout=300)
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}").read_text())
        for step, (other, same) in enumerate(zip(found["other rows"], found["the same rows"], strict=True)):
            halves = [[6 * step + 3 * half + i for i in range(3)] for half in (0, 1)]
            total = sum(100 * row + token for rows in halves for row in rows for token in (0, 2, 4, 6))
            assert other == [[6, 4], [halves[rank]] * 2, total], "the devices of a process hold the same rows"
            assert same == [[6, 4], halves, total], "and here the processes do"
        assert len(found["other rows"]) == len(found["the same rows"]) == 4
        assert found["other rows, computed by JAX"] == found["other rows"]


def test_bad_arguments_are_named():
    for wrong, said in [
        (lambda: D.range(3).distribute(mesh=(0, 3, {"dp": 2})), "do not make 3 processes"),
        (lambda: D.range(3).distribute(mesh=(2, 2, {"dp": 2})), "rank must be between"),
        (lambda: D.range(3).distribute(mesh=(0, 2, {"x": 2})), "not known what the dimension 'x'"),
        (lambda: D.range(3).distribute(0, 1, mesh=(0, 2, {"dp": 2})), "not both"),
        (lambda: D.range(3).distribute(0, 1, broadcast=True), "needs a mesh"),
        (lambda: D.range(3).distribute(mesh=(0, 1, {"dp": 1}), context="spiral"), "context must be one of"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    with pytest.raises(TypeError, match="mesh is a torch DeviceMesh"):
        D.range(3).distribute(mesh="dp")
    with pytest.raises(hr.ElementError, match="cannot be cut into 4 equal pieces"):
        list(sequences(2, 6).distribute(mesh=(0, 2, {"cp": 2}), context="zigzag", context_fields=["tokens"]))
