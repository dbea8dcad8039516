"""Files of every format that are cut, replaced, written to, appended to or removed while they are read.

A pass gives the rows of before or an error, a state is refused for other files, and a new pass gives the rows of now.
"""

import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.chaos import changes, files

import headrace as hr
from headrace.physical.file_cuts import FilesCut
from headrace.plan.marks import Position
from headrace.plan.prepared import Prepared


@pytest.mark.filterwarnings("ignore")  # of shrunken files
@pytest.mark.parametrize("how", changes.HOW)
@pytest.mark.parametrize("kind", files.KINDS)
def test_a_file_that_changes_while_it_is_read(kind, how, tmp_path):
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        changes.changed(random.Random(seed), folder, kind, how)


def test_the_error_of_a_file_that_has_fewer_rows_than_were_read_of_it(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": range(400)}), path)
    node = hr.ParquetDataset(str(path))._node
    os.truncate(path, 0)
    cut = FilesCut(node, 0, 1, None, None, site=node.site, name=node.name, stands_for=node)
    prepared = Prepared.of(node)
    error, rest = cut.changed_midway({prepared.number(node): Position(350, 350)}, prepared)
    assert str(path) in str(error) and rest is None
