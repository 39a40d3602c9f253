#include "neap/memory/transfer/byte_history.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "neap/core/base/region.h"

namespace neap {
namespace {

std::vector<int> ValuesOf(const ByteHistory<int>& history, const Region& region) {
  std::vector<int> values;
  history.ForEach(region, [&](int value) { values.push_back(value); });
  return values;
}

TEST_CASE("a piece is cut where another begins and ends, and visited once") {
  ByteHistory<int> history(/*nothing=*/-1);
  CHECK(ValuesOf(history, {0, 100}).empty());
  history.Set({0, 10}, 1);
  history.Set({4, 4}, 2);
  CHECK(ValuesOf(history, {0, 11}) == std::vector<int>{1, 2, 1, -1});
  CHECK(ValuesOf(history, {1, 4}) == std::vector<int>{1, 2});
  CHECK(ValuesOf(history, {8, 2}) == std::vector<int>{1});
  history.Set({2, 7}, 3);
  CHECK(ValuesOf(history, {0, 10}) == std::vector<int>{1, 3, 1});
  history.Set({5, 0}, 4);
  CHECK(ValuesOf(history, {0, 10}) == std::vector<int>{1, 3, 1});
}

TEST_CASE("random regions have the value of the last one at each byte") {
  std::mt19937 random(1);
  for (int run = 0; run < 20; ++run) {
    ByteHistory<int> history(/*nothing=*/-1);
    std::array<int, 64> bytes;
    bytes.fill(-1);
    for (int value = 0; value < 200; ++value) {
      const int64_t offset = static_cast<int64_t>(random() % bytes.size());
      const int64_t most = static_cast<int64_t>(bytes.size()) - offset;
      const int64_t length = static_cast<int64_t>(random()) % most + 1;
      history.Set({offset, length}, value);
      for (int64_t i = offset; i < offset + length; ++i) bytes[static_cast<size_t>(i)] = value;
      for (int64_t i = 0; i < std::ssize(bytes); ++i) {
        const std::vector<int> values = ValuesOf(history, {i, 1});
        const int expected = bytes[static_cast<size_t>(i)];
        CHECK((values == std::vector<int>{expected} || (values.empty() && expected == -1)));
      }
    }
  }
}

}  // namespace
}  // namespace neap
