"""Conversations to tokens and loss masks, for supervised fine-tuning."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from headrace.core.types import Array, JsonValue, Nested
from headrace.plan.spec import TensorSpec
from headrace.text.tokenizers import Tokenizer

Mask = Literal["assistant", "all"]
"""Which tokens the loss is taken of."""
Message = Mapping[str, Any]
Render = Callable[[Sequence[Message], bool], str]
"""Conversations as text; the flag says whether the header of an answer follows."""

GENERATION_TAGS = re.compile(r"\{%(-?)\s*(generation|endgeneration)\s*(-?)%\}")
BEGIN, END = "\ue0b1", "\ue0b2"
"""Characters for private use that stand around what a template says is generated."""


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

    def __call__(self, element: Nested) -> dict[str, Array]:
        """The tokens of a conversation, and of each whether it is learnt."""
        pieces = self.pieces(element)
        values, cuts = self.tokenizer.encode_rows([text for text, _ in pieces])
        learnt = np.repeat([learns for _, learns in pieces], np.diff(cuts)).astype(np.bool_)
        return {"tokens": values.astype(np.int32), "loss_mask": learnt}

    def pieces(self, element: Nested) -> list[tuple[str, bool]]:
        """The conversation as text, cut where the loss begins or ends to be taken."""
        messages = _messages(element, self.messages)
        render = self._render
        marks = bool(GENERATION_TAGS.search(self.template))
        if marks:
            _check_free_of_marks(messages)
        if self.mask == "all":
            text = render(messages, False)
            return [(text.replace(BEGIN, "").replace(END, "") if marks else text, True)]
        if marks:
            return _marked(render(messages, False))
        made: list[tuple[str, bool]] = []
        done = ""
        for number, message in enumerate(messages):
            whole = render(messages[: number + 1], False)
            learns = message["role"] == "assistant"
            prompt = render(messages[:number], True) if learns else done
            if not prompt.startswith(done) or not whole.startswith(prompt):
                raise ValueError(
                    f"the template writes earlier messages in another way once message {number} ({message['role']}) "
                    "follows: which tokens are its own cannot be told; {% generation %} in it says so"
                )
            made += [(prompt[len(done) :], False), (whole[len(prompt) :], learns)]
            done = whole
        return [piece for piece in made if piece[0]]

    @cached_property
    def _render(self) -> Render:
        if "{%" in self.template or "{{" in self.template:
            return _jinja(self.template, self.variables)
        head, found, tail = self.template.partition("{content}")
        if not found:
            raise ValueError("a chat template says where {content} goes, such as '<|{role}|>{content}<|end|>'")

        def render(messages: Sequence[Message], begin: bool) -> str:
            written = "".join(
                head.replace("{role}", m["role"]) + _content(m) + tail.replace("{role}", m["role"]) for m in messages
            )
            return written + head.replace("{role}", "assistant") if begin else written

        return render


def chat(
    tokenizer: object,
    template: str | None = None,
    mask: Mask = "assistant",
    *,
    messages: str = "messages",
    variables: Mapping[str, object] | None = None,
) -> Chat:
    """Return a function for `map` that turns a conversation into tokens and a loss mask.

    The conversation is rendered and cut into pieces where the loss begins or ends to be taken; each piece is tokenised
    by itself, without special tokens but those that the template writes. So the mask is exact: of an answer it covers
    what follows the header of its message, with the text that ends it; or what the template has between
    `{% generation %}` and `{% endgeneration %}`, if it has these.

    Args:
        tokenizer: A tokenizer as `hr.text.Tokenizer` takes it.
        template: How messages are written: `"<|{role}|>{content}<|end|>"`, or a Jinja template, as models on Hugging
            Face have one (needs `jinja2`). Default: the one of a tokenizer of `transformers`.
        mask: "assistant" takes the loss of the answers alone, "all" of everything.
        messages: The component with the messages: `role` and `content` of each, as lists or as a list of dicts. JSON
            lines and Parquet files with nested messages have it so. A Jinja template also sees what else they have.
        variables: What a Jinja template reads besides messages, such as `tools`. The special tokens of a tokenizer of
            `transformers`, such as `bos_token`, are among them.

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
    if template is None:
        template = getattr(given, "chat_template", None)
        if not isinstance(template, str):
            raise ValueError("the tokenizer has no chat template: give one, such as '<|{role}|>{content}<|end|>'")
    known = {**(getattr(given, "special_tokens_map", None) or {}), **(variables or {})}
    made = Chat(Tokenizer(given, add_special_tokens=False), template, mask, messages, known)
    _ = made._render  # a template that is none is refused here
    return made


def _messages(element: object, name: str) -> list[dict[str, Any]]:
    """The messages of an element, one dict each."""
    if not isinstance(element, Mapping) or name not in element:
        found = sorted(element) if isinstance(element, Mapping) else type(element).__name__
        raise ValueError(f"there are no messages {name!r} in the element: it has {found}")
    given = element[name]
    if isinstance(given, Mapping):
        columns = {str(key): list(column) for key, column in given.items()}
        sizes = {key: len(column) for key, column in columns.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"the parts of messages differ in number: {sizes}")
        given = [dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True)]
    made = [{str(key): _plain(value) for key, value in message.items()} for message in given]
    if not made:
        raise ValueError("the conversation has no messages")
    missing = [part for part in ("role", "content") if any(part not in message for message in made)]
    if missing:
        raise ValueError(f"messages have a role and a content, {missing[0]!r} is missing")
    return made


def _plain(value: object) -> JsonValue:
    """A part of a message as templates take it: text, numbers, lists and dicts."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _content(message: Message) -> str:
    """The text of a message; that of one that calls tools may be none."""
    content = message["content"]
    return "" if content is None else str(content)


def _check_free_of_marks(messages: Sequence[Message]) -> None:
    """Refuse conversations with the characters that mark what is generated."""
    text = json.dumps(messages, ensure_ascii=False, default=str)
    if BEGIN in text or END in text:
        raise ValueError(f"the conversation has a character for private use, {BEGIN!r} or {END!r}: leave it out")


def _marked(text: str) -> list[tuple[str, bool]]:
    """A rendered conversation, cut where the template says that something is generated."""
    head, *rest = text.split(BEGIN)
    made = [(head, False)]
    for part in rest:
        generated, _, after = part.partition(END)
        made += [(generated, True), (after, False)]
    return [piece for piece in made if piece[0]]


def _jinja(template: str, variables: Mapping[str, object]) -> Render:
    try:
        import jinja2
        from jinja2.exceptions import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "this chat template is written in Jinja, which needs the package jinja2: pip install jinja2", name="jinja2"
        ) from None
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _json
    environment.globals["raise_exception"] = _refuse
    written = GENERATION_TAGS.sub(_mark, template)
    try:
        made = environment.from_string(written)
    except TemplateError as error:
        raise ValueError(f"the chat template is no Jinja template: {error}") from None

    def render(messages: Sequence[Message], begin: bool) -> str:
        if not messages and not begin:
            return ""
        try:
            text: str = made.render(messages=list(messages), add_generation_prompt=begin, **variables)
        except jinja2.UndefinedError as error:
            raise ValueError(f"the chat template needs what is not there: {error}; give it in variables=") from None
        return text

    return render


def _mark(tag: re.Match[str]) -> str:
    """What stands for a tag around what is generated: the same white space control, and a character that marks it."""
    before, kind, after = tag.groups()
    character = END if kind == "endgeneration" else BEGIN
    return f"{{%{before} if true %}}{{{{ {character!r} }}}}{{% endif {after}%}}"


def _json(value: object, indent: int | None = None) -> str:
    """As JSON for models, not for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(why: str) -> None:
    raise ValueError(f"the chat template refuses the conversation: {why}")
