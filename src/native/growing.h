// An array that grows as a kernel fills it, whose memory can be given away whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "pool.h"

namespace headrace {

template <typename T>
class Growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Growing() = default;
  Growing(Growing&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Growing& operator=(Growing&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Growing() {
    if (data_) pool_give(data_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }

  void push(T value) {
    if (size_ == capacity_) reserve(size_ + 1);
    data_[size_++] = value;
  }

  // Reserve memory for about this many.
  void expect(size_t size) {
    if (size > capacity_ && size < kMost) reserve(size);
  }

  // Extend by `count` uninitialized values.
  T* extend(size_t count) {
    if (count > kMost - size_) throw std::bad_alloc();
    if (count > capacity_ - size_) reserve(size_ + count);
    size_ += count;
    return data_ + (size_ - count);
  }

  void append(const void* from, size_t count) {
    T* to = extend(count);
    if (count) std::memcpy(to, from, count * sizeof(T));
  }

  void shrink(size_t size) { size_ = size; }

  // The caller owns the memory and returns it to the pool. It may be slightly larger than needed.
  T* release() {
    T* memory = data_;
    if (!memory || size_ < capacity_ - capacity_ / 4) memory = resized(size_ ? size_ : 1);
    data_ = nullptr;
    size_ = capacity_ = 0;
    return memory;
  }

 private:
  static constexpr size_t kMost = size_t(-1) / 2 / sizeof(T);

  T* resized(size_t count) {
    void* memory = data_ ? pool_resize(data_, count * sizeof(T)) : pool_take(count * sizeof(T));
    if (!memory) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }

  [[gnu::noinline]] void reserve(size_t needed) {
    if (needed > kMost) throw std::bad_alloc();
    const size_t wanted = std::max<size_t>(needed, std::min(kMost, 2 * capacity_ + 16));
    data_ = resized(wanted);
    capacity_ = wanted;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace headrace
