"""The forms of operations on a device: one table by name, filled where the operations are defined."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.core.types import Argument
from headrace.device.pixels import DeviceValue
from headrace.trace.values import Call

if TYPE_CHECKING:
    from headrace.device.pixels import DeviceValue

Run = TypeVar("Run", bound=Callable[..., DeviceValue])


class UnsupportedError(Exception):
    """An operation has no form on a device with these arguments; the message says what to do."""


@dataclass(frozen=True)
class Form:
    """How an operation of ours runs on a device.

    `run` gets the machine and the operation's arguments by name: values of the rows as tensors or Pixels, but NumPy
    arrays for those named in `on_cpu`, which decide about places and amounts. `check` gets the arguments as they are
    known when the function is traced, and returns why they are not supported. `prepare` gets the machine
    and the arguments that the CPU has, ahead of `run` and on another thread, and returns those that `run` gets in their
    place. A form that is `lazy` gets and gives LazyPixels, others get them computed.
    """

    run: Callable[..., DeviceValue]
    signature: inspect.Signature
    on_cpu: frozenset[str]
    check: Callable[..., str | None] | None
    prepare: Callable[..., dict[str, Argument]] | None = None
    lazy: bool = False


FORMS: dict[str, Form] = {}
"""By the name of the operation."""


def device_form(
    name: str,
    signature: inspect.Signature,
    *,
    on_cpu: tuple[str, ...] = (),
    check: Callable[..., str | None] | None = None,
    prepare: Callable[..., dict[str, Argument]] | None = None,
    lazy: bool = False,
) -> Callable[[Run], Run]:
    """Register the form of an operation: see Form."""

    def register(run: Run) -> Run:
        FORMS[name] = Form(run, signature, frozenset(on_cpu), check, prepare, lazy)
        return run

    return register


class HasSignature(Protocol):
    """A form, on whichever device."""

    @property
    def signature(self) -> inspect.Signature:
        """The parameters of the operation."""


AnyForm = TypeVar("AnyForm", bound=HasSignature)


def form_of(forms: Mapping[str, AnyForm], name: str) -> AnyForm:
    """Return the form of an operation. Raise UnsupportedError if it has none."""
    form = forms.get(name)
    if form is None:
        raise UnsupportedError(f"{name} has no form on a device: put it into a map without device= before this one")
    return form


def arguments_of(form: HasSignature, call: Call | None) -> dict[str, Argument]:
    """Return the arguments of a call of an operation of ours, by name."""
    assert call is not None, "an operation of ours"
    bound = form.signature.bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def parameters(*needed: str, **defaults: object) -> inspect.Signature:
    """Return a signature with these parameters."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [inspect.Parameter(name, kind) for name in needed]
    return inspect.Signature([*found, *[inspect.Parameter(n, kind, default=d) for n, d in defaults.items()]])
