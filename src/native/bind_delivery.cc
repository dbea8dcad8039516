// The last step of `next()`: an element is taken, counted and returned without a bytecode in between, so that an
// interrupt (Ctrl-C) finds it either not yet taken or already with the caller.
#include "python_type.h"

#include <structmember.h>

#include <thread>

namespace headrace::python {
namespace {

// The elements of one block. `place` is the position of the first of them; `taken` of `count` are with the caller.
struct Cursor {
  PyObject_HEAD
  PyObject* place;
  PyObject* rows;  // an iterator; nullptr once it is dropped
  PyObject* lock;  // held while an element is made, if that runs Python code; nullptr if it cannot
  Py_ssize_t count;
  Py_ssize_t taken;
  Py_ssize_t taking;  // calls that are making an element now: a garbage collection may let other threads run
};

struct Delivery {
  PyObject_HEAD
  PyObject* cursor;
};

struct Forward {
  PyObject_HEAD
  PyObject* source;
};

struct Names {
  PyObject* advance = PyUnicode_InternFromString("_advance");
  PyObject* failed = PyUnicode_InternFromString("_failed");
  PyObject* interrupted = PyUnicode_InternFromString("_interrupted");
  PyObject* acquire = PyUnicode_InternFromString("acquire");
  PyObject* release = PyUnicode_InternFromString("release");
};

const Names& names() {
  static const Names* made = new Names();
  return *made;
}

PyTypeObject* cursor_type = nullptr;

// The current exception, saved while other code runs.
class Raised {
 public:
  Raised() { PyErr_Fetch(&type_, &value_, &traceback_); }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;
  ~Raised() {
    Py_XDECREF(type_);
    Py_XDECREF(value_);
    Py_XDECREF(traceback_);
  }

  PyObject* instance() {
    PyErr_NormalizeException(&type_, &value_, &traceback_);
    if (traceback_) PyException_SetTraceback(value_, traceback_);
    return value_;
  }

  void raise() {
    PyErr_Restore(std::exchange(type_, nullptr), std::exchange(value_, nullptr), std::exchange(traceback_, nullptr));
  }

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

bool call(PyObject* self, PyObject* name) {
  PyObject* done = call_method(self, name);
  Py_XDECREF(done);
  return done != nullptr;
}

enum class Outcome { kTaken, kRaised, kExhausted };

// A half-made element is dropped: the pass continues at `taken`. Reset the state here first, because a second interrupt
// may hit `_interrupted`.
Outcome interrupted(PyObject* self, Cursor* cursor) {
  Raised interrupt;
  Py_CLEAR(cursor->rows);
  if (call(self, names().interrupted)) interrupt.raise();
  return Outcome::kRaised;
}

// An exception made instead of an element occupies its place.
Outcome failed(PyObject* self, Cursor* cursor) {
  PyObject* shown = nullptr;
  {
    Raised error;
    shown = call_method(self, names().failed, error.instance());
  }
  if (!shown) return interrupted(self, cursor);
  ++cursor->taken;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(shown)), shown);
  Py_DECREF(shown);
  return Outcome::kRaised;
}

Outcome take(PyObject* self, Cursor* cursor, PyObject** value) {
  PyObject* rows = cursor->rows;
  if (!rows) return Outcome::kExhausted;
  Py_INCREF(rows);
  ++cursor->taking;
  *value = next_of(rows);
  --cursor->taking;
  if (*value) {
    Py_DECREF(rows);
    ++cursor->taken;
    return Outcome::kTaken;
  }
  Outcome outcome = Outcome::kExhausted;
  if (PyErr_Occurred()) {
    if (cursor->taken >= cursor->count && PyErr_ExceptionMatches(PyExc_StopIteration)) {
      PyErr_Clear();
    } else {
      outcome = PyErr_ExceptionMatches(PyExc_Exception) ? failed(self, cursor) : interrupted(self, cursor);
    }
  }
  if (outcome == Outcome::kExhausted) Py_CLEAR(cursor->rows);
  Py_DECREF(rows);
  return outcome;
}

Outcome take_alone(PyObject* self, Cursor* cursor, PyObject** value) {
  if (!call(cursor->lock, names().acquire)) return Outcome::kRaised;
  const Outcome outcome = take(self, cursor, value);
  Raised kept;
  if (!call(cursor->lock, names().release)) PyErr_WriteUnraisable(cursor->lock);
  kept.raise();
  return outcome;
}

PyObject* next_element(PyObject* self) {
  for (;;) {
    PyObject* held = reinterpret_cast<Delivery*>(self)->cursor;
    if (!held) return nullptr;
    Cursor* cursor = reinterpret_cast<Cursor*>(Py_NewRef(held));
    PyObject* value = nullptr;
    Outcome outcome = cursor->lock ? take_alone(self, cursor, &value) : take(self, cursor, &value);
    if (outcome == Outcome::kExhausted && cursor->taking) {
      // Another thread has the last element and has not counted it yet.
      Py_BEGIN_ALLOW_THREADS;
      std::this_thread::yield();
      Py_END_ALLOW_THREADS;
    } else if (outcome == Outcome::kExhausted) {
      PyObject* done = call_method(self, names().advance, held);
      if (!done) outcome = Outcome::kRaised;
      Py_XDECREF(done);
    }
    Py_DECREF(held);
    if (outcome != Outcome::kExhausted) return value;
  }
}

PyObject* next_forwarded(PyObject* self) {
  PyObject* source = reinterpret_cast<Forward*>(self)->source;
  if (!source) return nullptr;
  Py_INCREF(source);
  PyObject* value = next_of(source);
  Py_DECREF(source);
  return value;
}

int make_cursor(PyObject* self, PyObject* args, PyObject*) {
  Cursor* cursor = reinterpret_cast<Cursor*>(self);
  PyObject *place, *rows, *lock = Py_None;
  Py_ssize_t count;
  if (!PyArg_ParseTuple(args, "OOn|O", &place, &rows, &count, &lock)) return -1;
  if (rows != Py_None && !PyIter_Check(rows)) {
    PyErr_SetString(PyExc_TypeError, "rows must be an iterator or None");
    return -1;
  }
  replace_reference(cursor->place, Py_NewRef(place));
  replace_reference(cursor->rows, rows == Py_None ? nullptr : Py_NewRef(rows));
  replace_reference(cursor->lock, lock == Py_None ? nullptr : Py_NewRef(lock));
  cursor->count = count;
  cursor->taking = 0;
  cursor->taken = rows == Py_None ? count : 0;
  return 0;
}

PyObject* drop_rows(PyObject* self, PyObject*) {
  Py_CLEAR(reinterpret_cast<Cursor*>(self)->rows);
  Py_RETURN_NONE;
}

int set_cursor(PyObject* self, PyObject* value, void*) {
  if (!value || !PyObject_TypeCheck(value, cursor_type)) {
    PyErr_SetString(PyExc_TypeError, "a Cursor is wanted");
    return -1;
  }
  replace_reference(reinterpret_cast<Delivery*>(self)->cursor, Py_NewRef(value));
  return 0;
}

PyObject* get_cursor(PyObject* self, void*) {
  PyObject* cursor = reinterpret_cast<Delivery*>(self)->cursor;
  return Py_NewRef(cursor ? cursor : Py_None);
}

int set_source(PyObject* self, PyObject* value, void*) {
  if (!value || !PyIter_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "an iterator is wanted");
    return -1;
  }
  replace_reference(reinterpret_cast<Forward*>(self)->source, Py_NewRef(value));
  return 0;
}

PyObject* get_source(PyObject* self, void*) {
  PyObject* source = reinterpret_cast<Forward*>(self)->source;
  return Py_NewRef(source ? source : Py_None);
}

int clear_cursor(PyObject* self) {
  Cursor* cursor = reinterpret_cast<Cursor*>(self);
  Py_CLEAR(cursor->place);
  Py_CLEAR(cursor->rows);
  Py_CLEAR(cursor->lock);
  return 0;
}

int visit_cursor(PyObject* self, visitproc visit, void* arg) {
  Cursor* cursor = reinterpret_cast<Cursor*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cursor->place);
  Py_VISIT(cursor->rows);
  Py_VISIT(cursor->lock);
  return 0;
}

// Delivery and Forward hold one object each, at the same offset.
int clear_held(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Delivery*>(self)->cursor);
  return 0;
}

int visit_held(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Delivery*>(self)->cursor);
  return 0;
}

PyMemberDef cursor_members[] = {
    {"place", T_OBJECT, offsetof(Cursor, place), READONLY, nullptr},
    {"count", T_PYSSIZET, offsetof(Cursor, count), READONLY, nullptr},
    {"taken", T_PYSSIZET, offsetof(Cursor, taken), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyMethodDef cursor_methods[] = {
    {"drop", drop_rows, METH_NOARGS, "Let go of the elements that are left."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef delivery_fields[] = {
    {"_cursor", get_cursor, set_cursor, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyGetSetDef forward_fields[] = {
    {"_source", get_source, set_source, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot cursor_slots[] = {
    {Py_tp_init, slot(make_cursor)},     {Py_tp_new, slot(PyType_GenericNew)}, {Py_tp_dealloc, slot(end<clear_cursor>)},
    {Py_tp_traverse, slot(visit_cursor)}, {Py_tp_clear, slot(clear_cursor)},    {Py_tp_members, cursor_members},
    {Py_tp_methods, cursor_methods},     {0, nullptr},
};
PyType_Slot delivery_slots[] = {
    {Py_tp_new, slot(PyType_GenericNew)}, {Py_tp_dealloc, slot(end<clear_held>)}, {Py_tp_traverse, slot(visit_held)},
    {Py_tp_clear, slot(clear_held)},      {Py_tp_iter, slot(PyObject_SelfIter)},  {Py_tp_iternext, slot(next_element)},
    {Py_tp_getset, delivery_fields},      {0, nullptr},
};
PyType_Slot forward_slots[] = {
    {Py_tp_new, slot(PyType_GenericNew)}, {Py_tp_dealloc, slot(end<clear_held>)}, {Py_tp_traverse, slot(visit_held)},
    {Py_tp_clear, slot(clear_held)},      {Py_tp_iter, slot(PyObject_SelfIter)},  {Py_tp_iternext, slot(next_forwarded)},
    {Py_tp_getset, forward_fields},       {0, nullptr},
};

}  // namespace

void bind_delivery(nb::module_& m) {
  cursor_type = add_type(m, "headrace._native.Cursor", sizeof(Cursor), 0, cursor_slots);
  add_type(m, "headrace._native.Delivery", sizeof(Delivery), Py_TPFLAGS_BASETYPE, delivery_slots);
  add_type(m, "headrace._native.Forward", sizeof(Forward), Py_TPFLAGS_BASETYPE, forward_slots);
}

}  // namespace headrace::python
