#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kernels.h"
#include "pool.h"
#include "python.h"
#include "team.h"

namespace headrace::python {
namespace {

void* take(void*, size_t bytes) { return headrace::pool_take(bytes); }
void* take_zeroed(void*, size_t count, size_t size) {
  return size && count > SIZE_MAX / size ? nullptr : headrace::pool_take_zeroed(count * size);
}
void* resize(void*, void* memory, size_t bytes) { return headrace::pool_resize(memory, bytes); }
void give(void*, void* memory, size_t) { headrace::pool_give(memory); }

PyDataMem_Handler handler = {"headrace_pool", 1, {nullptr, take, take_zeroed, resize, give}};

// Let NumPy allocate new arrays from the pool, in this thread, until the returned handle is passed back.
nb::object use_pool(nb::object before) {
  static PyObject* ours = PyCapsule_New(&handler, "mem_handler", nullptr);
  PyObject* old = PyDataMem_SetHandler(before.is_none() ? ours : before.ptr());
  if (!old) throw nb::python_error();
  return nb::steal(old);
}

// A pass, for the pool: idle memory is kept until the last one ends.
class PassMemory {
 public:
  PassMemory() { headrace::pass_begins(); }
  PassMemory(const PassMemory&) = delete;
  PassMemory& operator=(const PassMemory&) = delete;
  ~PassMemory() { end(true); }

  void end(bool worth) {
    if (!std::exchange(ended_, true)) headrace::pass_ends(worth);
  }

 private:
  bool ended_ = false;
};

nb::dict pool_stats() {
  const headrace::PoolStats stats = headrace::pool_stats();
  nb::dict made;
  made["in_use"] = stats.in_use;
  made["idle"] = stats.idle;
  made["taken"] = stats.taken;
  made["reused"] = stats.reused;
  made["pinned"] = stats.pinned;
  return made;
}

// The start and size of the mapping that contains an address; None if it is not the pool's.
nb::object pool_mapping(uintptr_t address) {
  const headrace::PoolMapping found = headrace::pool_mapping(address);
  return found.bytes ? nb::object(nb::make_tuple(found.start, found.bytes)) : nb::none();
}

// out[i] = rows[indices[i]], for rows of bytes.
void gather(ConstRows rows, ConstInts indices, Rows out) {
  const size_t size = rows.shape(1);
  const int64_t count = int64_t(indices.shape(0)), most = int64_t(rows.shape(0));
  require(out.shape(0) == size_t(count) && out.shape(1) == size, "out does not fit");
  for (int64_t i = 0; i < count; ++i) {
    require(indices.data()[i] >= 0 && indices.data()[i] < most, "index out of range");
  }
  headrace::gather(rows.data(), size, indices.data(), count, out.data());
}

// Every number must be below `most`, the number of rows.
void require_rows(const std::optional<ConstInts>& numbers, int64_t count, int64_t most) {
  require(numbers ? int64_t(numbers->shape(0)) == count : count <= most, "different numbers of rows");
  for (int64_t i = 0; numbers && i < count; ++i) {
    require(numbers->data()[i] >= 0 && numbers->data()[i] < most, "index out of range");
  }
}

// out[places[i]] = rows[indices[i]], of an array with any strides.
void copy_rows(nb::object from, nb::object to, std::optional<ConstInts> indices, std::optional<ConstInts> places) {
  require(PyArray_Check(from.ptr()) && PyArray_Check(to.ptr()), "no arrays");
  PyArrayObject* rows = reinterpret_cast<PyArrayObject*>(from.ptr());
  PyArrayObject* out = reinterpret_cast<PyArrayObject*>(to.ptr());
  const int axes = PyArray_NDIM(rows);
  require(axes >= 1 && axes == PyArray_NDIM(out), "different ranks");
  require(PyArray_EquivTypes(PyArray_DESCR(rows), PyArray_DESCR(out)), "different dtypes");
  require(!PyDataType_REFCHK(PyArray_DESCR(rows)), "objects cannot be copied as bytes");
  require(PyArray_IS_C_CONTIGUOUS(out) && PyArray_ISWRITEABLE(out), "out is not in C order, or cannot be written to");
  for (int i = 1; i < axes; ++i) require(PyArray_DIM(rows, i) == PyArray_DIM(out, i), "rows of different shapes");
  const int64_t have = PyArray_DIM(rows, 0), room = PyArray_DIM(out, 0);
  const int64_t count = indices ? int64_t(indices->shape(0)) : places ? int64_t(places->shape(0)) : have;
  require_rows(indices, count, have);
  require_rows(places, count, room);
  const uint8_t* data = static_cast<const uint8_t*>(PyArray_DATA(rows));
  uint8_t* into = static_cast<uint8_t*>(PyArray_DATA(out));
  const std::vector<int64_t> sizes(PyArray_DIMS(rows) + 1, PyArray_DIMS(rows) + axes);
  const std::vector<int64_t> steps(PyArray_STRIDES(rows) + 1, PyArray_STRIDES(rows) + axes);
  const int64_t row_step = PyArray_STRIDE(rows, 0), item = PyArray_ITEMSIZE(rows);
  const ReleasedFor released(size_t(count * item * std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>())));
  headrace::copy_strided(data, row_step, indices ? indices->data() : nullptr, count, sizes.data(), steps.data(), axes - 1,
                         item, places ? places->data() : nullptr, into);
}

// A view of an array of this shape that begins at `data`.
nb::object view_of(PyArrayObject* array, int axes, const npy_intp* shape, const npy_intp* strides, void* data) {
  Py_INCREF(reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
  PyObject* made = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(array), axes, shape, strides, data,
                                        PyArray_FLAGS(array) & ~NPY_ARRAY_OWNDATA, nullptr);
  if (!made) throw nb::python_error();
  nb::object view = nb::steal(made);
  Py_INCREF(reinterpret_cast<PyObject*>(array));
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(made), reinterpret_cast<PyObject*>(array)) != 0) {
    throw nb::python_error();
  }
  return view;
}

// Rows `start` to before `stop` of each column, sharing memory. One call, because a wide table has many columns.
nb::list slice_columns(nb::sequence columns, Py_ssize_t start, Py_ssize_t stop) {
  nb::object slice;
  nb::list made;
  for (nb::handle column : columns) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(column.ptr());
    if (PyArray_CheckExact(column.ptr()) && PyArray_NDIM(array) && 0 <= start && start <= stop &&
        stop <= PyArray_DIM(array, 0)) {
      const int axes = PyArray_NDIM(array);
      npy_intp shape[NPY_MAXDIMS];
      std::copy(PyArray_DIMS(array), PyArray_DIMS(array) + axes, shape);
      shape[0] = stop - start;
      made.append(view_of(array, axes, shape, PyArray_STRIDES(array), PyArray_BYTES(array) + start * PyArray_STRIDE(array, 0)));
      continue;
    }
    if (!slice.is_valid()) slice = nb::slice(nb::int_(start), nb::int_(stop), nb::none());
    PyObject* part = PyObject_GetItem(column.ptr(), slice.ptr());
    if (!part) throw nb::python_error();
    made.append(nb::steal(part));
  }
  return made;
}

// Every `size` rows of each array as one, sharing memory; None for what is no array in C order. And whether all are.
nb::tuple fold_columns(nb::sequence columns, Py_ssize_t size) {
  nb::list made;
  bool whole = true;
  for (nb::handle column : columns) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(column.ptr());
    const int axes = PyArray_CheckExact(column.ptr()) ? PyArray_NDIM(array) : 0;
    if (!axes || axes >= NPY_MAXDIMS || size < 1 || PyArray_DIM(array, 0) % size || !PyArray_IS_C_CONTIGUOUS(array)) {
      made.append(nb::none());
      whole = false;
      continue;
    }
    npy_intp shape[NPY_MAXDIMS];
    shape[0] = PyArray_DIM(array, 0) / size;
    shape[1] = size;
    std::copy(PyArray_DIMS(array) + 1, PyArray_DIMS(array) + axes, shape + 2);
    made.append(view_of(array, axes + 1, shape, nullptr, PyArray_BYTES(array)));
  }
  return nb::make_tuple(made, whole);
}

// Whether `join_arrays` can join these. All have one dtype, of which NumPy makes no other when it joins arrays.
bool joinable(const nb::tuple& arrays) {
  PyArrayObject* first = nullptr;
  for (nb::handle each : arrays) {
    if (!PyArray_CheckExact(each.ptr())) return false;
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(each.ptr());
    if (!PyArray_NDIM(array) || !PyArray_IS_C_CONTIGUOUS(array)) return false;
    if (!first) {
      first = array;
      PyArray_Descr* dtype = PyArray_DESCR(array);
      const bool plain = PyDataType_ISLEGACY(dtype) && PyArray_ISNBO(dtype->byteorder);
      if (!plain || PyDataType_REFCHK(dtype) || PyDataType_HASFIELDS(dtype) || PyDataType_METADATA(dtype)) return false;
    }
    if (PyArray_DESCR(array) != PyArray_DESCR(first) || PyArray_NDIM(array) != PyArray_NDIM(first)) return false;
    for (int i = 1; i < PyArray_NDIM(first); ++i) {
      if (PyArray_DIM(array, i) != PyArray_DIM(first, i)) return false;
    }
  }
  return first != nullptr;
}

size_t row_bytes(PyArrayObject* array) {
  size_t bytes = size_t(PyArray_ITEMSIZE(array));
  for (int i = 1; i < PyArray_NDIM(array); ++i) bytes *= size_t(PyArray_DIM(array, i));
  return bytes;
}

// Each group of arrays as one, of the i-th of each group rows `bounds[i][0]` to before `bounds[i][1]`. None for a group that is not joinable, is empty, or has `limit` bytes and more. All
// bytes are copied at once: to release the GIL for each column of a wide table takes longer than to copy the columns.
nb::list join_arrays(nb::sequence groups, size_t limit, std::vector<std::pair<npy_intp, npy_intp>> bounds) {
  struct Part {
    const void* from;
    void* to;
    size_t bytes;
  };
  std::vector<Part> parts;
  std::vector<nb::tuple> held;  // the arrays, while the GIL is released
  size_t total = 0;
  nb::list made;
  for (nb::handle each : groups) {
    const nb::tuple& group = held.emplace_back(each);
    size_t bytes = 0;
    npy_intp rows = 0;
    if (joinable(group)) {
      require(group.size() == bounds.size(), "bounds of other parts");
      for (size_t i = 0; i < bounds.size(); ++i) {
        PyArrayObject* array = reinterpret_cast<PyArrayObject*>(group[i].ptr());
        const auto [start, stop] = bounds[i];
        require(0 <= start && start <= stop && stop <= PyArray_DIM(array, 0), "rows out of range");
        bytes += size_t(stop - start) * row_bytes(array);
        rows += stop - start;
      }
    }
    if (!bytes || bytes >= limit) {
      made.append(nb::none());
      continue;
    }
    nb::handle front = group[0];
    PyArrayObject* first = reinterpret_cast<PyArrayObject*>(front.ptr());
    std::vector<npy_intp> shape(PyArray_DIMS(first), PyArray_DIMS(first) + PyArray_NDIM(first));
    shape[0] = rows;
    Py_INCREF(reinterpret_cast<PyObject*>(PyArray_DESCR(first)));
    PyObject* joined = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(first), PyArray_NDIM(first), shape.data(),
                                            nullptr, nullptr, 0, nullptr);
    if (!joined) throw nb::python_error();
    made.append(nb::steal(joined));
    uint8_t* to = static_cast<uint8_t*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(joined)));
    for (size_t i = 0; i < bounds.size(); ++i) {
      PyArrayObject* from = reinterpret_cast<PyArrayObject*>(group[i].ptr());
      const auto [start, stop] = bounds[i];
      parts.push_back({PyArray_BYTES(from) + size_t(start) * row_bytes(from), to, size_t(stop - start) * row_bytes(from)});
      to += parts.back().bytes;
    }
    total += bytes;
  }
  const ReleasedFor released(total);
  for (const Part& part : parts) std::memcpy(part.to, part.from, part.bytes);
  return made;
}

// Rows of several arrays of objects, by their numbers among all of them. They are counted once, and most are in runs.
nb::object pick_objects(nb::list columns, ConstInts order) {
  struct Part {
    const char* data;
    int64_t stride, start, stop;
  };
  constexpr size_t kAhead = 16;
  std::vector<Part> parts;
  int64_t rows = 0;
  for (nb::handle each : columns) {
    require(PyArray_Check(each.ptr()), "arrays");
    auto* const array = reinterpret_cast<PyArrayObject*>(each.ptr());
    require(PyArray_TYPE(array) == NPY_OBJECT && PyArray_NDIM(array) == 1, "arrays of objects with one axis");
    const int64_t count = PyArray_DIM(array, 0);
    if (count) parts.push_back({PyArray_BYTES(array), PyArray_STRIDE(array, 0), rows, rows + count});
    rows += count;
  }
  std::vector<PyObject*> found(order.shape(0));
  const Part* part = parts.data();
  for (size_t i = 0; i < found.size(); ++i) {
    const int64_t row = order.data()[i];
    require(0 <= row && row < rows, "no such row");
    if (row < part->start || row >= part->stop) {
      part = &*std::upper_bound(parts.begin(), parts.end(), row,
                                [](int64_t wanted, const Part& each) { return wanted < each.stop; });
    }
    std::memcpy(&found[i], part->data + (row - part->start) * part->stride, sizeof(PyObject*));
  }
  nb::object made = object_array(found.size());
  const Buffer places(made, PyBUF_WRITABLE);
  PyObject** const out = static_cast<PyObject**>(places.memory());
  for (size_t i = 0; i < found.size(); ++i) {
    if (i + kAhead < found.size() && found[i + kAhead]) __builtin_prefetch(found[i + kAhead], 1);
    PyObject* const value = found[i] ? found[i] : Py_None;
    Py_INCREF(value);
    Py_XDECREF(std::exchange(out[i], value));
  }
  return made;
}

// Append up to `want` values of an iterator to a list, arrays as copies, because their producer may reuse them. False
// at the end of the iterator; the values before an exception are in the list.
bool fetch_values(nb::object iterator, nb::list values, int64_t want) {
  require(PyIter_Check(iterator.ptr()), "no iterator");
  for (int64_t i = 0; i < want; ++i) {
    PyObject* next = PyIter_Next(iterator.ptr());
    if (!next) {
      if (PyErr_Occurred()) throw nb::python_error();
      return false;
    }
    nb::object value = nb::steal(next);
    if (PyArray_Check(next)) value = value.attr("copy")();
    values.append(value);
  }
  return true;
}

// NumPy's own type: of the two that it has for 64-bit integers, the one that it uses itself.
int type_number(char kind, size_t width) {
  switch (kind) {
    case 'b': return NPY_BOOL;
    case 'f': return width == 8 ? NPY_FLOAT64 : NPY_FLOAT32;
    case 'i': return width == 8 ? NPY_INT64 : width == 4 ? NPY_INT32 : width == 2 ? NPY_INT16 : NPY_INT8;
    default: return width == 8 ? NPY_UINT64 : width == 4 ? NPY_UINT32 : width == 2 ? NPY_UINT16 : NPY_UINT8;
  }
}

}  // namespace

nb::object numpy_array(void* memory, size_t size, char kind, size_t width, nb::capsule owner) {
  npy_intp shape = npy_intp(size);
  PyArray_Descr* dtype = PyArray_DescrFromType(type_number(kind, width));
  nb::object made =
      nb::steal(PyArray_NewFromDescr(&PyArray_Type, dtype, 1, &shape, nullptr, memory, NPY_ARRAY_CARRAY, nullptr));
  if (!made.is_valid()) throw nb::python_error();
  PyObject* kept = owner.release().ptr();  // the array takes it, also if this fails
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(made.ptr()), kept) != 0) throw nb::python_error();
  return made;
}

void bind_memory(nb::module_& m) {
  if (_import_array() < 0) throw nb::python_error();
  m.def("use_pool", &use_pool, "before"_a.none() = nb::none());
  m.def("pool_keep", &headrace::pool_keep, "bytes"_a, Released());
  m.def("pool_stats", &pool_stats);
  nb::class_<PassMemory>(m, "PassMemory").def(nb::init<>()).def("end", &PassMemory::end, "worth"_a);
  m.def("pool_mapping", &pool_mapping, "address"_a);
  m.def("pool_pin", &headrace::pool_pin, "start"_a);
  m.def("pool_unpin", &headrace::pool_unpin, "start"_a, Released());
  m.def("pool_unwanted", &headrace::pool_unwanted);
  m.def("pick_objects", &pick_objects, "columns"_a, "order"_a);
  m.def("fetch_values", &fetch_values, "iterator"_a, "values"_a, "want"_a);
  m.def("set_team", &headrace::set_team, "threads"_a);
  m.def("gather", &gather, "rows"_a, "indices"_a, "out"_a.noconvert(), Released());
  m.def("copy_rows", &copy_rows, "rows"_a, "out"_a, "indices"_a.none() = nb::none(), "places"_a.none() = nb::none());
  m.def("slice_columns", &slice_columns, "columns"_a, "start"_a, "stop"_a);
  m.def("fold_columns", &fold_columns, "columns"_a, "size"_a);
  m.def("join_arrays", &join_arrays, "groups"_a, "limit"_a, "bounds"_a);
  m.def("keep_heap", &headrace::keep_heap, Released());
  m.def("release_memory", &headrace::release_memory, Released());
}

}  // namespace headrace::python
