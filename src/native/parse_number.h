// Parse numbers by TensorFlow's rules: space around them, a plus sign, hexadecimal, inf and nan are accepted.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace headrace {

inline bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

inline void trim(const char*& begin, const char*& end) {
  while (begin < end && is_space(uint8_t(*begin))) ++begin;
  while (begin < end && is_space(uint8_t(end[-1]))) --end;
}

template <typename T>
bool parsed_integer(const char* begin, const char* end, T& value) {
  trim(begin, end);
  if (begin < end && *begin == '+' && ++begin < end && *begin == '-') return false;
  const auto result = std::from_chars(begin, end, value);
  return result.ec == std::errc() && result.ptr == end;
}

template <typename T>
T slowly(const char* begin, const char* end) {  // out of range: infinity, or zero
  const std::string text(begin, end);
  if constexpr (sizeof(T) == sizeof(float)) return std::strtof(text.c_str(), nullptr);
  return T(std::strtod(text.c_str(), nullptr));
}

template <typename T>
bool parsed_float(const char* begin, const char* end, T& value) {
  trim(begin, end);
  if (begin < end && *begin == '+' && ++begin < end && *begin == '-') return false;
  const char* digits = begin;
  const bool negative = digits < end && *digits == '-';
  if (negative) ++digits;
  const bool hex = end - digits > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
#ifdef __cpp_lib_to_chars
  const auto result = hex ? std::from_chars(digits + 2, end, value, std::chars_format::hex)
                          : std::from_chars(begin, end, value);
  if (result.ptr != end || begin == end || (hex && digits[2] == '-')) return false;
  if (result.ec == std::errc::result_out_of_range) {
    value = slowly<T>(begin, end);
    return true;
  }
  if (result.ec != std::errc()) return false;
  if (hex && negative) value = -value;
  return true;
#else
  (void)hex;
  if (begin == end || is_space(uint8_t(*begin)) || (negative && digits < end && (*digits == '-' || *digits == '+')))
    return false;
  const std::string text(begin, end);
  char* stop = nullptr;
  value = sizeof(T) == sizeof(float) ? T(std::strtof(text.c_str(), &stop)) : T(std::strtod(text.c_str(), &stop));
  return stop == text.c_str() + text.size();
#endif
}

}  // namespace headrace
