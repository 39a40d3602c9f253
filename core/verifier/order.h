// The order of the streams' accesses: vector clocks, and the last accesses to all bytes. Private to
// the verifier.
//
// Each stream counts its actions; a stream's clock says how far into the others it has waited. An
// access (stream s, count n) is ordered before the current action of stream t if t is s, or t's
// clock for s is at least n. For every piece of the arena it suffices to keep the last write and
// each stream's last read since: an access that is ordered after those is also ordered after all
// earlier ones, because those were checked to be ordered. A write merges its region to one piece,
// so the number of pieces stays near the number of regions. The pools are tracked in the same way.
//
// *Complexity*: O(log(pieces)) per access, amortised.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

class Order {
 public:
  Order(const Plan& plan, const Site& site);

  // The action being checked runs on `stream`, and performs the accesses that follow.
  void Begin(Stream stream);
  absl::Status Wait(const WaitAction& wait);

  // Accesses to the arena.
  absl::Status Read(const Region& region);
  absl::Status Write(const Region& region);
  // Accesses to an external tensor.
  absl::Status ReadExternal(TensorId tensor);
  absl::Status WriteExternal(TensorId tensor);
  // Accesses to a pool.
  absl::Status ReadCopy(Pool pool, const Region& region);
  absl::Status WriteCopy(Pool pool, const Region& region);

 private:
  using Clock = std::array<int32_t, kStreamCount>;  // actions of each stream known to have finished
  struct Touches {
    std::optional<Stream> writer;
    int32_t write = 0;  // the writer's count
    Clock reads = {};   // each stream's count at its last read since; 0 if there is none
  };
  using Pieces = std::map<int64_t, Touches>;  // by first byte; each extends to the next
  // A block of memory, and the words for accesses to it in messages.
  struct Memory {
    std::string_view reads, writes;
    Pieces pieces = {{0, Touches{}}};
  };

  absl::Status Read(Memory& memory, const Region& region);
  absl::Status Write(Memory& memory, const Region& region);
  bool Knows(Stream stream, int32_t count) const;
  absl::Status CheckAfterWrite(const Touches& touches, std::string_view what) const;
  absl::Status CheckAfterReads(const Touches& touches, std::string_view what) const;
  absl::Status Race(std::string_view what, Stream other, int32_t count) const;
  void NoteRead(Touches& touches) const;
  Touches Written() const;
  static Pieces::iterator Split(Pieces& pieces, int64_t at);

  const Plan& plan_;
  const Site& site_;
  bool concurrent_ = false;           // whether any action runs on another stream than compute
  Stream stream_ = Stream::kCompute;  // of the action being checked
  std::array<Clock, kStreamCount> clocks_ = {};
  std::vector<Clock> done_;  // by action: the clock that a stream has reached after waiting for it
  std::array<std::vector<size_t>, kStreamCount> actions_;  // the stream's actions, by count - 1
  Memory arena_ = {"it reads bytes", "it writes bytes"};
  // External tensors, each as one byte at its id. What binds the plan to memory checks that they do
  // not overlap.
  Memory external_ = {"it reads bytes of the caller's memory",
                      "it writes bytes of the caller's memory"};
  std::array<Memory, kPoolCount> pools_ = {  // by Pool
      Memory{"it reads bytes of the host's pool", "it writes bytes of the host's pool"},
      Memory{"it reads bytes of the peer's pool", "it writes bytes of the peer's pool"}};
};

}  // namespace neap::verifier
