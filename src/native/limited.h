// Functions of CPython that the stable ABI lacks, so that one binary (abi3) runs on Python 3.12 and newer.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace headrace::python {

#ifdef Py_LIMITED_API

inline PyObject* next_of(PyObject* iterator) {
  return reinterpret_cast<iternextfunc>(PyType_GetSlot(Py_TYPE(iterator), Py_tp_iternext))(iterator);
}

inline void free_object(PyObject* self) { reinterpret_cast<freefunc>(PyType_GetSlot(Py_TYPE(self), Py_tp_free))(self); }

inline size_t bytes_size(PyObject* bytes) { return size_t(PyBytes_Size(bytes)); }
inline const char* bytes_data(PyObject* bytes) { return PyBytes_AsString(bytes); }

inline Py_ssize_t items_count(PyObject* list_or_tuple) { return PySequence_Size(list_or_tuple); }

// Borrowed references to the items of a list or a tuple.
class Items {
 public:
  explicit Items(PyObject* list_or_tuple) : items_(size_t(items_count(list_or_tuple))) {
    const bool list = PyList_Check(list_or_tuple);
    for (size_t i = 0; i < items_.size(); ++i) {
      items_[i] = list ? PyList_GetItem(list_or_tuple, Py_ssize_t(i)) : PyTuple_GetItem(list_or_tuple, Py_ssize_t(i));
    }
  }
  PyObject** data() { return items_.data(); }
  Py_ssize_t size() const { return Py_ssize_t(items_.size()); }

 private:
  std::vector<PyObject*> items_;
};

inline PyObject* ascii_text(const uint8_t* data, size_t size) {
  return PyUnicode_FromStringAndSize(reinterpret_cast<const char*>(data), Py_ssize_t(size));
}

inline bool is_ascii_text(PyObject* text, const uint8_t* data, size_t size) {
  Py_ssize_t length = 0;
  const char* held = PyUnicode_AsUTF8AndSize(text, &length);  // ASCII text is its own UTF-8: nothing is copied
  return size_t(length) == size && !std::memcmp(held, data, size);
}

#else

inline PyObject* next_of(PyObject* iterator) { return Py_TYPE(iterator)->tp_iternext(iterator); }
inline void free_object(PyObject* self) { Py_TYPE(self)->tp_free(self); }

inline size_t bytes_size(PyObject* bytes) { return size_t(PyBytes_GET_SIZE(bytes)); }
inline const char* bytes_data(PyObject* bytes) { return PyBytes_AS_STRING(bytes); }

inline Py_ssize_t items_count(PyObject* list_or_tuple) { return PySequence_Fast_GET_SIZE(list_or_tuple); }

// Borrowed references to the items of a list or a tuple.
class Items {
 public:
  explicit Items(PyObject* list_or_tuple) : source_(list_or_tuple) {}
  PyObject** data() { return PySequence_Fast_ITEMS(source_); }
  Py_ssize_t size() const { return items_count(source_); }

 private:
  PyObject* source_;
};

inline PyObject* ascii_text(const uint8_t* data, size_t size) {
  PyObject* const made = PyUnicode_New(Py_ssize_t(size), 127);
  if (made && size) std::memcpy(PyUnicode_1BYTE_DATA(made), data, size);
  return made;
}

inline bool is_ascii_text(PyObject* text, const uint8_t* data, size_t size) {
  return size_t(PyUnicode_GET_LENGTH(text)) == size && !std::memcmp(PyUnicode_1BYTE_DATA(text), data, size);
}

#endif

// Call a method, whose name is interned, with at most one argument. The functions for this are not part of the stable ABI.
inline PyObject* call_method(PyObject* self, PyObject* name, PyObject* argument = nullptr) {
  PyObject* arguments[] = {self, argument};
  return PyObject_VectorcallMethod(name, arguments, argument ? 2 : 1, nullptr);
}

// Replace the object that a pointer owns; the old one is released last, because that may run any code.
inline void replace_reference(PyObject*& place, PyObject* value) { Py_XDECREF(std::exchange(place, value)); }

}  // namespace headrace::python
