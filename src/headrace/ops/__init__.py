"""Operations: one transformation a file, with its public function, its node and its stream."""
