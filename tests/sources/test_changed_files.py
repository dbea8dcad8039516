"""Files of every format that are cut, replaced, written to, appended to or removed while they are read.

A pass gives the rows of before or an error, a state is refused for other files, and a new pass gives the rows of now.
"""

import random

import pytest
from tests.chaos import changes, files


@pytest.mark.filterwarnings("ignore")  # of shrunken files
@pytest.mark.parametrize("how", changes.HOW)
@pytest.mark.parametrize("kind", files.KINDS)
def test_a_file_that_changes_while_it_is_read(kind, how, tmp_path):
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        changes.changed(random.Random(seed), folder, kind, how)
