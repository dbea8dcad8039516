"""hr.text.tokenize and hr.text.chat with the real libraries, trained here on a few lines."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from tests.text.test_tokenizers import of_huggingface, of_sentencepiece, of_tiktoken

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset
LINES = ["the mill", "the wheel turns", "", "the mill turns the wheel"]
TALKS = [
    [("system", "the mill"), ("user", "turns"), ("assistant", "the wheel")],
    [("user", "the"), ("assistant", "mill"), ("user", "wheel"), ("assistant", "turns the mill")],
]
JINJA = (
    "{{ bos }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.mark.parametrize("library", [of_huggingface, of_sentencepiece, of_tiktoken], ids=lambda fn: fn.__name__)
def test_every_library_gives_its_own_tokens_by_blocks(library):
    made = library()
    alone = hr.text.Tokenizer(made)
    ds = D.from_tensor_slices({"text": LINES * 20, "id": np.arange(80)}).map(
        hr.text.tokenize(made, "text", max_length=3)
    )
    assert ds.element_spec["tokens"].dtype == np.int32, "known without a call: it runs on columns"
    rows = list(ds)
    assert [row["tokens"].tolist() for row in rows] == [alone(line)[:3].tolist() for line in LINES * 20]
    assert all(row["tokens"].dtype == np.int32 and set(row) == {"id", "tokens"} for row in rows)
    check_transformation(D.from_tensor_slices(LINES).map(hr.text.tokenize(made)).batch(1))


def word_level():
    words = ["[UNK]", *["the", "mill", "wheel", "turns", "system", "user", "assistant", "<", ">", "end", "bos"]]
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.Whitespace(), tokenizers.pre_tokenizers.Split(tokenizers.Regex("[<>]"), "isolated")]
    )
    return made, words


def learnt(row, words):
    return [words[t] for t, mask in zip(row["tokens"].tolist(), row["loss_mask"].tolist(), strict=True) if mask]


@pytest.mark.parametrize("template", ["<{role}>{content}<end>", JINJA])
def test_the_loss_is_taken_of_the_answers_alone(template):
    library, words = word_level()
    chat = hr.text.chat(library, template, variables={"bos": "bos"})
    for talk in TALKS:
        row = chat({"messages": [{"role": role, "content": content} for role, content in talk]})
        answers = [word for role, text in talk if role == "assistant" for word in [*text.split(), "<", "end", ">"]]
        assert learnt(row, words) == answers
        assert len(row["tokens"]) > len(answers) and row["tokens"].dtype == np.int32
    everything = hr.text.chat(library, template, mask="all", variables={"bos": "bos"})
    assert everything({"messages": {"role": ["user"], "content": ["the"]}})["loss_mask"].all()


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_nested_messages_of_files_are_packed_with_their_masks(format, tmp_path):
    library, words = word_level()
    rows = [{"messages": [{"role": r, "content": c} for r, c in talk]} for talk in TALKS * 3]
    path = tmp_path / f"talks.{format}"
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        ds = hr.ParquetDataset(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ds = hr.JsonLinesDataset(path)
    chat = hr.text.chat(library, "<{role}>{content}<end>")
    packed = list(ds.map(chat, output_signature=chat.output_signature).pack(64, "best_fit"))
    got = sorted(word for row in packed for word in learnt({**row, "tokens": row["tokens"]}, words))
    want = [word for talk in TALKS * 3 for r, c in talk if r == "assistant" for word in [*c.split(), "<", "end", ">"]]
    assert got == sorted(want)


def test_bad_templates_and_conversations_are_named():
    library, _ = word_level()
    for wrong, said in [
        (lambda: hr.text.chat(library, "<{role}>"), "where {content} goes"),
        (lambda: hr.text.chat(library, "{% for %}"), "no Jinja template"),
        (lambda: hr.text.chat(library, "{content}", mask="user"), "mask must be one of"),
        (lambda: hr.text.chat(library, "{content}")({"text": "a"}), "there are no messages 'messages'"),
        (lambda: hr.text.chat(library, "{content}")({"messages": []}), "has no messages"),
        (
            lambda: hr.text.chat(library, "{{ raise_exception('no') }}")({"messages": [TALK]}),
            "refuses the conversation: no",
        ),
        (lambda: hr.text.chat(library, "{{ messages|length }}")({"messages": [TALK, TALK]}), "writes earlier messages"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()


TALK = {"role": "user", "content": "the"}
