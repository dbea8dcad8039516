// A coverage-guided fuzzer in a page: keeps inputs that reach new code and mutates them. Targets are written for
// libFuzzer's interface, so that with clang `-fsanitize=fuzzer` can take this file's place.
//
//     target SECONDS SEED CORPUS CRASH     runs; an input that breaks the target is left in the file CRASH
//     target CRASH                         runs one input again
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMap = 1 << 16, kLongest = 4096;
uint8_t hits[kMap], seen[kMap];
const Bytes* current = nullptr;
std::string crash_file;

void leave_crash() {
  if (!current || crash_file.empty()) return;
  std::ofstream(crash_file, std::ios::binary).write(reinterpret_cast<const char*>(current->data()), long(current->size()));
  std::fprintf(stderr, "the input is in %s\n", crash_file.c_str());
}

void run(const Bytes& input) {
  current = &input;
  const std::vector<uint8_t> exact(input.begin(), input.end());  // a read beyond the end must be seen
  uint8_t* copy = static_cast<uint8_t*>(std::malloc(exact.size()));
  if (!exact.empty()) std::memcpy(copy, exact.data(), exact.size());
  LLVMFuzzerTestOneInput(copy, exact.size());
  std::free(copy);
}

// Whether the run has taken a branch for the first time, or more often than any before it, in powers of two.
bool is_new() {
  bool found = false;
  for (size_t first = 0; first < kMap; first += sizeof(uint64_t)) {
    uint64_t word;  // nearly all are 0, and looking at each byte took half of the time
    std::memcpy(&word, hits + first, sizeof word);
    if (!word) continue;
    for (size_t i = first; i < first + sizeof word; ++i) {
      if (!hits[i]) continue;
      const uint8_t bucket = uint8_t(1u << std::min(7, 31 - __builtin_clz(unsigned(hits[i]))));
      found |= (seen[i] & bucket) == 0;
      seen[i] |= bucket;
    }
  }
  return found;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t bound) { return bound ? random_() % bound : 0; }

  Bytes operator()(const std::vector<Bytes>& corpus) {
    Bytes made = corpus[below(corpus.size())];
    for (size_t times = 1 + below(5); times > 0; --times) change(made, corpus[below(corpus.size())]);
    if (made.size() > kLongest) made.resize(kLongest);
    return made;
  }

 private:
  void change(Bytes& made, const Bytes& other) {
    static const uint8_t telling[] = {0, 1, 2, 8, 10, 13, 18, 26, 34, 44, 0x7F, 0x80, 0xFE, 0xFF};
    const size_t at = below(made.size()), count = 1 + below(std::min<size_t>(made.size() - at + 1, 16));
    const auto place = made.begin() + long(at);
    const auto end = made.begin() + long(std::min(at + count, made.size()));
    switch (made.empty() ? 4 : below(8)) {
      case 0: made[at] ^= uint8_t(1u << below(8)); return;
      case 1: made[at] = uint8_t(random_()); return;
      case 2: made[at] = telling[below(sizeof telling)]; return;
      case 3: made.erase(place, end); return;
      case 4: {
        const Bytes fresh(count, uint8_t(random_()));
        made.insert(made.begin() + long(at), fresh.begin(), fresh.end());
        return;
      }
      case 5: {  // a varint, of any length
        const uint64_t value = random_() >> below(64);
        for (size_t i = 0; i < 10 && at + i < made.size() && value >> (7 * i); ++i) {
          made[at + i] = uint8_t((value >> (7 * i) & 0x7F) | (i < 9 && value >> (7 * i) >> 7 ? 0x80 : 0));
        }
        return;
      }
      case 6: {
        const Bytes repeated(place, end);
        made.insert(made.begin() + long(below(made.size())), repeated.begin(), repeated.end());
        return;
      }
      default: {
        const size_t from = below(other.size()), length = below(std::min<size_t>(other.size() - from, 256) + 1);
        made.insert(place, other.begin() + long(from), other.begin() + long(from + length));
      }
    }
  }

  std::mt19937_64 random_;
};

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = hits[(pc ^ pc >> 16) % kMap];
  if (count < 255) ++count;
}

constexpr uint64_t LEAST_RUNS = 2048;  // however busy the machine is

int main(int argc, char** argv) {
  if (argc == 2) {
    run(read(argv[1]));
    return 0;
  }
  if (argc != 5) return 2;
  crash_file = argv[4];
  __sanitizer_set_death_callback(leave_crash);
  std::vector<Bytes> corpus{Bytes()};
  for (const auto& entry : std::filesystem::directory_iterator(argv[3])) corpus.push_back(read(entry.path()));
  std::sort(corpus.begin(), corpus.end());
  const size_t seeds = corpus.size();
  for (const Bytes& input : corpus) {
    run(input);
    is_new();
  }
  Mutator mutate(std::strtoull(argv[2], nullptr, 10));
  const auto started = std::chrono::steady_clock::now();
  const auto until = started + std::chrono::duration<double>(std::atof(argv[1]));
  uint64_t runs = 0;
  for (; runs % 64 || runs < LEAST_RUNS || std::chrono::steady_clock::now() < until; ++runs) {
    const Bytes input = mutate(corpus);
    std::memset(hits, 0, kMap);
    run(input);
    if (is_new()) corpus.push_back(input);
  }
  const auto branches = std::count_if(seen, seen + kMap, [](uint8_t s) { return s != 0; });
  std::printf("%llu runs, %zu inputs kept beside %zu seeds, %zd branches\n", (unsigned long long)runs,
              corpus.size() - seeds, seeds, size_t(branches));
}
