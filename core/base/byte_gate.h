// A gate that threads pass with the bytes that they are going to use, so that those of all threads
// together stay within a bound.
//
//   ByteGate gate(int64_t{4} << 30);
//   const ByteGate::Pass pass = gate.Enter(volume_bytes);  // waits while too much is in use
//
// A pass gives its bytes back when it ends.
// Threads enter in the order in which they came, so that a large one is not passed over for ever.
// One alone may have more bytes than the bound.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace neap {

// *Threads*: safe from several at once. *Ownership*: outlives its passes.
class ByteGate {
 public:
  class Pass {
   public:
    Pass(Pass&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), bytes_(other.bytes_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave(bytes_);
    }

   private:
    friend class ByteGate;
    Pass(ByteGate* gate, int64_t bytes) : gate_(gate), bytes_(bytes) {}
    ByteGate* gate_;
    int64_t bytes_;
  };

  explicit ByteGate(int64_t most_bytes) : most_bytes_(most_bytes) {}
  [[nodiscard]] Pass Enter(int64_t bytes) {
    std::unique_lock lock(mutex_);
    const uint64_t place = last_place_++;
    changed_.wait(lock, [&] {
      return place == next_place_ && (used_bytes_ == 0 || bytes <= most_bytes_ - used_bytes_);
    });
    ++next_place_;
    used_bytes_ += bytes;
    changed_.notify_all();
    return {this, bytes};
  }

 private:
  void Leave(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    used_bytes_ -= bytes;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t most_bytes_;
  int64_t used_bytes_ = 0;
  uint64_t last_place_ = 0;  // of those who wait, the next to come
  uint64_t next_place_ = 0;  // and the next to enter
};

}  // namespace neap
