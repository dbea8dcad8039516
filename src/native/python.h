// Shared by the bindings: arrays as arguments, their checks, memory in and out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "growing.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {

using Ints = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstInts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstRows = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstFloats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstBytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstWords = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstPlaces = nb::ndarray<const int64_t, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;
using ConstIds = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Released = nb::call_guard<nb::gil_scoped_release>;

constexpr size_t kDraw = 96;  // a random number takes as long as copying this many bytes

// Release the GIL for work on this many bytes: acquiring it again takes longer than little work.
class ReleasedFor {
 public:
  explicit ReleasedFor(size_t bytes) {
    if (bytes >= kWorth) released_.emplace();
  }

 private:
  static constexpr size_t kWorth = 256 << 10;
  std::optional<nb::gil_scoped_release> released_;
};

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Every row must be within the values, and offsets must not decrease.
inline void require_offsets(const ConstInts& offsets, size_t values) {
  require(offsets.shape(0) >= 1 && offsets.data()[0] >= 0, "offsets");
  for (size_t i = 1; i < offsets.shape(0); ++i) require(offsets.data()[i] >= offsets.data()[i - 1], "offsets");
  require(size_t(offsets.data()[offsets.shape(0) - 1]) <= values, "offsets beyond the values");
}

// The memory of any object that has some: bytes, an mmap, an array, an Arrow buffer. Made and dropped with the GIL held.
class Buffer {
 public:
  explicit Buffer(nb::handle source, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(source.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  void* memory() const { return view_.buf; }
  size_t size() const { return size_t(view_.len); }

  size_t position(int64_t at) const {
    require(at >= 0 && size_t(at) <= size(), "start lies beyond the buffer");
    return size_t(at);
  }

 private:
  Py_buffer view_;
};

// A writable array of `size` items of this kind (as `dtype.kind` names it) and width in memory that `owner` keeps.
nb::object numpy_array(void* memory, size_t size, char kind, size_t width, nb::capsule owner);

// An array that a kernel has filled: NumPy owns its memory from here on.
template <typename T>
nb::object numpy(headrace::Growing<T>& array) {
  constexpr char kKind = std::is_same_v<T, bool> ? 'b' : std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
  const size_t size = array.size();
  T* memory = array.release();
  nb::capsule owner(memory, [](void* held) noexcept { headrace::pool_give(held); });
  return numpy_array(memory, size, kKind, sizeof(T), std::move(owner));
}

// Ranges of bytes in several parts: the i-th is in part which[i], from bounds[2i] to before bounds[2i + 1].
class Ranges {
 public:
  Ranges(nb::list given, ConstInts which, ConstInts bounds) : which_(which), bounds_(bounds) {
    require(bounds.shape(0) == 2 * which.shape(0), "as many bounds as rows, twice");
    for (nb::handle part : given) {
      arrays_.push_back(nb::cast<ConstBytes>(part));
      parts_.push_back(arrays_.back().data());
    }
    for (size_t i = 0; i < which.shape(0); ++i) {
      const int64_t part = which.data()[i], start = bounds.data()[2 * i], stop = bounds.data()[2 * i + 1];
      require(part >= 0 && size_t(part) < parts_.size(), "no such part");
      require(0 <= start && start <= stop && size_t(stop) <= arrays_[size_t(part)].shape(0), "bounds out of range");
      bytes_ += size_t(stop - start);
    }
  }

  int64_t count() const { return int64_t(which_.shape(0)); }
  size_t bytes() const { return bytes_; }
  const uint8_t* const* parts() const { return parts_.data(); }
  const int64_t* which() const { return which_.data(); }
  const int64_t* bounds() const { return bounds_.data(); }
  const uint8_t* at(int64_t i) const { return parts_[size_t(which()[i])] + bounds()[2 * i]; }
  size_t size(int64_t i) const { return size_t(bounds()[2 * i + 1] - bounds()[2 * i]); }

 private:
  ConstInts which_, bounds_;
  std::vector<ConstBytes> arrays_;
  std::vector<const uint8_t*> parts_;
  size_t bytes_ = 0;
};

// An array of this many objects, most likely all None.
inline nb::object object_array(size_t size) {
  static const PyObject* empty = nb::object(nb::module_::import_("numpy").attr("empty")).release().ptr();
  return nb::handle(empty)(size, nb::handle(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
}

// Objects to be stored in an array.
class Objects {
 public:
  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  ~Objects() {
    for (size_t i = 0; i < made_.size(); ++i) Py_DECREF(made_[i]);
  }

  size_t size() const { return made_.size(); }

  void add_bytes(const uint8_t* data, size_t size) {
    PyObject* made = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(data), Py_ssize_t(size));
    if (!made) throw nb::python_error();
    made_.push(made);
  }

  // Add a bytes object of this size; return where its bytes are to be written.
  uint8_t* add_bytes(size_t size) {
    add_bytes(nullptr, size);
    return reinterpret_cast<uint8_t*>(PyBytes_AsString(made_[made_.size() - 1]));
  }

  nb::object array() {
    nb::object array = object_array(made_.size());
    const Buffer places(array, PyBUF_WRITABLE);
    PyObject** const out = static_cast<PyObject**>(places.memory());
    for (size_t i = 0; i < made_.size(); ++i) Py_XDECREF(std::exchange(out[i], made_[i]));
    made_.shrink(0);
    return array;
  }

 private:
  headrace::Growing<PyObject*> made_;
};

void bind_records(nb::module_& m);
void bind_files(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_examples(nb::module_& m);
void bind_arrow(nb::module_& m);
void bind_csv(nb::module_& m);
void bind_cut(nb::module_& m);
void bind_turns(nb::module_& m);
void bind_delivery(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_shuffle(nb::module_& m);
void bind_ragged(nb::module_& m);
void bind_pack(nb::module_& m);
void bind_random(nb::module_& m);
void bind_features(nb::module_& m);
void bind_text(nb::module_& m);
void bind_sqlite(nb::module_& m);
void bind_image(nb::module_& m);
void bind_batches(nb::module_& m);

}  // namespace headrace::python
