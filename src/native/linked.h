// Libraries that a loaded object (a shared library or the program) calls, as the dynamic linker has bound its calls.
#pragma once

namespace headrace {

struct LinkedLibrary {
  void* handle = nullptr;      // for dlsym; null if the library is not known
  const void* base = nullptr;  // where it is loaded

  // The address of one of its own functions; null if it has none, even if a library that it depends on has one.
  void* function(const char* name) const;
};

// The library whose `function` a loaded object calls.
//
// This need not be the library that the object was linked with: its calls are bound to any library that was loaded
// earlier with RTLD_GLOBAL and exports the same name, as TensorFlow does with its own copy of SQLite. To call functions
// of both is fatal. `path` is the object's file; if it is empty, the object is the one that contains the address `code`.
LinkedLibrary library_behind(const char* path, const void* code, const char* function);

}  // namespace headrace
