#include "apps/peak/peak_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"

namespace neap::testing {
namespace {

TEST_CASE("FindLargest finds the largest size that fits in few probes") {
  for (int64_t most : {1, 2, 3, 7, 8, 100}) {
    for (int64_t largest = 0; largest <= most; ++largest) {
      const auto fits = [&](int64_t size) -> absl::StatusOr<bool> {
        CHECK((size >= 1 && size <= most));
        return size <= largest;
      };
      const apps::PeakSearch found = apps::FindLargest(most, fits).value();
      CHECK(found.largest == largest);
      CHECK(found.probes <= 15);
      for (int64_t from = 1; from <= most; ++from) {
        const apps::PeakSearch from_there = apps::FindLargest(most, fits, from).value();
        CHECK(from_there.largest == largest);
        CHECK(from_there.probes <= 15);
      }
    }
  }
}

TEST_CASE(
    "where bytes are linear, the largest size is found in five probes, or in two next to it") {
  for (const int64_t fixed : {int64_t{1}, int64_t{1000}, int64_t{300'000'000}}) {
    for (const int64_t each : {int64_t{7}, int64_t{9'800'000}}) {
      for (const int64_t largest : {1, 2, 3, 5, 50, 1310, 100'000}) {
        CAPTURE(fixed);
        CAPTURE(each);
        CAPTURE(largest);
        const int64_t budget = fixed + each * largest + each / 2;
        const auto try_size = [&](int64_t n) -> absl::StatusOr<apps::SizeProbe> {
          return apps::SizeProbe{.fits = n <= largest, .bytes = fixed + each * n};
        };
        const apps::PeakSearch found =
            apps::FindLargestByBytes({.most = 1 << 24}, budget, try_size, 1).value();
        CHECK(found.largest == largest);
        CHECK(found.probes <= 5 + std::log2(largest) / 2);  // four times as large until then
        const apps::PeakSearch near =
            apps::FindLargestByBytes({.most = 1 << 24}, budget, try_size, largest).value();
        CHECK(near.largest == largest);
        CHECK(near.probes <= 2);
        // The next search knows what a size takes, and begins ten above.
        const apps::PeakSearch below =
            apps::FindLargestByBytes({.most = 1 << 24, .bytes_per_size = found.bytes_per_size},
                                     budget, try_size, largest + 10)
                .value();
        CHECK(below.largest == largest);
        CHECK(below.probes <= (found.bytes_per_size > 0 ? 3 : 10));
      }
    }
  }
}

TEST_CASE("random sizes: bytes may mislead the search, but not change what it finds") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto most = static_cast<int64_t>(1 + random() % 5000);
    const auto largest = static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
    const auto reached = static_cast<int64_t>(random() % static_cast<uint64_t>(largest + 1));
    const auto noise = static_cast<int64_t>(1 + random() % 1'000'000);
    const bool is_curved = seed % 3 == 0, has_bytes = seed % 5 != 0;
    const int64_t budget = 1000 * largest * (is_curved ? largest : 1);
    std::set<int64_t> tried;
    const auto try_size = [&](int64_t n) -> absl::StatusOr<apps::SizeProbe> {
      CHECK((n > reached && n <= most));
      CHECK(tried.insert(n).second);
      apps::SizeProbe probe = {.fits = n <= largest};
      if (has_bytes)
        probe.bytes = 1000 * n * (is_curved ? n : 1) +
                      static_cast<int64_t>(random() % static_cast<uint64_t>(noise));
      return probe;
    };
    const auto from = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(most));
    const apps::PeakSearch found =
        apps::FindLargestByBytes({.reached = reached, .most = most}, budget, try_size, from)
            .value();
    CHECK(found.largest == largest);
    CHECK(found.probes == static_cast<int64_t>(tried.size()));
    CHECK(found.probes <= 7 + 4 * 13);  // until one does not fit, and then halved by each fourth
  }
}

TEST_CASE("FindLargestKept finds the largest size that keeps its speed where that is monotone") {
  for (int64_t most : {1, 2, 7, 100, 1000}) {
    for (int64_t largest = 0; largest <= most; ++largest) {
      for (int64_t likely : {int64_t{0}, largest / 2, largest, most / 2, most}) {
        std::set<int64_t> asked;
        const auto keeps = [&](int64_t size) -> absl::StatusOr<bool> {
          CHECK((size >= 1 && size <= most));
          CHECK(asked.insert(size).second);
          return size <= largest;
        };
        const apps::PeakSearch found = apps::FindLargestKept(likely, most, keeps).value();
        CHECK(found.largest == largest);
        CHECK(found.probes == static_cast<int64_t>(asked.size()));
        CHECK(found.probes <= 17);
      }
    }
  }
}

TEST_CASE("where speed is not monotone, the next size and four larger ones do not keep it") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto most = static_cast<int64_t>(1 + random() % 2000);
    std::vector<bool> kept(static_cast<size_t>(most) + 1);
    for (int64_t size = 1; size <= most; ++size)  // likelier for small ones
      kept[static_cast<size_t>(size)] = static_cast<int64_t>(random() % 2000) > size;
    const auto keeps = [&](int64_t size) -> absl::StatusOr<bool> {
      return kept[static_cast<size_t>(size)];
    };
    const auto likely = static_cast<int64_t>(random() % 2000);
    const int64_t largest = apps::FindLargestKept(likely, most, keeps).value().largest;
    if (largest > 0) CHECK(*keeps(largest));
    const int64_t apart = std::max<int64_t>(1, largest / 64);
    for (int64_t above : {int64_t{1}, apart, 2 * apart, 3 * apart, 4 * apart})
      CHECK((largest + above > most || !*keeps(largest + above)));
  }
}

TEST_CASE("FindLargestKept finds no smaller size than one that is known to keep its speed") {
  const auto keeps = [](int64_t size) -> absl::StatusOr<bool> { return size >= 45 && size <= 50; };
  CHECK(apps::FindLargestKept(80, 100, keeps).value().largest == 0);
  CHECK(apps::FindLargestKept(80, 100, keeps, 46).value().largest == 50);
  CHECK(apps::FindLargestKept(10, 100, keeps, 46).value().largest == 50);
  CHECK(apps::FindLargestKept(80, 50, keeps, 50).value().largest == 50);
}

TEST_CASE("a fault ends the search for a size that keeps its speed") {
  const auto fails = [](int64_t) -> absl::StatusOr<bool> { return absl::DataLossError("gone"); };
  CHECK(absl::IsDataLoss(apps::FindLargestKept(1, 9, fails).status()));
}

}  // namespace
}  // namespace neap::testing
