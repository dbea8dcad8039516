"""From measurements to a verdict: the rules of docs/observe.md, in the same order."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.observe.functions import FunctionCost


@dataclass(frozen=True)
class StageCost:
    """What one stage took: rows, own seconds, and seconds in which others waited for its threads.

    The other seconds are those in which its threads waited for threads before it (`input_seconds`), because its queue
    was full (`room_seconds`) and because the memory budget was used up (`memory_seconds`). `on_one_core` says that it
    calls Python code, of which the GIL lets one thread run; `device` is one that could run it in its place.
    `rows_in_all` is how many rows it makes in an epoch, if that is known; `draws` whether they differ from epoch to
    epoch, so that a cache would change what the model sees.
    """

    label: str
    rows: int
    bytes: int
    busy_seconds: float
    waiting_seconds: float
    remedy: str
    is_source: bool = False
    is_transfer: bool = False
    in_store: bool = False
    site: str | None = None
    files: int | None = None
    rows_in_all: int | None = None
    draws: bool = False
    input_seconds: float = 0.0
    room_seconds: float = 0.0
    memory_seconds: float = 0.0
    on_one_core: bool = False
    device: str | None = None

    def evidence(self, seconds: float, cpus: int) -> str:
        """Return one line: rows, load, the rate of one core and of all that it can use, and what it waited for."""
        rate = self.rows / self.busy_seconds if self.busy_seconds else 0.0
        cores = 1 if self.on_one_core else cpus
        said = [f"{self.label}: {self.rows:,} rows", f"busy {self.busy_seconds:.2f} s"]
        if seconds and self.busy_seconds > 0.01 * seconds and self.rows:
            said[-1] += f" ({self.busy_seconds / seconds:.1f} cores)"
            said.append(f"{rate:,.0f} rows/s a core, at most {rate * cores:,.0f} on {cores}")
        waits = {"input": self.input_seconds, "room": self.room_seconds, "memory": self.memory_seconds}
        shown = [f"{value:.2f} s for {name}" for name, value in waits.items() if value > 0.01 * seconds]
        if shown:
            said.append(f"waited {', '.join(shown)}")
        if self.waiting_seconds:
            said.append(f"others waited {self.waiting_seconds:.2f} s for it")
        return ", ".join(said)

    @property
    def cache_bytes(self) -> int | None:
        """What a cache after this stage takes in memory, if the number of its rows is known."""
        if self.rows_in_all is None or not self.rows or not self.bytes:
            return None
        return self.bytes * self.rows_in_all // self.rows


@dataclass(frozen=True)
class Measurement:
    """All that the rules look at, for the steady part of a run: after the first element.

    `cpu_seconds` is None if only counters are known. `delay_seconds` is how long one thread could have run and had no
    processor, of the thread that waited the most. `requests` and `store_bytes` are what stores answered, `disk_cache`
    whether the bytes of remote files are kept on disk.
    """

    steps: int
    seconds: float
    waited_seconds: float
    first_seconds: float
    free_seconds: float
    cpu_seconds: float | None
    cpus: int
    stages: tuple[StageCost, ...]
    functions: tuple[FunctionCost, ...]
    memory_refusals: int = 0
    shuffles: tuple[str, ...] = ()
    shuffle_site: str | None = None
    gil_share: float | None = None
    delay_seconds: float = 0.0
    requests: int = 0
    store_bytes: int = 0
    disk_cache: bool = False

    @property
    def lost_share(self) -> float:
        """The share of step time that would go away with free data."""
        return max(0.0, min(1.0, 1.0 - self.free_seconds / self.seconds)) if self.seconds else 0.0


@dataclass(frozen=True)
class Remedy:
    """What to change, on which line, and how many times faster the steps are expected to be.

    Attributes:
        what: What to change.
        site: The user's line, if there is one.
        gain: How many times faster the steps are expected to be.
    """

    what: str
    site: str | None
    gain: float

    def __str__(self) -> str:
        where = f" ({self.site})" if self.site else ""
        return f"× {self.gain:.1f}: {self.what}{where}"


@dataclass(frozen=True)
class Verdict:
    """Why a pipeline is as fast as it is. Prints one sentence, then the evidence, then remedies.

    Attributes:
        bound: "input", "transfer" or "consumer".
        limit: What limits: "consumer", "transfer", "shuffle fill", "memory budget", "slow records", "GIL", "CPU",
            "function waits", "no processor", "store", "disk", "source waits", "few files", "stage".
        share: The share of step time that would go away with free data.
        where: The stage or function that limits.
        site: The user's line that made it.
        following: What limits next, once this is gone.
        remedies: The best first.
        measurement: What was measured.
    """

    bound: str
    limit: str
    share: float
    where: str
    site: str | None
    following: str
    remedies: tuple[Remedy, ...]
    measurement: Measurement = field(repr=False)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.bound == "consumer":
            return f"consumer-bound: data cost {self.share:.0%} of the step time; the pipeline keeps up"
        site = f" at {self.site}" if self.site else ""
        cost = f"{self.bound}-bound: data cost {self.share:.0%} of the step time"
        return f"{cost}; the limit is {WORDS[self.limit]}: {self.where}{site}"

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self._evidence(), *self._advice()])

    def _evidence(self) -> list[str]:
        m = self.measurement
        said = [
            f"{m.steps} steps in {m.seconds:.2f} s",
            f"the consumer waited {m.waited_seconds:.2f} s",
            f"the first element took {m.first_seconds:.2f} s",
        ]
        if m.cpu_seconds is not None:
            said.append(f"{m.cpu_seconds / max(m.seconds, 1e-9):.1f} of {m.cpus} cores were busy")
        if m.delay_seconds > 0.1 * m.seconds:
            said.append(f"a thread had no processor for {m.delay_seconds:.2f} s")
        if m.gil_share is not None:
            said.append(f"the GIL was held {m.gil_share:.0%} of the time")
        lines = ["  " + "; ".join(said)]
        for f in m.functions:
            rate = f.calls / f.cpu_seconds if f.cpu_seconds > 0 else float("inf")
            lines.append(
                f"  {f.operation}({f.name}): {f.calls:,} calls, {f.wall_seconds:.2f} s on {f.threads} threads, of "
                f"which {f.cpu_seconds:.2f} s CPU; at most {rate:,.0f} calls a second and core; slowest "
                f"{max(f.slowest_seconds, default=0) * 1e3:.3g} ms"
            )
        for s in m.stages:
            if s.busy_seconds + s.waiting_seconds > 0.01 * m.seconds:
                lines.append(f"  {s.evidence(m.seconds, m.cpus)}")
        if self.following:
            lines.append(f"  next limit: {self.following}")
        return lines

    def _advice(self) -> list[str]:
        return ["what would help:", *(f"  {remedy}" for remedy in self.remedies)] if self.remedies else []


WORDS = {
    "consumer": "the consumer",
    "transfer": "the copy to the device",
    "shuffle fill": "filling the shuffle buffer",
    "memory budget": "the memory budget",
    "slow records": "a few slow records",
    "GIL": "the GIL",
    "CPU": "one core",
    "function waits": "a function that waits",
    "store": "the latency of the store",
    "disk": "reading the files",
    "source waits": "a source that waits",
    "few files": "too few files to read in parallel",
    "no processor": "other work on this machine",
    "stage": "a stage of the pipeline",
}


@dataclass(frozen=True)
class Limit:
    """Seconds that something takes at least, with what it is."""

    seconds: float
    stage: StageCost | None = None
    function: FunctionCost | None = None

    @property
    def where(self) -> str:
        """How a user recognises it."""
        if self.function is not None:
            return f"{self.function.operation}({self.function.name})"
        return "" if self.stage is None else self.stage.label

    @property
    def site(self) -> str | None:
        """The user's line."""
        found = self.function or self.stage
        return None if found is None else found.site


def limits(m: Measurement) -> list[Limit]:
    """What may limit, the longest first: functions by the threads that ran them, stages by their own time."""
    found = [Limit(f.wall_seconds / max(1, f.threads), function=f) for f in m.functions]
    for stage in m.stages:
        own = stage.busy_seconds
        if any(stage.label.startswith(f"{f.operation}({f.name}") for f in m.functions):
            continue  # the function's own time says it
        found.append(Limit(own, stage=stage))
    return sorted(found, key=lambda limit: -limit.seconds)
