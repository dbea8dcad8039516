"""Conversations to tokens and loss masks, for supervised fine-tuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from headrace.plan.spec import TensorSpec
from headrace.text.tokenizers import Tokenizer

Mask = Literal["assistant", "all"]
"""Which tokens the loss is taken of."""


@dataclass(frozen=True, eq=False)
class Chat:
    """What `hr.text.chat` returns: a function for `map`, and what it gives."""

    tokenizer: Tokenizer
    template: str
    mask: Mask = "assistant"
    messages: str = "messages"
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def output_signature(self) -> dict[str, TensorSpec]:
        """What `map(chat, output_signature=chat.output_signature)` promises, so that `pack` knows the dtypes."""
        return {"tokens": TensorSpec((None,), np.int32), "loss_mask": TensorSpec((None,), np.bool_)}

    def __call__(self, element: Any) -> dict[str, np.ndarray[Any, Any]]:
        """The tokens of a conversation, and of each whether it is learnt."""
        pieces = self.pieces(element)
        values, cuts = self.tokenizer.encode_rows([text for text, _ in pieces])
        learnt = np.repeat([learns for _, learns in pieces], np.diff(cuts)).astype(np.bool_)
        return {"tokens": values.astype(np.int32), "loss_mask": learnt}

    def pieces(self, element: Any) -> list[tuple[str, bool]]:
        """The conversation as text, cut where the loss begins or ends to be taken."""
        messages = _messages(element, self.messages)
        render = self._render
        made: list[tuple[str, bool]] = []
        done = ""
        for number, message in enumerate(messages):
            whole = render(messages[: number + 1], False)
            learns = self.mask == "all" or message["role"] == "assistant"
            prompt = render(messages[:number], True) if learns and self.mask != "all" else done
            if not prompt.startswith(done) or not whole.startswith(prompt):
                raise ValueError(
                    f"the template writes earlier messages in another way once message {number} ({message['role']}) "
                    "follows: which tokens are its own cannot be told"
                )
            made += [(prompt[len(done) :], False), (whole[len(prompt) :], learns)]
            done = whole
        return [piece for piece in made if piece[0]]

    @cached_property
    def _render(self) -> Callable[[Sequence[Mapping[str, str]], bool], str]:
        if "{%" in self.template or "{{" in self.template:
            return _jinja(self.template, self.variables)
        head, found, tail = self.template.partition("{content}")
        if not found:
            raise ValueError("a chat template says where {content} goes, such as '<|{role}|>{content}<|end|>'")

        def render(messages: Sequence[Mapping[str, str]], begin: bool) -> str:
            written = "".join(
                head.replace("{role}", m["role"]) + m["content"] + tail.replace("{role}", m["role"]) for m in messages
            )
            return written + head.replace("{role}", "assistant") if begin else written

        return render


def chat(
    tokenizer: Any,
    template: str,
    mask: Mask = "assistant",
    *,
    messages: str = "messages",
    variables: Mapping[str, Any] | None = None,
) -> Chat:
    """Return a function for `map` that turns a conversation into tokens and a loss mask.

    The conversation is rendered and cut into pieces where the loss begins or ends to be taken; each piece is tokenised
    by itself, without special tokens but those that the template writes. So the mask is exact: of an answer it covers
    what follows the header of its message, with the text that ends it.

    Args:
        tokenizer: A tokenizer as `hr.text.Tokenizer` takes it.
        template: How messages are written: `"<|{role}|>{content}<|end|>"`, or a Jinja template, as models on Hugging
            Face have one (needs `jinja2`).
        mask: "assistant" takes the loss of the answers alone, "all" of everything.
        messages: The component with the messages: `role` and `content` of each, as lists or as a list of dicts. JSON
            lines and Parquet files with nested messages have it so.
        variables: What a Jinja template reads besides messages, such as `bos_token`.

    Returns:
        A function whose results have `tokens` (int32) and `loss_mask` (bool). It has an `output_signature` for `map`.

    Raises:
        ValueError: The template is none.

    >>> import tokenizers
    >>> words = {"user": 0, "assistant": 1, "hi": 2, "yo": 3, ".": 4, ":": 5}
    >>> library = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="."))
    >>> library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> chat = hr.text.chat(library, "{role}: {content}.")
    >>> row = chat({"messages": {"role": ["user", "assistant"], "content": ["hi", "yo"]}})
    >>> row["tokens"], row["loss_mask"].astype(int)
    (array([0, 5, 2, 4, 1, 5, 3, 4], dtype=int32), array([0, 0, 0, 0, 0, 0, 1, 1]))
    """
    if mask not in get_args(Mask):
        raise ValueError(f"mask must be one of {get_args(Mask)}, not {mask!r}")
    given = tokenizer.tokenizer if isinstance(tokenizer, Tokenizer) else tokenizer
    made = Chat(Tokenizer(given, add_special_tokens=False), template, mask, messages, dict(variables or {}))
    _ = made._render  # a template that is none is refused here
    return made


def _messages(element: Any, name: str) -> list[dict[str, str]]:
    """The messages of an element, one dict each."""
    if not isinstance(element, Mapping) or name not in element:
        found = sorted(element) if isinstance(element, Mapping) else type(element).__name__
        raise ValueError(f"there are no messages {name!r} in the element: it has {found}")
    given = element[name]
    if isinstance(given, Mapping):
        try:
            roles, contents = list(given["role"]), list(given["content"])
        except KeyError as error:
            raise ValueError(f"messages have a role and a content, {error} is missing") from None
        if len(roles) != len(contents):
            raise ValueError(f"there are {len(roles)} roles and {len(contents)} contents")
        pairs = list(zip(roles, contents, strict=True))
    else:
        pairs = [(message["role"], message["content"]) for message in given]
    made = [{"role": _text(role), "content": _text(content)} for role, content in pairs]
    if not made:
        raise ValueError("the conversation has no messages")
    return made


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _jinja(template: str, variables: Mapping[str, Any]) -> Callable[[Sequence[Mapping[str, str]], bool], str]:
    try:
        from jinja2.exceptions import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "this chat template is written in Jinja, which needs the package jinja2: pip install jinja2", name="jinja2"
        ) from None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    try:
        made = environment.from_string(template)
    except TemplateError as error:
        raise ValueError(f"the chat template is no Jinja template: {error}") from None

    def render(messages: Sequence[Mapping[str, str]], begin: bool) -> str:
        if not messages and not begin:
            return ""
        text: str = made.render(messages=list(messages), add_generation_prompt=begin, **variables)
        return text

    return render


def _refuse(why: str) -> None:
    raise ValueError(f"the chat template refuses the conversation: {why}")
