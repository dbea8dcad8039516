// Framing: any bytes, bytes whose checksums have been set right so that lengths are believed, and the way there and back.
#include <cstring>
#include <vector>

#include "../../src/native/kernels.h"
#include "check.h"

using namespace headrace;

namespace {

void read(const uint8_t* data, size_t size, size_t start, bool verify) {
  Growing<int64_t> starts, offsets;
  const Scan scan = scan_records(data, size, start, 1000, 2000, verify, starts);
  CHECK(scan.consumed >= start && scan.consumed <= size);
  size_t at = start;
  for (size_t i = 0; i < starts.size(); ++i) {
    CHECK(size_t(starts[i]) == at);
    uint64_t length;
    std::memcpy(&length, data + at, 8);
    CHECK(length <= size && at + kFraming + length <= size);
    at += kFraming + length;
  }
  CHECK(at == scan.consumed);
  Growing<uint8_t> values;
  const Scan copied = unframe(data, size, start, 1000, 2000, true, values, offsets);
  const size_t good = offsets.size() - 1;
  CHECK(good <= starts.size() && (good == starts.size() || !verify));
  CHECK(copied.consumed - start == values.size() + good * kFraming && size_t(offsets[good]) == values.size());
  const int64_t found = resync(data, size, start, size);
  CHECK(found == -1 || (size_t(found) >= start && size_t(found) < size));
  CHECK(starts.size() == 0 || good == 0 || found == int64_t(start));
}

// Fix the checksums of the records in the bytes, as far as lengths lead.
void repair(std::vector<uint8_t>& data) {
  for (size_t at = 0; data.size() - at >= 12;) {
    const uint32_t head = masked_crc32c(data.data() + at, 8);
    std::memcpy(data.data() + at + 8, &head, 4);
    uint64_t length;
    std::memcpy(&length, data.data() + at, 8);
    if (length > data.size() - at - 12 || data.size() - at - 12 - length < 4) return;
    if (length % 7) {  // some stay damaged
      const uint32_t tail = masked_crc32c(data.data() + at + 12, length);
      std::memcpy(data.data() + at + 12 + length, &tail, 4);
    }
    at += kFraming + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t start = size ? data[0] % size : 0;
  CHECK(crc32c(data + start, size - start) == crc32c_portable(data + start, size - start));
  read(data, size, start, true);
  read(data, size, 0, false);
  std::vector<uint8_t> repaired(data, data + size);
  repair(repaired);
  read(repaired.data(), size, 0, true);
  std::vector<int64_t> offsets{0};
  while (size_t(offsets.back()) < size) {
    offsets.push_back(std::min<int64_t>(int64_t(size), offsets.back() + data[offsets.back()] % 32));
    if (offsets.size() > 100) break;
  }
  const size_t rows = offsets.size() - 1;
  std::vector<uint8_t> framed(size_t(offsets.back()) + rows * kFraming);
  frame(data, offsets.data(), int64_t(rows), framed.data());
  Growing<int64_t> starts;
  const Scan scan = scan_records(framed.data(), framed.size(), 0, INT64_MAX, INT64_MAX, true, starts);
  CHECK(scan.consumed == framed.size() && scan.problem == Problem::kNone && starts.size() == rows);
  return 0;
}
