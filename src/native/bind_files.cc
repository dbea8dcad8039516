#include <system_error>

#include "mapped.h"
#include "python.h"

namespace headrace::python {

void bind_files(nb::module_& m) {
  using headrace::MappedFile;
  nb::class_<MappedFile>(m, "MappedFile")
      .def(
          "__init__",
          [](MappedFile* made, int descriptor, int64_t size) {
            require(size > 0, "there is nothing to map");
            try {
              new (made) MappedFile(descriptor, size_t(size));
            } catch (const std::system_error& error) {
              errno = error.code().value();
              PyErr_SetFromErrno(PyExc_OSError);
              throw nb::python_error();
            }
          },
          "descriptor"_a, "size"_a)
      .def_prop_ro(
          "data",
          [](const MappedFile& file) {
            return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(file.data(), {file.size()}, nb::find(file));
          },
          nb::rv_policy::reference)
      .def_prop_ro("intact", &MappedFile::intact)
      .def(
          "release",
          [](const MappedFile& file, int64_t start, int64_t stop) {
            require(0 <= start && start <= stop && size_t(stop) <= file.size(), "that is no part of the file");
            file.release(size_t(start), size_t(stop));
          },
          "start"_a, "stop"_a);
}

}  // namespace headrace::python
