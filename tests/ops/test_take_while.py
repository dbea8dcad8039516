"""take_while: elements up to the first that ends them."""

import headrace as hr

D = hr.Dataset


def lists(rows):
    return [r.tolist() for r in rows]


def read(windows):
    return [[int(x) for x in w] for w in windows]


def test_take_while_reads_no_further_than_the_element_that_ends_it():
    read = []
    ds = D.range(100).map(lambda x: read.append(int(x)) or x).take_while(lambda x: x < 3).batch(10)
    assert lists(ds) == [[0, 1, 2]]
    assert read == [0, 1, 2, 3]
