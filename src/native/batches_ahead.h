// Batches of a stream in Arrow's C interface, read ahead by a thread that does not need the GIL.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace headrace {

// As https://arrow.apache.org/docs/format/CDataInterface.html has them.
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowSchema;

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

// Used by one thread at a time. A forked child does not use it.
class BatchesAhead {
 public:
  enum class Found { kBatch, kEnd, kError, kNothing };

  explicit BatchesAhead(ArrowArrayStream& stream);  // which is then empty
  BatchesAhead(const BatchesAhead&) = delete;
  BatchesAhead& operator=(const BatchesAhead&) = delete;
  ~BatchesAhead();

  // Return whether the next batch is available or there is none; kNothing if unknown after this many seconds.
  Found next(double seconds);
  // Valid until the next one; a caller that moves it out sets `release` to null.
  ArrowArray* batch() { return &batch_; }
  const std::string& error() const { return error_; }
  void close();  // the caller ends the stream's pending answer first

 private:
  struct Ahead;

  Found read(ArrowArray& batch);
  bool begin_ahead();
  void read_ahead();

  const pid_t process_;
  ArrowArrayStream stream_;
  ArrowArray batch_{};
  bool begun_ = false;
  Found last_ = Found::kBatch;  // what comes after the queued batches
  std::string error_;
  std::unique_ptr<Ahead> ahead_;
};

}  // namespace headrace
