"""hr.text.Tokenizer with the real libraries, trained here on a few lines."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation

LINES = ["the mill stands where the stream is swift", "water turns the wheel", "", "the wheel turns", "für alle"]


def of_huggingface():
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=80, special_tokens=["[UNK]", "[CLS]"], show_progress=False)
    made.train_from_iterator(LINES * 5, trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    return made


def of_sentencepiece():
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_writer=model, vocab_size=28, minloglevel=2
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def of_tiktoken():
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([n]): n for n in range(256)} | {b"th": 256, b"the": 257, b" the": 258}
    return tiktoken.Encoding("tiny", pat_str=r" ?\w+|\S|\s", mergeable_ranks=ranks, special_tokens={})


ONE_BY_ONE = {
    of_huggingface: lambda library, line: library.encode(line).ids,
    of_sentencepiece: lambda library, line: library.encode(line),
    of_tiktoken: lambda library, line: library.encode_ordinary(line),
}


@pytest.fixture(params=list(ONE_BY_ONE), ids=lambda make: make.__name__)
def library(request):
    return request.param(), ONE_BY_ONE[request.param]


def test_columns_get_the_ids_that_single_texts_do(library):
    made, encode = library
    tokenizer = hr.text.Tokenizer(made)
    expected = [encode(made, line) for line in LINES]
    assert [tokenizer(line).tolist() for line in LINES] == expected
    ds = hr.Dataset.from_tensor_slices(LINES).map(tokenizer)
    assert ds.element_spec == hr.TensorSpec((None,), np.int64)
    assert "vectorised" in ds.explain()
    assert [row.tolist() for row in ds] == expected
    assert tokenizer(np.array(LINES, object)).to_list() == expected
    as_bytes = hr.Dataset.from_tensor_slices([line.encode() for line in LINES]).map(tokenizer)
    assert [row.tolist() for row in as_bytes] == expected
    assert tokenizer.decode(hr.text.Tokenizer(made, add_special_tokens=False)("the mill")).replace(" ", "") == "themill"
    assert tokenizer.decode(hr.Ragged.from_rows(expected[:2])).shape == (2,)


def test_tokens_go_through_a_pipeline(library):
    tokenizer = hr.text.Tokenizer(library[0])
    check_transformation(hr.Dataset.from_tensor_slices(LINES).map(tokenizer).padded_batch(2))


def test_a_tokenizer_travels_to_other_processes(library):
    made, encode = library
    copied = pickle.loads(pickle.dumps(hr.text.Tokenizer(made)))
    assert copied(LINES[0]).tolist() == encode(made, LINES[0])


def test_bytes_that_are_no_text_are_an_error_in_their_place():
    tokenizer = hr.text.Tokenizer(of_tiktoken())
    it = iter(hr.Dataset.from_tensor_slices([b"the", b"\xff", b"mill"]).map(tokenizer))
    assert next(it).tolist() == [257]
    with pytest.raises(hr.ElementError, match="no UTF-8"):
        next(it)
    assert len(next(it)) == 4


def test_files_are_opened(tmp_path):
    path = tmp_path / "tokenizer.json"
    of_huggingface().save(str(path))
    assert hr.text.Tokenizer(path)("the wheel").tolist() == of_huggingface().encode("the wheel").ids
    spm = tmp_path / "spm.model"
    spm.write_bytes(of_sentencepiece().serialized_model_proto())
    assert hr.text.Tokenizer(str(spm))("the wheel").tolist() == of_sentencepiece().encode("the wheel")
    with pytest.raises(TypeError, match="not int"):
        hr.text.Tokenizer(3)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    for name in ("tokenizer.json", "spm.model"):
        path = tmp_path / name
        with pytest.raises(FileNotFoundError, match=name):
            hr.text.Tokenizer(path)
        path.write_text("nothing")
        with pytest.raises(ValueError, match=f"{name} is not a tokenizer"):
            hr.text.tokenize(str(path))


def test_a_dict_in_place_of_a_text_names_its_components():
    rows = hr.Dataset.from_tensor_slices({"text": ["the"], "id": [1]})
    with pytest.raises(hr.ElementError, match=r"not a dict: take one of its components \['text', 'id'\]"):
        list(rows.map(hr.text.tokenize(of_huggingface())))


def test_a_missing_library_names_the_extra():
    code = "import sys; sys.modules['tokenizers'] = None\nimport headrace as hr\nhr.text.Tokenizer('tokenizer.json')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'headrace[tokenizers]'" in done.stderr
