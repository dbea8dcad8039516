#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

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

// Has NumPy take the memory of new arrays from the pool, in this thread, until what it gives back is handed in again.
nb::object use_pool(nb::object before) {
  static PyObject* ours = PyCapsule_New(&handler, "mem_handler", nullptr);
  PyObject* old = PyDataMem_SetHandler(before.is_none() ? ours : before.ptr());
  if (!old) throw nb::python_error();
  return nb::steal(old);
}

nb::dict pool_stats() {
  const headrace::PoolStats stats = headrace::pool_stats();
  nb::dict made;
  made["in_use"] = stats.in_use;
  made["idle"] = stats.idle;
  made["taken"] = stats.taken;
  made["reused"] = stats.reused;
  return made;
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

}  // namespace

void bind_memory(nb::module_& m) {
  if (_import_array() < 0) throw nb::python_error();
  m.def("use_pool", &use_pool, "before"_a.none() = nb::none());
  m.def("pool_keep", &headrace::pool_keep, "bytes"_a, Released());
  m.def("pool_stats", &pool_stats);
  m.def("set_team", &headrace::set_team, "threads"_a);
  m.def("gather", &gather, "rows"_a, "indices"_a, "out"_a.noconvert(), Released());
  m.def("keep_heap", &headrace::keep_heap, Released());
  m.def("release_memory", &headrace::release_memory, Released());
}

}  // namespace headrace::python
