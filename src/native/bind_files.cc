#include <system_error>

#include "mapped.h"
#include "python.h"

namespace headrace::python {

namespace {

// What the system refuses is an OSError with its number.
template <typename Work>
auto as_os_error(Work work) {
  try {
    return work();
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
}

template <typename Mapped>
auto all_bytes(const Mapped& mapped) {
  return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(mapped.data(), {mapped.size()}, nb::find(mapped));
}

void require_part(const MappedParts& parts, int64_t start, int64_t count) {
  require(start >= 0 && count > 0 && size_t(start) <= parts.size() && size_t(count) <= parts.size() - size_t(start),
          "that is no part of it");
  require(MappedParts::is_aligned(size_t(start)), "a part begins with a page");
  require(MappedParts::is_aligned(size_t(count)) || size_t(start + count) == parts.size(), "a part ends with a page");
}

void bind_parts(nb::module_& m) {
  nb::class_<MappedParts>(m, "MappedParts")
      .def(
          "__init__",
          [](MappedParts* made, int64_t size) {
            require(size > 0, "there is nothing to map");
            as_os_error([&] { return new (made) MappedParts(size_t(size)); });
          },
          "size"_a)
      .def_prop_ro("data", &all_bytes<MappedParts>, nb::rv_policy::reference)
      .def_prop_ro("intact", &MappedParts::intact)
      .def(
          "put_file",
          [](MappedParts& parts, int descriptor, int64_t start, int64_t count) {
            require_part(parts, start, count);
            as_os_error([&] { parts.put_file(descriptor, size_t(start), size_t(count)); });
          },
          "descriptor"_a, "start"_a, "count"_a)
      .def(
          "put_copy",
          [](MappedParts& parts, nb::handle source, int64_t start) {
            const Buffer buffer(source);
            require_part(parts, start, int64_t(buffer.size()));
            as_os_error([&] {
              nb::gil_scoped_release released;
              parts.put_copy(buffer.data(), size_t(start), buffer.size());
            });
          },
          "buffer"_a, "start"_a)
      .def(
          "take_away",
          [](MappedParts& parts, int64_t start) {
            require(start >= 0, "that is no part of it");
            as_os_error([&] { parts.take_away(size_t(start)); });
          },
          "start"_a);
}

}  // namespace

void bind_files(nb::module_& m) {
  bind_parts(m);
  nb::class_<MappedFile>(m, "MappedFile")
      .def(
          "__init__",
          [](MappedFile* made, int descriptor, int64_t size) {
            require(size > 0, "there is nothing to map");
            as_os_error([&] { return new (made) MappedFile(descriptor, size_t(size)); });
          },
          "descriptor"_a, "size"_a)
      .def_prop_ro("data", &all_bytes<MappedFile>, nb::rv_policy::reference)
      .def_prop_ro("intact", &MappedFile::intact)
      .def("load", [](const MappedFile&, int64_t, int64_t) {}, "start"_a, "stop"_a)
      .def(
          "release",
          [](const MappedFile& file, int64_t start, int64_t stop) {
            require(0 <= start && start <= stop && size_t(stop) <= file.size(), "that is no part of the file");
            file.release(size_t(start), size_t(stop));
          },
          "start"_a, "stop"_a);
}

}  // namespace headrace::python
