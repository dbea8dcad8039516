#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "kernels.h"
#include "mapped.h"
#include "places.h"
#include "python.h"
#include "team.h"

namespace headrace::python {
namespace {

// How much is verified at a time and then copied, while it is in the cache.
constexpr int64_t kSomeBytes = 128 << 10;

using MutablePlaces = nb::ndarray<int64_t, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;

void put_place(int64_t* out, int64_t file, int64_t begin, int64_t end, int64_t number) {
  out[0] = file;
  out[1] = begin;
  out[2] = end;
  out[3] = number;
}

nb::tuple unframe(nb::handle source, int64_t start, int64_t max_rows, int64_t max_bytes, bool verify) {
  const Buffer buffer(source);
  const size_t from = buffer.position(start);
  require(max_rows >= 0 && max_bytes >= 0, "limits must not be negative");
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  headrace::Scan scan;
  {
    nb::gil_scoped_release released;
    scan = headrace::unframe(buffer.data(), buffer.size(), from, max_rows, max_bytes, verify, values, offsets);
  }
  return nb::make_tuple(numpy(values), numpy(offsets), scan.consumed, int(scan.problem));
}

// Records at offsets in several parts, as concatenated bytes and the offset of each; None if one of them is bad.
nb::object unframe_at(nb::list given, ConstInts which, ConstInts bounds) {
  const Ranges ranges(given, which, bounds);
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  bool good;
  {
    nb::gil_scoped_release released;
    const headrace::RecordRanges records{ranges.parts(), ranges.which(), 1, ranges.bounds(), 2};
    good = headrace::copy_verified(records, ranges.count(), false, values, offsets);
  }
  return good ? nb::object(nb::make_tuple(numpy(values), numpy(offsets))) : nb::none();
}

// Whether all records at these offsets are good, verified by other threads in the background.
class Verification {
 public:
  Verification(nb::list files, ConstWhere where) : places_(files, where) {
    for (nb::handle file : files) files_.push_back(nb::borrow(file));
    headrace::guard_mapped();  // releasing the GIL for this takes longer, if other threads wait for it
    errand_.emplace(places_.count(), headrace::grain_of(places_.count(), int64_t(places_.bytes())),
                    [this](int64_t begin, int64_t end) {
                      if (good_ && !places_.verify(begin, end)) good_ = false;
                    });
  }
  ~Verification() { good_ = false; }  // the result is no longer needed, so the rest ends soon

  bool good() {
    bool done;
    {
      nb::gil_scoped_release released;
      done = errand_->wait();
    }
    return done && good_ && places_.intact();
  }

 private:
  std::vector<nb::object> files_;  // which stay mapped
  Places places_;
  std::atomic<bool> good_{true};
  std::optional<headrace::Errand> errand_;  // declared last, because it uses the others until it is destroyed
};

// The records at these offsets, as concatenated bytes and the offset of each; None if one of them is bad.
nb::object unframe_places(nb::list files, ConstWhere where) {
  const Places places(files, where);
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  bool good;
  {
    nb::gil_scoped_release released;
    headrace::guard_mapped();
    good = places.copy(0, places.count(), values, offsets);
  }
  return good && places.intact() ? nb::object(nb::make_tuple(numpy(values), numpy(offsets))) : nb::none();
}

// Consecutive records of several files in another order, as bytes objects; None if one of them is bad. The objects are
// made with the GIL held and filled without it, by several threads if there is much to copy.
nb::object box_records(nb::list files, nb::list bounds, ConstInts order) {
  require(files.size() == bounds.size(), "bounds for each file");
  std::vector<std::pair<const uint8_t*, size_t>> records;
  std::vector<const headrace::MappedFile*> mapped;
  for (size_t part = 0; part < files.size(); ++part) {
    mapped.push_back(nb::cast<const headrace::MappedFile*>(files[part]));
    const ConstInts at = nb::cast<ConstInts>(bounds[part]);
    require(mapped[part] && at.shape(0) > 0, "the bounds of records in a mapped file");
    for (size_t i = 0; i + 1 < at.shape(0); ++i) {
      const int64_t begin = at.data()[i], end = at.data()[i + 1];
      require(0 <= begin && begin <= end && size_t(end) <= mapped[part]->size(), "bounds out of range");
      records.emplace_back(mapped[part]->data() + begin, size_t(end - begin));
    }
  }
  const int64_t count = int64_t(order.shape(0));
  std::vector<headrace::RecordCopy> copies;
  copies.reserve(size_t(count));
  Objects made;
  size_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = order.data()[i];
    require(0 <= row && size_t(row) < records.size(), "no such record");
    const auto [record, size] = records[size_t(row)];
    if (size < headrace::kFraming) return nb::none();
    copies.push_back({record, made.add_bytes(size - headrace::kFraming), size - headrace::kFraming});
    bytes += size;
  }
  std::atomic<bool> good{true};
  {
    const nb::gil_scoped_release released;
    headrace::guard_mapped();
    headrace::in_pieces(count, headrace::grain_of(count, int64_t(bytes)), [&](int64_t begin, int64_t end) {
      if (!headrace::copy_records(copies.data() + begin, end - begin)) good = false;
    });
  }
  for (const headrace::MappedFile* file : mapped) good = good && file->intact();
  return good ? made.array() : nb::none();
}

nb::tuple scan_records(nb::handle source, int64_t start, int64_t max_rows, bool verify) {
  const Buffer buffer(source);
  const size_t from = buffer.position(start);
  require(max_rows >= 0, "limits must not be negative");
  headrace::Growing<int64_t> starts;
  headrace::Scan scan;
  {
    nb::gil_scoped_release released;
    scan = headrace::scan_records(buffer.data(), buffer.size(), from, max_rows, INT64_MAX, verify, starts);
  }
  return nb::make_tuple(numpy(starts), scan.consumed, int(scan.problem));
}

// The record offsets of a mapped file, as far as other threads have found them in the background: most of it is waiting
// for pages.
class RecordScan {
 public:
  // Let other threads scan the records from `start` on up to `stop`. If nothing is between the two, scan on request only.
  // With `load` map all of their pages, and unmap those that are farther behind `start` than `stop` is after it.
  RecordScan(nb::object file, int64_t start, int64_t stop, bool load)
      : file_(file), mapped_(nb::cast<const headrace::MappedFile*>(file)), scan_{size_t(start), headrace::Problem::kNone} {
    require(0 <= start && start <= stop, "bounds out of range");
    const size_t size = std::min(size_t(stop), mapped_->size());
    if (size_t(start) >= size) return;
    headrace::guard_mapped();
    errand_.emplace(1, 1, [this, size, load](int64_t, int64_t) {
      if (load) mapped_->load(scan_.consumed, size);
      if (load) release_behind(scan_.consumed, size - scan_.consumed);
      for (size_t before = 1; before && !unwanted_;) {
        before = starts_.size();
        scan_ = headrace::scan_records(mapped_->data(), size, scan_.consumed, kSomeRecords, INT64_MAX, false, starts_);
        before = starts_.size() - before;
      }
    });
  }
  ~RecordScan() { unwanted_ = true; }  // the rest ends soon

  // The offsets of up to `most` records between two offsets, including the end of the last, how many bytes they take,
  // and the error that follows.
  nb::tuple bounds(int64_t begin, int64_t end, int64_t most) {
    require(0 <= begin && begin <= end && size_t(end) <= mapped_->size() && most >= 0, "bounds out of range");
    headrace::Growing<int64_t> found;
    headrace::Scan scan{size_t(begin), headrace::Problem::kNone};
    {
      nb::gil_scoped_release released;
      const bool looked = errand_ && errand_->wait();
      if (!looked || !take(end, most, found, scan.consumed)) {
        headrace::guard_mapped();
        const int64_t left = most - int64_t(found.size());
        scan = headrace::scan_records(mapped_->data(), size_t(end), scan.consumed, left, INT64_MAX, false, found);
      }
      found.push(int64_t(scan.consumed));
    }
    return nb::make_tuple(numpy(found), int64_t(scan.consumed) - begin, int(scan.problem));
  }

 private:
  static constexpr int64_t kSomeRecords = 1024;

  // Most of what comes before has been used: unmapping it all at once, at the end, would make the consumer wait.
  void release_behind(size_t start, size_t bytes) const {
    const size_t in_use = bytes + bytes / 2;
    if (start > in_use) mapped_->release(start - std::min(start, 2 * in_use), start - in_use);
  }

  // Take what is known of the records from `at` on, and move `at` to the end of the last; return whether that is all.
  bool take(int64_t end, int64_t most, headrace::Growing<int64_t>& found, size_t& at) const {
    const int64_t* const stop = starts_.data() + starts_.size();
    const int64_t* next = std::lower_bound(starts_.data(), stop, int64_t(at));
    if (next == stop || *next != int64_t(at)) return false;
    for (; next < stop && int64_t(found.size()) < most; ++next) {
      const size_t after = next + 1 < stop ? size_t(next[1]) : scan_.consumed;
      if (int64_t(after) > end) return true;
      found.push(int64_t(at));
      at = after;
    }
    return next < stop;
  }

  nb::object file_;  // which stays mapped
  const headrace::MappedFile* mapped_;
  headrace::Growing<int64_t> starts_;
  headrace::Scan scan_;
  std::atomic<bool> unwanted_{false};
  std::optional<headrace::Errand> errand_;  // declared last, because it uses the others until it is destroyed
};

// The records as bytes objects, copied once: how many bytes they hold, how many were consumed, and the error that
// follows.
nb::tuple unframe_objects(nb::handle source, int64_t start, int64_t max_rows) {
  const Buffer buffer(source);
  require(max_rows >= 0, "limits must not be negative");
  headrace::Growing<int64_t> starts;
  headrace::Scan scan{buffer.position(start), headrace::Problem::kNone};
  Objects made;
  int64_t bytes = 0;
  do {
    starts.shrink(0);
    {
      nb::gil_scoped_release released;
      scan = headrace::scan_records(buffer.data(), buffer.size(), scan.consumed, max_rows - int64_t(made.size()),
                                    kSomeBytes, true, starts);
    }
    for (size_t i = 0; i < starts.size(); ++i) {
      const size_t begin = size_t(starts[i]) + headrace::kHeader;
      const size_t next = i + 1 < starts.size() ? size_t(starts[i + 1]) : scan.consumed;
      const size_t size = next - size_t(starts[i]) - headrace::kFraming;
      made.add_bytes(buffer.data() + begin, size);
      bytes += int64_t(size);
    }
  } while (starts.size() && scan.problem == headrace::Problem::kNone && int64_t(made.size()) < max_rows);
  return nb::make_tuple(made.array(), bytes, scan.consumed, int(scan.problem));
}

nb::object frame(ConstBytes values, ConstInts offsets) {
  headrace::Growing<uint8_t> out;
  {
    nb::gil_scoped_release released;
    require_offsets(offsets, values.shape(0));
    const size_t rows = offsets.shape(0) - 1;
    out.extend(size_t(offsets.data()[rows] - offsets.data()[0]) + rows * headrace::kFraming);
    headrace::frame(values.data(), offsets.data(), int64_t(rows), out.data());
  }
  return numpy(out);
}

}  // namespace

void bind_records(nb::module_& m) {
  m.def(
      "crc32c",
      [](nb::handle source, bool portable, bool by_instruction) {
        const Buffer buffer(source);
        nb::gil_scoped_release released;
        if (by_instruction) return headrace::crc32c_by_instruction(buffer.data(), buffer.size());
        return (portable ? headrace::crc32c_portable : headrace::crc32c)(buffer.data(), buffer.size());
      },
      "buffer"_a, "portable"_a = false, "by_instruction"_a = false);
  m.def("crc32c_in_hardware", &headrace::crc32c_in_hardware);
  m.def("unframe", &unframe, "buffer"_a, "start"_a, "max_rows"_a, "max_bytes"_a, "verify"_a = true);
  m.def("unframe_objects", &unframe_objects, "buffer"_a, "start"_a, "max_rows"_a);
  m.def("unframe_at", &unframe_at, "parts"_a, "which"_a, "bounds"_a);
  nb::class_<Verification>(m, "Verification")
      .def(nb::init<nb::list, ConstWhere>(), "files"_a, "where"_a)
      .def("good", &Verification::good);
  // Too little work to release the GIL: a caller that does makes others wait, and would wait for them in turn.
  m.def(
      "bounds_as_places",
      [](int64_t file, ConstInts bounds, int64_t first, MutablePlaces out) {
        const int64_t* const at = bounds.data();
        require(bounds.shape(0) == out.shape(0) + 1, "a place for each record");
        for (size_t i = 0; i < out.shape(0); ++i) put_place(out.data() + 4 * i, file, at[i], at[i + 1], first + int64_t(i));
      },
      "file"_a, "bounds"_a, "first"_a, "out"_a.noconvert());
  m.def(
      "take_places",
      [](ConstPlaces places, ConstInts order, int64_t first, MutablePlaces out) {
        require(order.shape(0) == out.shape(0), "a place for each record");
        for (size_t i = 0; i < out.shape(0); ++i) {
          const int64_t row = order.data()[i];
          require(0 <= row && size_t(row) < places.shape(0), "no such place");
          const int64_t* const found = places.data() + 4 * row;
          put_place(out.data() + 4 * i, found[0], found[1], found[2], first + int64_t(i));
        }
      },
      "places"_a, "order"_a, "first"_a, "out"_a.noconvert());
  m.def(
      "least_number",
      [](ConstPlaces places) {
        int64_t least = INT64_MAX;
        for (size_t i = 0; i < places.shape(0); ++i) least = std::min(least, places.data()[4 * i + 3]);
        return least;
      },
      "places"_a);
  m.def(
      "pointed_bytes",
      [](ConstPlaces places) {
        int64_t bytes = 0;
        for (size_t i = 0; i < places.shape(0); ++i) bytes += places.data()[4 * i + 2] - places.data()[4 * i + 1];
        return bytes;
      },
      "where"_a);
  m.def("unframe_places", &unframe_places, "files"_a, "where"_a);
  m.def("box_records", &box_records, "files"_a, "bounds"_a, "order"_a);
  nb::class_<RecordScan>(m, "RecordScan")
      .def(nb::init<nb::object, int64_t, int64_t, bool>(), "file"_a, "start"_a = 0, "stop"_a = 0, "load"_a = false)
      .def("bounds", &RecordScan::bounds, "begin"_a, "end"_a, "most"_a);
  m.def("scan_records", &scan_records, "buffer"_a, "start"_a, "max_rows"_a, "verify"_a = true);
  m.def(
      "resync",
      [](nb::handle source, int64_t start, int64_t end) {
        const Buffer buffer(source);
        const size_t from = buffer.position(start);
        require(end < 0 || size_t(end) >= buffer.size(), "end is within the buffer");
        nb::gil_scoped_release released;
        return headrace::resync(buffer.data(), buffer.size(), from, end < 0 ? UINT64_MAX : uint64_t(end));
      },
      "buffer"_a, "start"_a, "end"_a = -1);
  m.def("frame", &frame, "values"_a, "offsets"_a);
}

}  // namespace headrace::python
