#include <algorithm>
#include <cstring>

#include "kernels.h"
#include "python.h"

namespace headrace::python {
namespace {

constexpr int64_t kSomeRecords = 256;  // verified at a time and then copied, while they are in the cache

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

// Records by where they lie in several parts, as the bytes of all and where each begins; None if one of them is bad.
nb::object unframe_at(nb::list given, ConstInts which, ConstInts bounds) {
  const Ranges ranges(given, which, bounds);
  headrace::Growing<uint8_t> values;
  headrace::Growing<int64_t> offsets;
  {
    nb::gil_scoped_release released;
    uint8_t* const out = values.extend(ranges.bytes());  // more than enough; what is not used is given back
    size_t filled = 0;
    offsets.push(0);
    for (int64_t first = 0; first < ranges.count(); first += kSomeRecords) {
      const int64_t rows = std::min(kSomeRecords, ranges.count() - first);
      if (headrace::verify_at(ranges.parts(), ranges.which() + first, ranges.bounds() + 2 * first, rows) < rows) {
        offsets.shrink(0);
        break;
      }
      for (int64_t i = first; i < first + rows; ++i) {
        const size_t size = ranges.size(i) - headrace::kFraming;
        if (size) std::memcpy(out + filled, ranges.at(i) + headrace::kHeader, size);
        filled += size;
        offsets.push(int64_t(filled));
      }
    }
    values.shrink(filled);
  }
  if (!offsets.size()) return nb::none();
  return nb::make_tuple(numpy(values), numpy(offsets));
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
      [](nb::handle source, bool portable) {
        const Buffer buffer(source);
        nb::gil_scoped_release released;
        return (portable ? headrace::crc32c_portable : headrace::crc32c)(buffer.data(), buffer.size());
      },
      "buffer"_a, "portable"_a = false);
  m.def("crc32c_in_hardware", &headrace::crc32c_in_hardware);
  m.def("unframe", &unframe, "buffer"_a, "start"_a, "max_rows"_a, "max_bytes"_a, "verify"_a = true);
  m.def("unframe_at", &unframe_at, "parts"_a, "which"_a, "bounds"_a);
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
