"""What would help, and by how much: a model of the run in which one limit is lifted."""

from __future__ import annotations

from headrace.observe.verdict import Limit, Measurement, Remedy
from headrace.plan.display import bytes_text

WAITING_CALLS = 16
"""Calls that only wait are expected to overlap this often with AUTOTUNE."""
PARTS_AT_A_TIME = 4
"""How many parts of a source that waits should be read at a time."""
REQUEST_BYTES = 4 << 20
"""One request for bytes of a large file asks for this many."""
SMALL_ANSWER_BYTES = 1 << 20
"""If answers are smaller on average, files are too small for a store."""
PROCESS_OVERHEAD = 1.1
"""Rows that go to another process and back take this much longer."""


def remedies(m: Measurement, limit: str, top: Limit, others: list[Limit]) -> tuple[Remedy, ...]:
    """The changes that lift a limit, the best first."""
    model = Model(m, top, others)
    made = _REMEDIES.get(limit, _for_stage)(m, top, model)
    return tuple(sorted(made, key=lambda remedy: -remedy.gain))


def _times_faster(seconds: float, left: float) -> float:
    """Return how many times faster something is that takes the `left` seconds; 1 if nothing has been done yet."""
    return max(1.0, seconds / max(left, 1e-3 * seconds)) if seconds else 1.0


class Model:
    """How long the same steps take if the first limit takes other seconds."""

    def __init__(self, m: Measurement, top: Limit, others: list[Limit]) -> None:
        self._m = m
        self._top = top
        self._label = top.where.removesuffix(")") or "?"
        rest = max((other.seconds for other in others), default=0.0)
        waits_for_gil = top.function is not None and top.function.threads > 1 and m.gil_share is not None
        self._rest = rest * (1.0 - (m.gil_share or 0.0)) if waits_for_gil else rest
        self._overlaps = any(stage.waiting_seconds > 0 for stage in m.stages)
        self._computing = (m.cpu_seconds or 0.0) / max(1, m.cpus)  # work that no number of threads does away with

    def gain(self, seconds: float, *, threads: bool = False) -> float:
        """How many times faster the steps are if the first limit takes `seconds`, with `threads` beside the steps."""
        m = self._m
        if self._overlaps or threads:
            left = max(m.free_seconds, self._rest, seconds, self._computing)
        else:
            left = max(m.free_seconds, m.seconds - self._top.seconds + seconds)
        return _times_faster(m.seconds, left)

    def gain_of_cache(self) -> float:
        """How many times faster the steps are if the rows of the first limit, and all before it, are there already."""
        m = self._m
        labels = [stage.label for stage in m.stages]
        here = next((i for i, label in enumerate(labels) if label.startswith(self._label)), len(labels))
        left = max([m.free_seconds, *(stage.busy_seconds for stage in m.stages[here + 1 :])])
        return _times_faster(m.seconds, left)


def _for_cpu(m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    f = top.function
    if f is None:
        return _for_stage(m, top, model)
    in_processes = PROCESS_OVERHEAD * f.cpu_seconds / m.cpus
    because = f"; in the way: {f.obstacle}" if f.obstacle else " (ds.explain() says what is in the way)"
    return [
        Remedy(
            f'mode="process", num_parallel_calls=hr.AUTOTUNE for {f.name}',
            f.site,
            model.gain(in_processes, threads=True),
        ),
        *_cache(m, top, model),
        Remedy(f"plain NumPy code in {f.name} runs on whole blocks{because}", f.site, 1.0),
    ]


def _cache(m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    """A cache after the first limit, with the memory it takes; none if it would repeat random draws."""
    stage = top.stage or next((s for s in m.stages if s.label.startswith(top.where.removesuffix(")"))), None)
    if stage is not None and stage.draws:
        return []
    size = None if stage is None else stage.cache_bytes
    needs = "" if size is None else f" needs {bytes_text(size)}:"
    said = f".cache() after {top.where}{needs or ','} if its rows stay the same in every epoch"
    return [Remedy(said, top.site, model.gain_of_cache())]


def _for_waiting(_m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    f = top.function
    assert f is not None
    overlapped = f.wall_seconds / max(WAITING_CALLS, f.threads)
    return [
        Remedy(
            f"num_parallel_calls={WAITING_CALLS} for {f.name}: it waits, so calls overlap",
            f.site,
            model.gain(overlapped, threads=True),
        )
    ]


def _for_slow_records(_m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    f = top.function
    assert f is not None
    usual = top.seconds * (1.0 - f.slow_share)
    return [
        Remedy(f"leave out or repair the few records on which {f.name} is slow", f.site, model.gain(usual)),
        Remedy("num_parallel_calls=hr.AUTOTUNE with deterministic=False: others overtake a slow one", f.site, 1.0),
    ]


def _for_source(m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    made = _cache(m, top, model)
    if top.stage is not None and top.stage.in_store:
        return made + _for_store(m, top, model)
    if top.stage is not None and top.stage.files is None:
        made.append(
            Remedy(
                f"{PARTS_AT_A_TIME} parts of the source at a time: .interleave(…, num_parallel_calls={PARTS_AT_A_TIME})"
                " of one dataset for each, or key= and partitions= of from_sql",
                top.site,
                model.gain(top.seconds / PARTS_AT_A_TIME, threads=True),
            )
        )
        return made
    return [*made, Remedy("a faster disk, or compressed files if cores are idle", top.site, 1.0)]


def _for_store(m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    """Larger files need fewer requests; a cache on disk needs none for bytes that were read before."""
    made = []
    if m.requests and m.store_bytes < SMALL_ANSWER_BYTES * m.requests:
        fewer = max(1, -(-m.store_bytes // REQUEST_BYTES)) / m.requests
        size = bytes_text(m.store_bytes // m.requests)
        made.append(
            Remedy(
                f"fewer, larger files: an answer of the store has {size} on average, and could have "
                f"{bytes_text(REQUEST_BYTES)}",
                top.site,
                model.gain(top.seconds * fewer),
            )
        )
    if not m.disk_cache:
        said = "Options(remote_cache=folder): later epochs only ask whether files have changed"
        made.append(Remedy(said, top.site, model.gain(top.seconds / 2)))
    return made


def _for_few_files(m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    return [
        Remedy(
            "write the data to more files, at least as many as there are cores",
            top.site,
            model.gain(top.seconds / m.cpus),
        ),
        *_for_source(m, top, model),
    ]


def _for_fill(m: Measurement, _top: Limit, _model: Model) -> list[Remedy]:
    whole = m.first_seconds + m.seconds
    return [
        Remedy(
            "a smaller shuffle buffer, or an index on the files: then numbers are shuffled instead of rows",
            m.shuffle_site,
            max(1.0, whole / (m.seconds + 0.1 * m.first_seconds)),
        )
    ]


def _for_memory(_m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    return [Remedy("a larger Options(ram_budget=…), or smaller batches", None, model.gain(top.seconds))]


def _for_no_processor(m: Measurement, _top: Limit, _model: Model) -> list[Remedy]:
    left = max(m.free_seconds, m.seconds - m.delay_seconds)
    return [Remedy("fewer other processes on this machine, or more cores", None, max(1.0, m.seconds / left))]


def _for_transfer(_m: Measurement, _top: Limit, model: Model) -> list[Remedy]:
    return [
        Remedy(
            'to_torch(device="cuda") copies from page-locked memory while the device computes', None, model.gain(0.0)
        )
    ]


def _for_consumer(m: Measurement, _top: Limit, _model: Model) -> list[Remedy]:
    return [Remedy("data are not the limit: a faster step is what helps", None, 1.0 / (1.0 - min(m.lost_share, 0.9)))]


def _for_stage(_m: Measurement, top: Limit, model: Model) -> list[Remedy]:
    said = top.stage.remedy if top.stage is not None else "let it do less"
    gain = model.gain(top.seconds / 2)
    made = [Remedy(said, top.site, gain), Remedy("distribute_over(cluster): read on more machines", None, gain)]
    if top.stage is not None and top.stage.device is not None:
        what = f'device="{top.stage.device}" for {top.where}: whole batches on the GPU; at most this much'
        made.append(Remedy(what, top.site, model.gain(0.0)))
    return made


_REMEDIES = {
    "CPU": _for_cpu,
    "GIL": _for_cpu,
    "function waits": _for_waiting,
    "slow records": _for_slow_records,
    "store": _for_source,
    "disk": _for_source,
    "source waits": _for_source,
    "few files": _for_few_files,
    "shuffle fill": _for_fill,
    "no processor": _for_no_processor,
    "memory budget": _for_memory,
    "transfer": _for_transfer,
    "consumer": _for_consumer,
}
