"""Images of a batch on a device mixed with their neighbours, and labels with them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import TorchTensor
from headrace.device.forms import device_form
from headrace.device.pixels import DeviceValue
from headrace.image import mixing

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue


def _one_hot(machine: Machine, labels: TorchTensor, classes: int | None) -> DeviceValue:
    """Return labels (batches, rows) or (batches, rows, classes) as probabilities."""
    torch = machine.torch
    if labels.dim() == 2 and not labels.dtype.is_floating_point:
        if classes is None:
            raise ValueError("labels that are numbers need num_classes")
        if labels.numel() and not bool(((labels >= 0) & (labels < classes)).all()):
            raise ValueError(f"a label is outside of num_classes={classes}")
        return (labels[..., None] == torch.arange(classes, device=machine.device)).to(torch.float32)
    if labels.dim() != 3:
        raise ValueError("labels are numbers, or a row of probabilities for each image")
    return labels.to(torch.float32)


def _rolled(x: TorchTensor) -> DeviceValue:
    return x.roll(1, 1)


@device_form("mixup_by_draw", inspect.signature(mixing.mixup_by_draw), on_cpu=("draw",))
def _mixup(
    machine: Machine, images: TorchTensor, labels: TorchTensor, draw: DeviceValue, alpha: float, num_classes: int | None
) -> DeviceValue:
    mixing.check_batch(tuple(images.shape[1:]), tuple(labels.shape[1:]))
    shares = np.array([mixing.beta_of_uniform(float(d), alpha) for d in draw], np.float32)
    share, rest = machine.put(shares), machine.put(np.float32(1) - shares)

    def mixed(x: TorchTensor) -> DeviceValue:
        across = (len(x), *(1,) * (x.dim() - 1))
        return x * share.reshape(across) + _rolled(x) * rest.reshape(across)

    return mixed(images.to(machine.torch.float32)), mixed(_one_hot(machine, labels, num_classes))


@device_form("cutmix_by_draws", inspect.signature(mixing.cutmix_by_draws), on_cpu=("draws",))
def _cutmix(
    machine: Machine, images: TorchTensor, labels: TorchTensor, draws: object, alpha: float, num_classes: int | None
) -> DeviceValue:
    mixing.check_batch(tuple(images.shape[1:]), tuple(labels.shape[1:]))
    height, width = images.shape[2:4]
    boxes = [mixing.cutmix_box(row, height, width, alpha) for row in np.asarray(draws)]
    mixed, other = images.clone(), _rolled(images)
    for i, (top, left, bottom, right) in enumerate(boxes):
        mixed[i, :, top:bottom, left:right] = other[i, :, top:bottom, left:right]
    kept = np.array([1 - (b[2] - b[0]) * (b[3] - b[1]) / (height * width) for b in boxes], np.float32)
    kinds = _one_hot(machine, labels, num_classes)
    share, rest = (machine.put(v)[:, None, None] for v in (kept, np.float32(1) - kept))
    return mixed, kinds * share + _rolled(kinds) * rest
