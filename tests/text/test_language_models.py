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


GENERATION = """{%- for m in messages %}
    {{- '<' + m.role + '>' }}
    {%- if m.role == 'assistant' %}
        {%- generation %}
        {{- m.content + '<end>' }}
        {%- endgeneration %}
    {%- else %}
        {{- m.content + '<end>' }}
    {%- endif %}
{%- endfor %}"""


def test_a_template_says_what_is_generated_as_transformers_reads_it():
    transformers = pytest.importorskip("transformers")
    library, _ = word_level()
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=library)
    theirs.chat_template = GENERATION
    chat = hr.text.chat(theirs)
    for talk in TALKS:
        messages = [{"role": role, "content": content} for role, content in talk]
        row = chat({"messages": messages})
        want = theirs.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        assert row["tokens"].tolist() == want["input_ids"]
        assert row["loss_mask"].astype(int).tolist() == want["assistant_masks"]
    assert hr.text.chat(theirs, mask="all")({"messages": messages})["loss_mask"].all()
    with pytest.raises(ValueError, match="character for private use"):
        chat({"messages": [{"role": "assistant", "content": "a\ue0b1"}]})


def test_templates_see_all_parts_of_messages_and_the_special_tokens():
    transformers = pytest.importorskip("transformers")
    library, _ = word_level()
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=library, bos_token="bos")
    theirs.chat_template = (
        "{{ bos_token }}{% for m in messages %}{% if m.calls %}{{ m.calls | tojson }}{% continue %}{% endif %}"
        "{{ m.content }} {% endfor %}{{ end }}"
    )
    chat = hr.text.chat(theirs, mask="all", variables={"end": "end"})
    messages = [{"role": "user", "content": "the mill"}, {"role": "assistant", "content": None, "calls": ["wheel"]}]
    (text,) = {"".join(piece for piece, _ in chat.pieces({"messages": messages[:1]}))}
    assert text == "bosthe mill end"
    columns = {"role": ["user", "user"], "content": [b"the", None], "calls": [None, np.array(["turns"])]}
    assert "".join(piece for piece, _ in chat.pieces({"messages": columns})) == 'bosthe ["turns"]end'
    plain = hr.text.chat(library, "{role}:{content}.", mask="all")
    assert "".join(piece for piece, _ in plain.pieces({"messages": messages})) == "user:the mill.assistant:."


def test_bad_templates_and_conversations_are_named():
    library, _ = word_level()
    for wrong, said in [
        (lambda: hr.text.chat(library, "<{role}>"), "where {content} goes"),
        (lambda: hr.text.chat(library, "{% for %}"), "no Jinja template"),
        (lambda: hr.text.chat(library), "has no chat template"),
        (lambda: hr.text.chat(library, "{{ a.b }}")({"messages": [TALK]}), "what is not there"),
        (lambda: hr.text.chat(library, "{content}")({"messages": [{"role": "user"}]}), "'content' is missing"),
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
