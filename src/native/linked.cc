#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // dladdr, dlinfo
#endif
#include "linked.h"

#include <dlfcn.h>
#ifdef __ELF__
#include <elf.h>
#include <link.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace headrace {
namespace {

// Where the object that contains an address is loaded; null if there is none.
const void* base_of(const void* address) {
  Dl_info found;
  return address && dladdr(address, &found) ? found.dli_fbase : nullptr;
}

// The loaded object that contains an address.
LinkedLibrary object_at(const void* address) {
  Dl_info found;
  if (!address || !dladdr(address, &found)) return {};
  void* const handle = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return {handle ? handle : dlopen(nullptr, RTLD_LAZY), found.dli_fbase};  // the program has no handle under its path
}

#ifdef __ELF__

template <typename Info>
size_t symbol_number(Info info) {
  return size_t(sizeof(Info) == 8 ? uint64_t(info) >> 32 : info >> 8);
}

// What an object's calls of a function are bound to; null if it makes none by way of the dynamic linker.
const void* bound_function(const link_map& object, const char* function) {
  // some systems have relocated these addresses, others have not
  const auto loaded = [&](ElfW(Addr) address) { return address < object.l_addr ? address + object.l_addr : address; };
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  struct {
    const ElfW(Rela)* first = nullptr;
    size_t bytes = 0;
  } data, calls;
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) address = loaded(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_RELA) data.first = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_RELASZ) data.bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_JMPREL) calls.first = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) calls.bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_PLTREL && entry->d_un.d_val != DT_RELA) return nullptr;
  }
  if (!symbols || !names) return nullptr;
  for (const auto& table : {calls, data}) {
    const size_t count = table.first ? table.bytes / sizeof(ElfW(Rela)) : 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t symbol = symbol_number(table.first[i].r_info);
      if (!symbol || std::strcmp(names + symbols[symbol].st_name, function)) continue;
      return *reinterpret_cast<const void* const*>(object.l_addr + table.first[i].r_offset);
    }
  }
  return nullptr;
}

const void* called_function(const LinkedLibrary& object, const char* function) {
  link_map* map = nullptr;
  if (dlinfo(object.handle, RTLD_DI_LINKMAP, &map) || !map) return nullptr;
  const void* const bound = bound_function(*map, function);
  // a call that was never made may be unbound, and then leads to code of the object's that binds it
  return bound && base_of(bound) != base_of(map->l_ld) ? bound : object.function(function);
}

#else

const void* called_function(const LinkedLibrary& object, const char* function) {
  return dlsym(object.handle, function);  // a call is bound to a library, whatever others export
}

#endif

}  // namespace

void* LinkedLibrary::function(const char* name) const {
  void* const found = handle ? dlsym(handle, name) : nullptr;
  return base_of(found) == base ? found : nullptr;
}

LinkedLibrary library_behind(const char* path, const void* code, const char* function) {
  LinkedLibrary object = object_at(code);
  if (*path) {
    object.handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
#ifdef __ELF__
    link_map* map = nullptr;
    if (object.handle && !dlinfo(object.handle, RTLD_DI_LINKMAP, &map) && map) object.base = base_of(map->l_ld);
#endif
  }
  return object.handle ? object_at(called_function(object, function)) : LinkedLibrary{};
}

}  // namespace headrace
