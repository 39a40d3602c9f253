#include "neap/memory/transfer/tensor_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace neap {
namespace {

constexpr auto kNothingLocked = [](size_t) { return false; };
constexpr auto kOneByte = [](size_t) { return Usage{.bytes = 1}; };
constexpr int kNever = std::numeric_limits<int>::max();

// The first entry that would be evicted.
template <typename IsLocked>
std::optional<size_t> Victim(const TensorCache& cache, const IsLocked& is_locked) {
  const std::vector<size_t> victims = cache.Out({.bytes = 1}, kOneByte, is_locked);
  REQUIRE(victims.size() <= 1);
  if (victims.empty()) return std::nullopt;
  return victims.front();
}

TEST_CASE("LRU: what was used longest ago is evicted first, and a hit moves to the front") {
  //   front  2 1 0  tail       hit 0:  0 2 1       1 is evicted
  const auto cache = MakeTensorCache(EvictionRule::kLru, 3);
  CHECK(!Victim(*cache, kNothingLocked).has_value());
  for (size_t entry : {0, 1, 2}) cache->In(entry, 0);
  CHECK(Victim(*cache, kNothingLocked) == 0);
  cache->In(0, 0);
  CHECK(Victim(*cache, kNothingLocked) == 1);
  cache->Remove(1);
  cache->Remove(1);
  CHECK(Victim(*cache, kNothingLocked) == 2);
}

TEST_CASE("Belady: what is used farthest in the future is evicted first, by its latest use") {
  //   next use   0: 7    1: 9    2: 8       1 is evicted; used again and next at 3, it is 2
  const auto cache = MakeTensorCache(EvictionRule::kBelady, 3);
  CHECK(!Victim(*cache, kNothingLocked).has_value());
  cache->In(0, 7);
  cache->In(1, 9);
  cache->In(2, 8);
  CHECK(Victim(*cache, kNothingLocked) == 1);
  cache->In(1, 3);
  CHECK(Victim(*cache, kNothingLocked) == 2);
  cache->Remove(2);
  cache->Remove(2);
  CHECK(Victim(*cache, kNothingLocked) == 0);
}

TEST_CASE("locked entries are passed over, and if all are locked none is evicted") {
  for (const EvictionRule rule : {EvictionRule::kLru, EvictionRule::kBelady}) {
    const auto cache = MakeTensorCache(rule, 3);
    cache->In(0, 30);
    cache->In(1, 20);
    cache->In(2, 10);
    CHECK(Victim(*cache, [](size_t entry) { return entry == 0; }) == 1);
    CHECK(Victim(*cache, [](size_t entry) { return entry != 2; }) == 2);
    CHECK(!Victim(*cache, [](size_t) { return true; }).has_value());
    CHECK(Victim(*cache, kNothingLocked) == 0);  // asking changes nothing
  }
}

TEST_CASE("entries are visited once each, from the tail until the visitor has enough") {
  for (const EvictionRule rule : {EvictionRule::kLru, EvictionRule::kBelady}) {
    const auto cache = MakeTensorCache(rule, 4);
    for (size_t entry : {2, 0, 3, 1}) cache->In(entry, 40 - static_cast<int>(entry) % 2);
    cache->Remove(3);
    std::vector<size_t> visited;
    cache->VisitFromTail([&](size_t entry) {
      visited.push_back(entry);
      return true;
    });
    CHECK(visited == std::vector<size_t>{2, 0, 1});
    visited.clear();
    cache->VisitFromTail([&](size_t entry) {
      visited.push_back(entry);
      return visited.size() < 2;
    });
    CHECK(visited == std::vector<size_t>{2, 0});
  }
}

TEST_CASE("LRU.out evicts from the tail until the excess is gone in both counts") {
  //   front   3 (4, 0)   2 (2, 2)   1 (3, 0)   0 (1, 1)   tail      (bytes, activation bytes)
  const std::vector<Usage> sizes = {{1, 1}, {3, 0}, {2, 2}, {4, 0}};
  const auto size_of = [&](size_t entry) { return sizes[entry]; };
  using Victims = std::vector<size_t>;
  for (const EvictionRule rule : {EvictionRule::kLru, EvictionRule::kBelady}) {
    const auto cache = MakeTensorCache(rule, 4);
    for (size_t entry : {0, 1, 2, 3}) cache->In(entry, 40 - static_cast<int>(entry));
    const auto out = [&](const Usage& excess) {
      return cache->Out(excess, size_of, kNothingLocked);
    };
    CHECK(out({0, 0}) == Victims{});
    CHECK(out({-9, -9}) == Victims{});
    CHECK(out({1, 0}) == Victims{0});
    CHECK(out({4, 0}) == Victims{0, 1});
    CHECK(out({5, 0}) == Victims{0, 1, 2});
    CHECK(out({1, 1}) == Victims{0});
    CHECK(out({1, 2}) == Victims{0, 1, 2});
    CHECK(out({-9, 3}) == Victims{0, 1, 2});
    CHECK(out({99, 0}) == Victims{0, 1, 2, 3});  // all of it is not enough
    CHECK(cache->Out({4, 0}, size_of, [](size_t entry) { return entry == 1; }) == Victims{0, 2, 3});
  }
}

// A cache that is a plain vector, front = most recently used (SuperNeurons, Alg. 2), with what it
// is told about the future.
class NaiveCache {
 public:
  explicit NaiveCache(EvictionRule rule) : rule_(rule) {}

  void In(size_t entry, int next_use) {
    Remove(entry);
    list_.insert(list_.begin(), {entry, next_use});
  }
  void Remove(size_t entry) {
    std::erase_if(list_, [&](const Entry& e) { return e.entry == entry; });
  }
  std::optional<size_t> Victim(const std::vector<bool>& locked) const {
    std::optional<Entry> victim;
    for (const Entry& e : list_) {
      if (locked[e.entry]) continue;
      if (!victim.has_value() || rule_ == EvictionRule::kLru || e.next_use > victim->next_use)
        victim = e;
    }
    if (!victim.has_value()) return std::nullopt;
    return victim->entry;
  }

 private:
  struct Entry {
    size_t entry;
    int next_use;
  };
  EvictionRule rule_;
  std::vector<Entry> list_;
};

TEST_CASE("random uses, removals and locks: the victims of a plain list") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const size_t count = 1 + random() % 12;
    for (const EvictionRule rule : {EvictionRule::kLru, EvictionRule::kBelady}) {
      const auto cache = MakeTensorCache(rule, count);
      NaiveCache naive(rule);
      for (int i = 0; i < 300; ++i) {
        const size_t entry = random() % count;
        if (random() % 4 == 0) {
          cache->Remove(entry);
          naive.Remove(entry);
        } else {
          // No two entries are next used together: each has its own positions.
          const int next = static_cast<int>((random() % 1000) * count + entry);
          cache->In(entry, next);
          naive.In(entry, next);
        }
        std::vector<bool> locked;
        for (size_t j = 0; j < count; ++j) locked.push_back(random() % 3 == 0);
        REQUIRE(Victim(*cache, [&](size_t e) { return locked[e]; }) == naive.Victim(locked));
      }
    }
  }
}

using Accesses = std::vector<size_t>;

int NextUse(const Accesses& accesses, size_t after) {
  const auto next = std::find(accesses.begin() + static_cast<std::ptrdiff_t>(after) + 1,
                              accesses.end(), accesses[after]);
  return next == accesses.end() ? kNever : static_cast<int>(next - accesses.begin());
}

// Misses of a cache with room for `room` entries that evicts as the order says.
int Misses(EvictionRule rule, const Accesses& accesses, size_t count, size_t room) {
  const auto cache = MakeTensorCache(rule, count);
  std::vector<bool> is_there(count, false);
  int misses = 0;
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (!is_there[accesses[i]]) {
      ++misses;
      if (std::count(is_there.begin(), is_there.end(), true) == static_cast<std::ptrdiff_t>(room)) {
        const size_t victim = *Victim(*cache, kNothingLocked);
        is_there[victim] = false;
        cache->Remove(victim);
      }
      is_there[accesses[i]] = true;
    }
    cache->In(accesses[i], NextUse(accesses, i));
  }
  return misses;
}

// The fewest misses of any cache, by trying every victim.
int FewestMisses(const Accesses& accesses, size_t from, std::vector<size_t> there, size_t room) {
  for (size_t i = from; i < accesses.size(); ++i) {
    if (std::find(there.begin(), there.end(), accesses[i]) != there.end()) continue;
    if (there.size() < room) {
      there.push_back(accesses[i]);
      return 1 + FewestMisses(accesses, i + 1, there, room);
    }
    int fewest = kNever;
    for (size_t victim = 0; victim < there.size(); ++victim) {
      std::vector<size_t> next = there;
      next[victim] = accesses[i];
      fewest = std::min(fewest, 1 + FewestMisses(accesses, i + 1, std::move(next), room));
    }
    return fewest;
  }
  return 0;
}

TEST_CASE("on random accesses no victims cost fewer misses than Belady's") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    constexpr size_t kCount = 5;
    Accesses accesses;
    for (int i = 0; i < 14; ++i) accesses.push_back(random() % kCount);
    for (const size_t room : {1, 2, 3}) {
      const int belady = Misses(EvictionRule::kBelady, accesses, kCount, room);
      CHECK(belady == FewestMisses(accesses, 0, {}, room));
      CHECK(belady <= Misses(EvictionRule::kLru, accesses, kCount, room));
    }
  }
}

TEST_CASE("on forward and backward over a chain LRU misses no more than Belady") {
  //   0 1 2 3 4 5 5 4 3 2 1 0     both keep what forward used last
  Accesses accesses;
  for (size_t i = 0; i < 20; ++i) accesses.push_back(i);
  for (size_t i = 20; i-- > 0;) accesses.push_back(i);
  for (size_t room = 1; room <= 20; ++room) {
    CHECK(Misses(EvictionRule::kLru, accesses, 20, room) == 40 - static_cast<int>(room));
    CHECK(Misses(EvictionRule::kBelady, accesses, 20, room) == 40 - static_cast<int>(room));
  }
}

}  // namespace
}  // namespace neap
