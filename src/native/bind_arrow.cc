#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <cstring>
#include <memory>

#include "python.h"

namespace headrace::python {
namespace {

// Arrow's C data interface, https://arrow.apache.org/docs/format/CDataInterface.html
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

// NumPy's type of the same layout, or -1.
int numpy_type(const ArrowSchema& column) {
  if (column.dictionary || std::strlen(column.format) != 1) return -1;
  switch (column.format[0]) {
    case 'c': return NPY_INT8;
    case 'C': return NPY_UINT8;
    case 's': return NPY_INT16;
    case 'S': return NPY_UINT16;
    case 'i': return NPY_INT32;
    case 'I': return NPY_UINT32;
    case 'l': return NPY_INT64;
    case 'L': return NPY_UINT64;
    case 'e': return NPY_FLOAT16;
    case 'f': return NPY_FLOAT32;
    case 'g': return NPY_FLOAT64;
    default: return -1;
  }
}

bool all_valid(const ArrowArray& column) {
  const uint8_t* bits = static_cast<const uint8_t*>(column.buffers[0]);
  if (column.null_count == 0 || !bits) return true;
  if (column.null_count > 0) return false;
  for (int64_t i = column.offset; i < column.offset + column.length; ++i) {  // not counted yet
    if (!(bits[i / 8] >> (i % 8) & 1)) return false;
  }
  return true;
}

void drop(ArrowArray* array) {
  if (array->release) array->release(array);
  delete array;
}

// A column of numbers without nulls as a read-only array that keeps the column's memory, which is moved out of the
// batch. None for any other column.
nb::object numbers(const ArrowSchema& schema, ArrowArray& column) {
  const int type = numpy_type(schema);
  if (type < 0 || column.n_buffers != 2 || column.offset < 0 || column.length < 1) return nb::none();
  if (!all_valid(column)) return nb::none();
  const uint8_t* values = static_cast<const uint8_t*>(column.buffers[1]);
  PyArray_Descr* dtype = PyArray_DescrFromType(type);
  const size_t item = size_t(PyDataType_ELSIZE(dtype));
  if (!values || uintptr_t(values) % item) {
    Py_DECREF(dtype);
    return nb::none();
  }
  npy_intp rows = npy_intp(column.length);
  void* first = const_cast<uint8_t*>(values) + size_t(column.offset) * item;
  nb::object made = nb::steal(PyArray_NewFromDescr(&PyArray_Type, dtype, 1, &rows, nullptr, first, 0, nullptr));
  if (!made.is_valid()) throw nb::python_error();
  std::unique_ptr<ArrowArray, void (*)(ArrowArray*)> moved(new ArrowArray(column), drop);
  column.release = nullptr;
  nb::capsule owner(moved.get(), [](void* held) noexcept { drop(static_cast<ArrowArray*>(held)); });
  moved.release();
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(made.ptr()), owner.release().ptr()) != 0) {
    throw nb::python_error();
  }
  return made;
}

// The columns of a record batch, exported to `schema` and `batch`, that are numbers without nulls; None for the others.
// The caller has validated the batch: its buffers are as long as their columns. The GIL is not released.
nb::list arrow_numbers(nb::capsule schema_capsule, nb::capsule batch_capsule) {
  auto* schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(schema_capsule.ptr(), "arrow_schema"));
  auto* batch = static_cast<ArrowArray*>(PyCapsule_GetPointer(batch_capsule.ptr(), "arrow_array"));
  if (!schema || !batch) throw nb::python_error();
  require(schema->release && batch->release && schema->n_children == batch->n_children, "a record batch");
  nb::list made;
  for (int64_t i = 0; i < batch->n_children; ++i) {
    made.append(batch->offset ? nb::none() : numbers(*schema->children[i], *batch->children[i]));
  }
  return made;
}

}  // namespace

void bind_arrow(nb::module_& m) {
  if (_import_array() < 0) throw nb::python_error();
  m.def("arrow_numbers", &arrow_numbers, "schema"_a, "batch"_a);
}

}  // namespace headrace::python
