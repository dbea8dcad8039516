#include <cmath>
#include <numeric>
#include <utility>

#include "kernels.h"
#include "philox.h"

namespace headrace {
namespace {

uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// As `mix` in keys.py.
uint64_t mix(uint64_t key, uint64_t value) {
  constexpr uint64_t golden = 0x9E3779B97F4A7C15u;
  return scramble(scramble(key + golden) + value * golden);
}

// visit(output index, word) for every draw of every row. The path is folded into the key, which a run of rows shares;
// the ordinal is the upper half of the counter, so rows of one path cannot collide.
template <class Visit>
void each_word(const RowDraws& draws, Visit visit) {
  uint64_t path = 0;
  Philox philox{mix(draws.key, path)};
  for (int64_t row = 0; row < draws.rows; ++row) {
    if (draws.ids[2 * row] != path) {
      path = draws.ids[2 * row];
      philox.key = mix(draws.key, path);
    }
    uint64_t pair[2];
    for (int64_t i = 0; i < draws.count; ++i) {
      const uint64_t k = draws.first + uint64_t(i);
      if (i == 0 || (k & 1) == 0) philox.block(k >> 1, pair, draws.ids[2 * row + 1]);
      visit(row * draws.count + i, pair[k & 1]);
    }
  }
}

uint64_t below(uint64_t word, uint64_t bound) { return uint64_t(((unsigned __int128)word * bound) >> 64); }

// A polynomial of degree 7.
double polynomial(const double (&c)[8], double x) {
  double sum = c[7];
  for (int i = 6; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// log x, x > 0, by plain arithmetic: libraries differ in the last bit. With x = m * 2^e, m near 1, and s = (m - 1) / (m
// + 1), log m = 2 atanh s, a series in s^2 < 0.03.
double natural_log(double x) {
  int e;
  double m = std::frexp(x, &e);
  if (m < 0.70710678118654752) {
    m *= 2;
    --e;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double series = 0;
  for (int n = 21; n >= 3; n -= 2) series = (series + 1.0 / n) * z;
  return e * 0.693147180369123816490 + (2 * s + (2 * s * series + e * 1.90821492927058770002e-10));
}

// The inverse of the normal distribution function: Wichura's algorithm AS 241, good to 16 digits.
double normal_quantile(double p) {
  static constexpr double a[8] = {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                  1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                  3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[8] = {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
                                  2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
                                  5.2264952788528545610e+3};
  static constexpr double c[8] = {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                                  3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[8] = {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                                  1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double e[8] = {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                                  2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[8] = {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                                  7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-natural_log(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
  return q < 0 ? -z : z;
}

}  // namespace

void random_words(const RowDraws& draws, uint64_t* out) {
  each_word(draws, [&](int64_t i, uint64_t word) { out[i] = word; });
}

void random_uniform(const RowDraws& draws, double* out) {
  each_word(draws, [&](int64_t i, uint64_t word) { out[i] = double(word >> 11) * 0x1p-53; });
}

void random_normal(const RowDraws& draws, double* out) {
  // The middle of one of 2^52 cells: never 0 or 1, and exact.
  each_word(draws, [&](int64_t i, uint64_t word) { out[i] = normal_quantile((double(word >> 12) + 0.5) * 0x1p-52); });
}

void random_integers(const RowDraws& draws, const uint64_t* low, const uint64_t* span, bool each, uint64_t* out) {
  each_word(draws, [&](int64_t i, uint64_t word) {
    const int64_t j = each ? i : 0;
    out[i] = low[j] + (span[j] == 0 ? word : below(word, span[j]));
  });
}

void random_permutation(const RowDraws& draws, int64_t* out) {
  const int64_t n = draws.count;
  for (int64_t row = 0; row < draws.rows; ++row) std::iota(out + row * n, out + (row + 1) * n, int64_t(0));
  each_word(draws, [&](int64_t i, uint64_t word) {
    int64_t* numbers = out + i / n * n;
    const int64_t place = i % n;
    std::swap(numbers[place], numbers[place + int64_t(below(word, uint64_t(n - place)))]);
  });
}

}  // namespace headrace
