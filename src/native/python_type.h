// Classes for Python that are made of slots: what nanobind has no binding for, such as an iterator in one C call.
#pragma once

#include "limited.h"
#include "python.h"

namespace headrace::python {

// The deallocator of a class that takes part in garbage collection. `clear` drops what an object holds.
template <int (*clear)(PyObject*)>
void end(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  free_object(self);
  Py_DECREF(type);
}

template <typename Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Add a class with garbage collection to a module. The module owns it.
inline PyTypeObject* add_type(nb::module_& m, const char* name, int size, unsigned flags, PyType_Slot* slots) {
  PyType_Spec spec = {name, size, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | flags, slots};
  PyTypeObject* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!type || PyModule_AddType(m.ptr(), type) < 0) throw nb::python_error();
  return type;
}

}  // namespace headrace::python
