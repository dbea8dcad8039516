#include <nanobind/stl/optional.h>

#include <optional>

#include "batches_ahead.h"
#include "python.h"

namespace headrace::python {

namespace {

using headrace::BatchesAhead;

void make(BatchesAhead* made, nb::capsule stream) {
  require(std::strcmp(stream.name(), "arrow_array_stream") == 0, "a capsule of a stream");
  auto* const given = static_cast<headrace::ArrowArrayStream*>(stream.data());
  require(given->release, "the stream was taken by another reader");
  new (made) BatchesAhead(*given);
}

// The address of the next batch, 0 at the end, None if not known yet.
std::optional<uintptr_t> next(BatchesAhead& batches, double seconds) {
  BatchesAhead::Found found;
  {
    const nb::gil_scoped_release released;
    found = batches.next(seconds);
  }
  if (found == BatchesAhead::Found::kError) {
    PyErr_SetString(PyExc_OSError, batches.error().c_str());
    throw nb::python_error();
  }
  if (found == BatchesAhead::Found::kNothing) return std::nullopt;
  return found == BatchesAhead::Found::kEnd ? 0 : reinterpret_cast<uintptr_t>(batches.batch());
}

}  // namespace

void bind_batches(nb::module_& m) {
  nb::class_<BatchesAhead>(m, "BatchesAhead")
      .def("__init__", &make, "stream"_a)
      .def("next", &next, "seconds"_a)
      .def("close", &BatchesAhead::close, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace headrace::python
