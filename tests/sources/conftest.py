"""Files for the readers' tests."""

import pytest


@pytest.fixture
def put(tmp_path):
    """Writes files; gives their paths."""

    def write(*contents, name="file"):
        paths = []
        for i, content in enumerate(contents):
            paths.append(tmp_path / f"{name}-{i}")
            paths[-1].write_bytes(content)
        return paths

    return write
