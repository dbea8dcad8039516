// The module `headrace._native`: one file of bindings for each subject, which checks every argument.
#include "kernels.h"
#include "python.h"

NB_MODULE(_native, m) {
  using namespace headrace::python;
  nb::set_leak_warnings(false);  // compiled descriptions are kept until the interpreter ends
  bind_records(m);   // TFRecord framing and checksums
  bind_files(m);     // files as memory
  bind_memory(m);    // memory reuse, and rows copied by several threads
  bind_examples(m);  // tf.Example to columns and back
  bind_arrow(m);
  bind_csv(m);
  bind_cut(m);  // where files can be divided
  bind_turns(m);  // the merge of interleaved lanes
  bind_delivery(m);  // the last step of next()
  bind_rows(m);      // elements of columns
  bind_shuffle(m);  // draws, the buffer's rows, permutations
  bind_ragged(m);
  bind_random(m);  // draws that belong to rows
  bind_pack(m);  // sequences into rows of one length
  bind_text(m);  // words, characters, numbers in text
  bind_features(m);  // hashes, ids and feature columns
  bind_sqlite(m);  // rows of a query as columns
  bind_batches(m);  // Arrow batches, read ahead
  bind_image(m);  // headers of image files, and loops over pixels
  m.def("die_with_parent", &headrace::die_with_parent);
  m.def("run_delay", &headrace::run_delay);  // faster than waiting for the GIL
}
