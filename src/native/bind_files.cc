#include <nanobind/stl/tuple.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "mapped.h"
#include "python.h"
#include "team.h"

namespace headrace::python {

namespace {

// Raise an OSError with the system's error number.
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

struct KnownFile {
  std::string path;
  size_t start;
  FileStamp was;
  size_t count;
};

// Map files as long as they are unchanged; return how many.
int64_t put_known(MappedParts& parts, nb::list files) {
  std::vector<KnownFile> known;
  for (nb::handle each : files) {
    const auto [path, start, device, inode, size, changed, count] =
        nb::cast<std::tuple<nb::bytes, int64_t, uint64_t, uint64_t, uint64_t, int64_t, int64_t>>(each);
    require_part(parts, start, count);
    known.push_back({{path.c_str(), path.size()}, size_t(start), {device, inode, size, changed}, size_t(count)});
  }
  return as_os_error([&] {
    nb::gil_scoped_release released;  // once for all system calls
    int64_t put = 0;
    for (const KnownFile& file : known) {
      if (!parts.put_known(file.path.c_str(), file.was, file.start, file.count)) break;
      ++put;
    }
    return put;
  });
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
      .def("guard", [](const MappedParts&) { guard_mapped(); })
      .def("put_known", &put_known, "files"_a)
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

nb::list can_read(nb::list paths) {
  std::vector<std::string> names;
  for (nb::handle path : paths) {
    const nb::bytes name = nb::cast<nb::bytes>(path);
    names.emplace_back(name.c_str(), name.size());
  }
  std::vector<bool> found;
  {
    nb::gil_scoped_release released;
    for (const std::string& name : names) found.push_back(access(name.c_str(), R_OK) == 0);
  }
  nb::list made;
  for (const bool each : found) made.append(nb::bool_(each));
  return made;
}

constexpr size_t kReleased = 4 << 20;  // bytes whose pages are unmapped at a time: as long as it takes to wake a thread

struct FilePart {
  const MappedFile* file;
  size_t start;
};

// Unmap all pages of these files on several threads: there are many, and the system is slow with each.
void release_files(nb::list files) {
  std::vector<FilePart> parts;
  for (nb::handle each : files) {
    const MappedFile* const file = nb::cast<const MappedFile*>(each);
    require(file, "a file that is mapped");
    for (size_t start = 0; start < file->size(); start += kReleased) parts.push_back({file, start});
  }
  nb::gil_scoped_release released;
  headrace::in_pieces(int64_t(parts.size()), 2, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const FilePart& part = parts[size_t(i)];
      part.file->release(part.start, std::min(part.file->size(), part.start + kReleased));
    }
  });
}

}  // namespace

void bind_files(nb::module_& m) {
  m.def("can_read", &can_read, "paths"_a);
  bind_parts(m);
  nb::class_<MappedFile>(m, "MappedFile", nb::dynamic_attr())
      .def(
          "__init__",
          [](MappedFile* made, int descriptor, int64_t size) {
            require(size > 0, "there is nothing to map");
            as_os_error([&] { return new (made) MappedFile(descriptor, size_t(size)); });
          },
          "descriptor"_a, "size"_a)
      .def_prop_ro("data", &all_bytes<MappedFile>, nb::rv_policy::reference)
      .def_prop_ro("intact", &MappedFile::intact)
      .def("close_file", &MappedFile::close_file)
      .def("load", [](const MappedFile&, int64_t, int64_t) { guard_mapped(); }, "start"_a, "stop"_a)
      .def(
          "release",
          [](const MappedFile& file, int64_t start, int64_t stop) {
            require(0 <= start && start <= stop && size_t(stop) <= file.size(), "that is no part of the file");
            nb::gil_scoped_release released;
            file.release(size_t(start), size_t(stop));
          },
          "start"_a, "stop"_a);
  m.def("release_files", &release_files, "files"_a);
}

}  // namespace headrace::python
