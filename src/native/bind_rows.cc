// The elements of a block of arrays, made when they are taken: each a dict or a tuple of views of the columns' rows. One
// call makes an element, because a wide table has many columns.
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "python_type.h"

namespace headrace::python {
namespace {

// `columns` is a tuple of arrays and lists in the order of the components, `form` the dict that each element is a copy
// of with other values, nullptr for tuples, and `keys` a tuple of its keys.
struct Elements {
  PyObject_HEAD
  PyObject* columns;
  PyObject* keys;
  PyObject* form;
  Py_ssize_t count;
  Py_ssize_t next;
};

PyObject* row_of(PyObject* column, Py_ssize_t row) {
  if (!PyArray_CheckExact(column)) {  // a list
    PyObject* value = PyList_GetItem(column, row);
    Py_XINCREF(value);
    return value;
  }
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(column);
  char* data = PyArray_BYTES(array) + row * PyArray_STRIDE(array, 0);
  if (PyArray_NDIM(array) == 1) return PyArray_Scalar(data, PyArray_DESCR(array), column);
  Py_INCREF(reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
  PyObject* made = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(array), PyArray_NDIM(array) - 1,
                                        PyArray_DIMS(array) + 1, PyArray_STRIDES(array) + 1, data,
                                        PyArray_FLAGS(array) & ~NPY_ARRAY_OWNDATA, nullptr);
  if (!made) return nullptr;
  Py_INCREF(column);
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(made), column) != 0) {
    Py_DECREF(made);
    return nullptr;
  }
  return made;
}

PyObject* next_row(PyObject* self) {
  Elements* rows = reinterpret_cast<Elements*>(self);
  if (!rows->columns || rows->next >= rows->count) return nullptr;
  const Py_ssize_t row = rows->next++, width = PyTuple_Size(rows->columns);
  PyObject* made = rows->form ? PyDict_Copy(rows->form) : PyTuple_New(width);
  for (Py_ssize_t i = 0; made && i < width; ++i) {
    PyObject* value = row_of(PyTuple_GetItem(rows->columns, i), row);
    bool placed = value != nullptr;
    if (placed && rows->form) {
      placed = PyDict_SetItem(made, PyTuple_GetItem(rows->keys, i), value) == 0;
      Py_DECREF(value);
    } else if (placed) {
      placed = PyTuple_SetItem(made, i, value) == 0;  // takes the value
    }
    if (!placed) Py_CLEAR(made);
  }
  return made;
}

int clear(PyObject* self) {
  Elements* rows = reinterpret_cast<Elements*>(self);
  Py_CLEAR(rows->columns);
  Py_CLEAR(rows->keys);
  Py_CLEAR(rows->form);
  return 0;
}

int visit(PyObject* self, visitproc visit, void* arg) {
  Elements* rows = reinterpret_cast<Elements*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(rows->columns);
  Py_VISIT(rows->keys);
  Py_VISIT(rows->form);
  return 0;
}

PyType_Slot slots[] = {
    {Py_tp_dealloc, slot(end<clear>)},     {Py_tp_traverse, slot(visit)},     {Py_tp_clear, slot(clear)},
    {Py_tp_iter, slot(PyObject_SelfIter)}, {Py_tp_iternext, slot(next_row)}, {0, nullptr},
};

PyTypeObject* elements_type = nullptr;

// The elements of `count` rows as dicts with these keys, or tuples without; component i is in column `order[i]`. None
// if a column is neither an array nor a list, or has not as many rows.
nb::object elements(nb::list columns, nb::object keys, nb::tuple order, Py_ssize_t count) {
  const size_t width = order.size();
  nb::object held = nb::steal(PyTuple_New(Py_ssize_t(width)));
  if (!held.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < width; ++i) {
    const size_t number = nb::cast<size_t>(order[i]);
    require(number < columns.size(), "no such column");
    nb::object column = columns[number];
    const bool array = PyArray_CheckExact(column.ptr());
    if (!array && !PyList_CheckExact(column.ptr())) return nb::none();
    PyArrayObject* rows = reinterpret_cast<PyArrayObject*>(column.ptr());
    const Py_ssize_t length = !array                  ? PyList_Size(column.ptr())
                              : PyArray_NDIM(rows) ? Py_ssize_t(PyArray_DIM(rows, 0))
                                                      : -1;
    if (length != count) return nb::none();
    if (PyTuple_SetItem(held.ptr(), Py_ssize_t(i), column.release().ptr()) != 0) throw nb::python_error();
  }
  nb::object form;
  if (!keys.is_none()) {
    require(PyTuple_CheckExact(keys.ptr()) && PyTuple_Size(keys.ptr()) == Py_ssize_t(width), "a key for each column");
    form = nb::steal(PyDict_New());
    for (size_t i = 0; form.is_valid() && i < width; ++i) {
      if (PyDict_SetItem(form.ptr(), PyTuple_GetItem(keys.ptr(), Py_ssize_t(i)), Py_None) != 0) throw nb::python_error();
    }
    if (!form.is_valid()) throw nb::python_error();
    require(PyDict_Size(form.ptr()) == Py_ssize_t(width), "different keys");
  }
  PyObject* made = PyType_GenericAlloc(elements_type, 0);
  if (!made) throw nb::python_error();
  Elements* rows = reinterpret_cast<Elements*>(made);
  rows->columns = held.release().ptr();
  rows->keys = keys.is_none() ? nullptr : keys.release().ptr();
  rows->form = form.is_valid() ? form.release().ptr() : nullptr;
  rows->count = count;
  rows->next = 0;
  return nb::steal(made);
}

}  // namespace

void bind_rows(nb::module_& m) {
  if (_import_array() < 0) throw nb::python_error();
  elements_type = add_type(m, "headrace._native.Elements", sizeof(Elements), Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
  m.def("elements", &elements, "columns"_a, "keys"_a.none(), "order"_a, "count"_a);
}

}  // namespace headrace::python
