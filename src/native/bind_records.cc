#include <nanobind/stl/pair.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels.h"
#include "mapped.h"
#include "python.h"
#include "team.h"

namespace headrace::python {
namespace {

// What is verified at a time and then copied, while it is in the cache.
constexpr int64_t kSomeRecords = 256;
constexpr int64_t kSomeBytes = 128 << 10;

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

// Copies the records of these ranges, in this order; whether all of them are good.
bool copy_records(const uint8_t* const* parts, const int64_t* which, const int64_t* bounds, int64_t count, size_t bytes,
                  headrace::Growing<uint8_t>& values, headrace::Growing<int64_t>& offsets) {
  uint8_t* const out = values.extend(bytes);  // more than enough; what is not used is given back
  size_t filled = 0;
  offsets.push(0);
  for (int64_t first = 0, rows; first < count; first += rows) {
    int64_t seen = 0;
    for (rows = 0; first + rows < count && seen < kSomeBytes && rows < kSomeRecords; ++rows) {
      seen += bounds[2 * (first + rows) + 1] - bounds[2 * (first + rows)];
    }
    if (headrace::verify_at(parts, which + first, bounds + 2 * first, rows) < rows) return false;
    for (int64_t i = first; i < first + rows; ++i) {
      const size_t size = size_t(bounds[2 * i + 1] - bounds[2 * i]) - headrace::kFraming;
      if (size) std::memcpy(out + filled, parts[which[i]] + bounds[2 * i] + headrace::kHeader, size);
      filled += size;
      offsets.push(int64_t(filled));
    }
  }
  values.shrink(filled);
  return true;
}

// Records by where they lie in several parts, as the bytes of all and where each begins; None if one of them is bad.
nb::object unframe_at(nb::list given, ConstInts which, ConstInts bounds) {
  const Ranges ranges(given, which, bounds);
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  bool good;
  {
    nb::gil_scoped_release released;
    good = copy_records(ranges.parts(), ranges.which(), ranges.bounds(), ranges.count(), ranges.bytes(), values, offsets);
  }
  return good ? nb::object(nb::make_tuple(numpy(values), numpy(offsets))) : nb::none();
}

// Records by where they lie: of each the number of its file, the bytes where it begins and ends, and a number of its own.
class Places {
 public:
  Places(nb::list files, ConstPlaces places) {
    for (nb::handle each : files) {
      files_.push_back(nb::cast<const headrace::MappedFile*>(each));
      parts_.push_back(files_.back()->data());
    }
    const size_t count = places.shape(0);
    which_.resize(count);
    bounds_.resize(2 * count);
    used_.resize(files_.size());
    for (size_t i = 0; i < count; ++i) {
      const int64_t* place = places.data() + 4 * i;
      require(place[0] >= 0 && size_t(place[0]) < files_.size(), "no such file");
      require(0 <= place[1] && place[1] <= place[2] && size_t(place[2]) <= files_[size_t(place[0])]->size(),
              "bounds out of range");
      which_[i] = place[0];
      bounds_[2 * i] = place[1];
      bounds_[2 * i + 1] = place[2];
      used_[size_t(place[0])] = true;
      bytes_ += size_t(place[2] - place[1]);
    }
  }

  // Whether what was seen were bytes of the files; asked under Python's lock, since others may close them.
  bool intact() const {
    for (size_t i = 0; i < files_.size(); ++i) {
      if (used_[i] && !files_[i]->intact()) return false;
    }
    return true;
  }

  int64_t count() const { return int64_t(which_.size()); }
  size_t bytes() const { return bytes_; }

  bool verify(int64_t begin, int64_t end) const {
    const int64_t rows = end - begin;
    return headrace::verify_at(parts_.data(), &which_[size_t(begin)], &bounds_[2 * size_t(begin)], rows) == rows;
  }

  bool copy(headrace::Growing<uint8_t>& values, headrace::Growing<int64_t>& offsets) const {
    headrace::guard_mapped();
    return copy_records(parts_.data(), which_.data(), bounds_.data(), int64_t(which_.size()), bytes_, values, offsets);
  }

 private:
  std::vector<const headrace::MappedFile*> files_;
  std::vector<const uint8_t*> parts_;
  std::vector<int64_t> which_, bounds_;
  std::vector<bool> used_;
  size_t bytes_ = 0;
};

// Whether all records that lie there are good, which other threads find out meanwhile.
class Verification {
 public:
  Verification(nb::list files, ConstPlaces given) : places_(files, given) {
    for (nb::handle file : files) files_.push_back(nb::borrow(file));
    nb::gil_scoped_release released;
    headrace::guard_mapped();
    errand_.emplace(places_.count(), headrace::grain_of(places_.count(), int64_t(places_.bytes())),
                    [this](int64_t begin, int64_t end) {
                      if (good_ && !places_.verify(begin, end)) good_ = false;
                    });
  }
  ~Verification() { good_ = false; }  // nobody asks any more, so the rest is soon done

  bool good() {
    bool done;
    {
      nb::gil_scoped_release released;
      done = errand_->wait();
    }
    return done && good_ && places_.intact();
  }

 private:
  std::vector<nb::object> files_;  // which stay mapped meanwhile
  Places places_;
  std::atomic<bool> good_{true};
  std::optional<headrace::Errand> errand_;  // the last one, since it uses the others until it is gone
};

// The records that lie there, as the bytes of all and where each begins; None if one of them is bad.
nb::object unframe_places(nb::list files, ConstPlaces given) {
  const Places places(files, given);
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  bool good;
  {
    nb::gil_scoped_release released;
    good = places.copy(values, offsets);
  }
  return good && places.intact() ? nb::object(nb::make_tuple(numpy(values), numpy(offsets))) : nb::none();
}

// As unframe_at, of records that lie one after another in each of several parts, by their numbers among all of them.
nb::object unframe_rows(nb::list given, ConstInts order) {
  std::vector<std::pair<ConstBytes, ConstInts>> arrays;
  for (nb::handle part : given) arrays.push_back(nb::cast<std::pair<ConstBytes, ConstInts>>(part));
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  bool good;
  {
    nb::gil_scoped_release released;
    std::vector<const uint8_t*> parts;
    std::vector<int64_t> firsts;
    int64_t rows = 0;
    for (const auto& [data, bounds] : arrays) {
      require_offsets(bounds, data.shape(0));
      parts.push_back(data.data());
      firsts.push_back(rows);
      rows += int64_t(bounds.shape(0)) - 1;
    }
    const size_t count = order.shape(0);
    std::vector<int64_t> which(count), ranges(2 * count);
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t row = order.data()[i];
      require(row >= 0 && row < rows, "no such row");
      const auto part = std::upper_bound(firsts.begin(), firsts.end(), row) - firsts.begin() - 1;
      const int64_t* found = arrays[size_t(part)].second.data() + (row - firsts[size_t(part)]);
      which[i] = int64_t(part);
      ranges[2 * i] = found[0];
      ranges[2 * i + 1] = found[1];
      bytes += size_t(found[1] - found[0]);
    }
    good = copy_records(parts.data(), which.data(), ranges.data(), int64_t(count), bytes, values, offsets);
  }
  return good ? nb::object(nb::make_tuple(numpy(values), numpy(offsets))) : nb::none();
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

// The records as bytes objects, copied once: how many bytes they hold, how many are used up, and what is wrong then.
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
      .def(nb::init<nb::list, ConstPlaces>(), "files"_a, "places"_a)
      .def("good", &Verification::good);
  m.def("unframe_places", &unframe_places, "files"_a, "places"_a);
  m.def("unframe_rows", &unframe_rows, "parts"_a, "order"_a);
  m.def("scan_records", &scan_records, "buffer"_a, "start"_a, "max_rows"_a, "verify"_a = true);
  m.def(
      "resync",
      [](nb::handle source, int64_t start, int64_t end) {
        const Buffer buffer(source);
        const size_t from = buffer.position(start);
        require(end < 0 || size_t(end) >= buffer.size(), "end lies within the buffer");
        nb::gil_scoped_release released;
        return headrace::resync(buffer.data(), buffer.size(), from, end < 0 ? UINT64_MAX : uint64_t(end));
      },
      "buffer"_a, "start"_a, "end"_a = -1);
  m.def("frame", &frame, "values"_a, "offsets"_a);
}

}  // namespace headrace::python
