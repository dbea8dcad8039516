"""PyTorch: batches as tensors, on the CPU without a copy, on a GPU ahead of use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from headrace.adapters.accelerate import Prepared
from headrace.adapters.feed import Feed, Target, worker_part
from headrace.adapters.lightning import InLightning
from headrace.adapters.on_device import ChannelsFirst, DeviceTensors
from headrace.adapters.plain_loader import (
    BATCHES_OF_THE_FEED,
    AccelerateLoader,
    Skipped,
    check_loader,
    warn_of_composer,
)
from headrace.adapters.tensors import Casts, Tensors
from headrace.adapters.torch_feed import TorchFeed
from headrace.core.frameworks import framework
from headrace.core.types import DeviceLike, JsonObject, Library, LibraryObject, Nested, Reduced
from headrace.device.machine import check_device
from headrace.errors import StateError
from headrace.iterator import Epochs
from headrace.ops.device_map import placed
from headrace.ops.shared.arguments import one_of
from headrace.ops.shared.keywords import explain_keywords
from headrace.plan.capabilities import device_of_rows
from headrace.plan.node import Node
from headrace.plan.widening import warn_of_float64

if TYPE_CHECKING:
    from headrace.dataset import Dataset

MAX_WORKERS = 1024
"""The most workers that a DataLoader may have."""

THE_WAY = (
    "save and load with the state_dict() and load_state_dict() of torchdata's StatefulDataLoader(feed, "
    "batch_size=None, num_workers=…), which asks the workers; or read in this process, with num_workers=0"
)


@explain_keywords
def to_torch(
    self: Dataset,
    device: DeviceLike = None,
    *,
    dtypes: Mapping[Any, object] | None = None,
    pin_memory: bool | None = None,
    prefetch: int | None = None,
    non_blocking: bool = True,
    shard: bool | tuple[int, int] = True,
    layout: Literal["NHWC", "NCHW"] = "NHWC",
) -> TorchFeed:
    """Return the elements as PyTorch tensors: an iterable that is also an `IterableDataset`.

    On the CPU tensors take over the memory of the arrays; arrays that are read-only, because they share memory with
    something else (the array given to `from_tensor_slices`, a cache), are copied, so that writing to a tensor changes
    nothing but the tensor. Text and objects come as lists, `hr.Ragged` as a nested tensor.

    - `device`: with "cuda" a thread copies batches through page-locked buffers on a separate stream, `prefetch` (2)
      of them ahead; the stream that is current when a batch is taken waits for its copy, the program does not, unless
      `non_blocking=False`. Several devices get the batches in turn. Batches that are views of one large array (nothing
      shuffles or maps its slices) are read by the device in place, from the second pass on: the array is
      page-locked as long as the result of `to_torch` or a pass over it lives. So are large batches of other datasets,
      whose memory is reused.
    - `dtypes`: what to cast, by component (`0`, `"image"`, `("x", 0)`) or by NumPy dtype, as in
      `{np.float64: torch.float32}`.
    - `pin_memory`: page-locked buffers for copies to a GPU (the default there); without a device, tensors in
      page-locked memory.
    - `shard`: if torch.distributed is initialized, each rank reads its own share of the elements, every
      `world_size`-th, and all as many. False reads everything in every process, for datasets that were sharded before;
      (count, index) names the share. Workers of a `DataLoader(feed, batch_size=None, num_workers=4)` share what is
      left, and the loader gives it in order.

    `accelerator.prepare(feed)` of Accelerate takes the feed as it is, on the accelerator's device, and `save_state` and
    `load_state` save and restore its position.

    The n-th pass is the dataset's n-th epoch. `state_dict()` and `load_state_dict()` save and resume exactly; if
    workers of a DataLoader read, only they know the position: then use those of torchdata's `StatefulDataLoader`.

    Args:
        device: Device to put the arrays on.
        dtypes: Data types to convert to, by component or by NumPy dtype.
        pin_memory: Whether to use page-locked memory. Default: if the device is a GPU.
        prefetch: Number of elements to prepare ahead. Default: 2 on an accelerator, 0 on the CPU.
        non_blocking: Whether copies to the device overlap with computation.
        shard: True divides the elements among the processes of the framework; (count, index) chooses a share.
        layout: "NCHW" gives batches of images as (batch, channels, height, width), without a copy: in PyTorch's memory
            format channels_last. Images are what has four axes, of which the last has 1, 3 or 4 values.

    >>> ds = hr.Dataset.from_tensor_slices((np.zeros((5, 2), np.float32), [1, 2, 3, 4, 5])).shuffle(5, seed=1).batch(2)
    >>> for images, labels in ds.to_torch():
    ...     print(images.shape, labels.dtype)
    torch.Size([2, 2]) torch.int64
    torch.Size([2, 2]) torch.int64
    torch.Size([1, 2]) torch.int64
    """
    torch = framework("torch", "to_torch")
    devices = [torch.device("cpu" if d is None else d) for d in (device if _several(device) else [device])]
    if not devices:
        raise ValueError("to_torch: give at least one device, or None for the CPU")
    check_devices(torch, devices)
    if pin_memory and {device.type for device in devices} == {"cpu"} and not torch.cuda.is_available():
        raise ValueError(
            f"to_torch(pin_memory=True): memory is page-locked for a GPU, and PyTorch {torch.__version__} finds none "
            "here: leave it out, or write pin_memory=torch.cuda.is_available()"
        )
    if not dtypes:
        warn_of_float64(self._node, "to_torch")
    one_of("layout", layout, Literal["NHWC", "NCHW"])
    there = _device_of_maps(self._node, devices, given=device is not None)
    options = Placement(tuple(devices), Casts(dtypes or {}), pin_memory, prefetch, non_blocking, layout, there)
    counters = torch.zeros(MAX_WORKERS, dtype=torch.int64).share_memory_()
    part = _rank(torch) if shard is True else shard or None
    feed: TorchFeed = _feed_class()(self, options, part, counters)
    feed._auto_shard = shard is True
    feed._may_move = device is None and there is None
    return feed


def check_devices(torch: Library, devices: Sequence[Any]) -> None:
    """Raise ValueError if a device is not on this machine, or this PyTorch cannot use it."""
    for device in devices:
        if device.type == "cuda" and not torch.cuda.is_available():
            built = torch.version.cuda is not None
            why = "it finds no GPU or no driver" if built else "it was built without CUDA"
            raise ValueError(
                f'to_torch(device="{device}"): PyTorch {torch.__version__} has no CUDA here, because {why}: '
                'leave out device=, or write device="cuda" if torch.cuda.is_available() else "cpu"'
            )
        if device.type == "mps" and not torch.backends.mps.is_available():
            raise ValueError(f'to_torch(device="{device}"): PyTorch {torch.__version__} has no MPS device here')


def _device_of_maps(node: Node, devices: Sequence[object], *, given: bool) -> str | None:
    """Return the device of the plan's maps with `device=`, if it has any: elements stay there."""
    there = device_of_rows(node)
    if there is None:
        return None
    if len(devices) > 1:
        raise ValueError(f"to_torch: a plan with a map on a device gives elements on one device, not on {len(devices)}")
    if there == "auto":
        return check_device(devices[0])
    wanted = str(devices[0])
    if given and wanted != there and (wanted, there) not in (("cuda:0", "cuda"), ("cuda", "cuda:0")):
        raise ValueError(
            f'to_torch(device="{wanted}"): the plan has a map on "{there}", where its elements stay: give both the '
            'same device, or the map device="auto"'
        )
    return there


def _several(device: DeviceLike) -> bool:
    return isinstance(device, Sequence) and not isinstance(device, str)


def _rank(torch: Library) -> tuple[int, int] | None:
    """Return how many processes share the dataset, and which this one is."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    return distributed.get_world_size(), distributed.get_rank()


@dataclass(frozen=True)
class Placement:
    """The destination of tensors, and how they get there."""

    devices: tuple[Any, ...]
    casts: Casts
    pin_memory: bool | None
    prefetch: int | None
    non_blocking: bool
    layout: str = "NHWC"
    on_device: str | None = None
    """The device of the plan's maps, if it has any."""

    @property
    def on_gpu(self) -> bool:
        """Whether elements are on a GPU."""
        return self.devices[0].type == "cuda" or (self.on_device or "").startswith("cuda")

    def locks(self) -> LibraryObject:
        """Return what keeps arrays page-locked from one pass to the next."""
        if self.on_device is not None or any(device.type != "cuda" for device in self.devices):
            return None
        from headrace.adapters.cuda import page_locks

        return page_locks(self.devices[0])

    def target(self, locked: object) -> Target:
        """Return the target of one pass."""
        made = self._target(locked)
        return ChannelsFirst(made) if self.layout == "NCHW" else made

    def _target(self, locked: LibraryObject) -> Target:
        if self.on_device is not None:
            return DeviceTensors(self.on_device, self.casts, self.prefetch)
        kinds = {device.type for device in self.devices}
        if kinds == {"cuda"}:
            from headrace.adapters.cuda import Staging

            pin, wait = self.pin_memory is not False, not self.non_blocking
            ahead = 2 if self.prefetch is None else self.prefetch
            return Staging(self.devices, self.casts, locked, pin=pin, wait=wait, ahead=ahead)
        if len(self.devices) > 1:
            raise ValueError(f"to_torch deals batches out to several CUDA devices, not to {', '.join(sorted(kinds))}")
        on_cpu = kinds == {"cpu"}
        ahead = (0 if on_cpu else 2) if self.prefetch is None else self.prefetch
        return Tensors(self.casts, None if on_cpu else self.devices[0], pin=bool(self.pin_memory), ahead=ahead)


@cache
def _feed_class() -> type[Any]:
    """Return the class, created once torch is imported."""
    data = framework("torch.utils.data", "to_torch")
    get_worker_info = data.get_worker_info
    base: LibraryObject = data.IterableDataset

    class TorchFeed(InLightning, Prepared, Feed, base):  # type: ignore[misc]
        """A dataset as tensors."""

        _auto_shard = False
        _may_move = False

        def __init__(
            self, dataset: Dataset, options: Placement, part: tuple[int, int] | None, counters: LibraryObject
        ) -> None:
            there = options.on_device
            super().__init__(dataset, part, plan=None if there is None else placed(dataset._node, there))
            self._options = options
            self._part = part
            self._counters = counters
            self._counted = counters.clone()  # passes of workers that are older than what this process knows
            self._loaded_in: int | None = None
            self._locked: LibraryObject = None
            self._accelerate_loader: AccelerateLoader | None = None

        def _join_ranks(self) -> None:
            """Take the share of this rank, if torch.distributed was initialised after `to_torch`."""
            if self._auto_shard and self._part is None and (part := _rank(framework("torch", "to_torch"))) is not None:
                self._part = part
                self._take_share(part)

        def _move_to(self, device: DeviceLike) -> None:
            if self._may_move and device.type != "cpu":
                self._options = replace(self._options, devices=(device,))

        def make_target(self) -> Target:
            if get_worker_info() is not None and self._options.on_gpu:
                raise RuntimeError(
                    "a worker of a DataLoader cannot return CUDA tensors: iterate over to_torch(device=…) itself, or "
                    "leave the device out and give the DataLoader pin_memory=True"
                )
            self._locked = self._locked or self._options.locks()
            return self._options.target(self._locked)

        def _alone(self) -> bool:
            return get_worker_info() is None

        def _begin(self) -> tuple[Node, Epochs]:
            info = get_worker_info()
            self._join_ranks()
            node, epochs = super()._begin()
            if info is None:
                return node, epochs
            node = worker_part(node, info.id, info.num_workers, self._site)
            return node, _worker_epochs(epochs, self._counters, info.id)

        def __len__(self) -> int:
            self._join_ranks()
            return super().__len__()

        def __iter__(self) -> Iterator[Nested]:  # type: ignore[override]
            self._join_ranks()
            warn_of_composer(self._dataset._node)
            shared = self._part is not None and self._part[0] > 1
            self._accelerate_loader = loader = check_loader(shared=shared, prepared=self._prepared)
            if loader is not None:
                loader.check_seeds(self._dataset._node)
                if loader.elements_to_skip:
                    return self._skipping(loader)
            return self._pass()

        def _skipping(self, loader: AccelerateLoader) -> Iterator[Nested]:
            """Return a pass whose first elements a loader drops."""
            if self._resume is not None:
                raise StateError(
                    f"a state was loaded, and the trainer skips {loader.elements_to_skip} "
                    f"elements besides. {BATCHES_OF_THE_FEED}"
                )
            if self._node.cardinality.known:
                return self._pass()
            if get_worker_info() is not None:
                raise StateError(
                    f"the trainer skips elements of an epoch whose length is unknown. {BATCHES_OF_THE_FEED}"
                )
            return Skipped(self._pass(), loader)

        def _pass(self) -> Iterator[Nested]:
            if get_worker_info() is None:
                self._counted = self._counters.clone()
            elif self._resume is not None and self._loaded_in != os.getpid():
                raise StateError(f"a state was loaded before the workers of this DataLoader started: {THE_WAY}")
            return super().__iter__()

        def _check_place_is_known(self) -> None:
            if self._accelerate_loader is not None:
                raise StateError(
                    "a DataLoader of Accelerate or of Transformers' Trainer reads this feed a batch ahead of the "
                    f"model, so the number that it was given is not known. {BATCHES_OF_THE_FEED}"
                )
            if get_worker_info() is None and not self._counters.equal(self._counted):
                raise StateError(f"workers of a DataLoader read this feed, and only they know how far: {THE_WAY}")

        def load_state_dict(self, state_dict: JsonObject) -> None:
            self._join_ranks()
            super().load_state_dict(state_dict)
            self._accelerate_loader = None
            self._loaded_in = os.getpid()
            self._counted = self._counters.clone()

        def set_epoch(self, epoch: int) -> None:
            super().set_epoch(epoch - int(self._counters.max()))  # workers count the epochs that they have begun

        def __reduce__(self) -> Reduced:
            pickled = _pickler().dumps((self._dataset, self._options, self._part))
            return _unpickle, (pickled, self._counters, self._resume)

    return TorchFeed


def _worker_epochs(base: Epochs, counters: LibraryObject, worker: int) -> Epochs:
    """Return the epochs of one worker of a DataLoader, counted from those of the dataset it was given.

    A worker may live for one epoch only, so the number of epochs is kept in shared memory.
    """
    first = base.next

    def note_epoch(number: int) -> None:
        counters[worker] = number - first

    return Epochs(first + int(counters[worker]), base.seeds, note_epoch, base.sizes)


def _pickler() -> Library:
    """Return a pickler for functions defined in place: cloudpickle, if it is installed."""
    try:
        return framework("cloudpickle", "to_torch")
    except ModuleNotFoundError:
        import pickle

        return pickle


def _unpickle(pickled: bytes, counters: object, resume: JsonObject | None) -> Feed:
    dataset, options, part = _pickler().loads(pickled)
    feed: Feed = _feed_class()(dataset, options, part, counters)
    feed._resume = resume
    return feed
