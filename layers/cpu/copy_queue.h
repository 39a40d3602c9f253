// One stream of the CPU device besides compute: a thread that runs copies, other work, waits and
// signals in the order in which they were enqueued.
//
// Two queues may wait on each other's events. This cannot deadlock: an event can be waited on only
// after it was enqueued, so the earliest unfinished task of all queues never waits on a later one.
// However, no thread may stop before every queue is empty, so CpuDevice asks all queues to finish
// before it joins any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>

namespace neap {

// Whether an event records the time at which it happens.
enum class Timing : uint8_t { kNone, kTimed };

// Happens once. *Threads*: safe to share.
class CpuEvent {
 public:
  explicit CpuEvent(Timing timing = Timing::kNone) : timing_(timing) {}
  void Signal() {
    if (timing_ == Timing::kTimed) time_ = std::chrono::steady_clock::now();
    happened_.store(true, std::memory_order_release);
    happened_.notify_all();
  }
  void Wait() const { happened_.wait(false, std::memory_order_acquire); }
  bool happened() const { return happened_.load(std::memory_order_acquire); }
  Timing timing() const { return timing_; }
  // Only for a timed event that has happened.
  std::chrono::steady_clock::time_point time() const { return time_; }

 private:
  const Timing timing_;
  std::chrono::steady_clock::time_point time_;  // published by happened_
  std::atomic<bool> happened_ = false;
};

class CopyQueue {
 public:
  // Throws std::system_error if the thread cannot be started.
  CopyQueue() : thread_([this] { Run(); }) {}
  // Runs the queued tasks, then joins the thread.
  ~CopyQueue();
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  void Copy(void* destination, const void* source, int64_t size_bytes);
  void Call(std::function<void()> work);
  void Wait(std::shared_ptr<CpuEvent> event);
  std::shared_ptr<CpuEvent> Record(Timing timing = Timing::kNone);
  // Lets the thread end once its queue is empty; nothing may be enqueued afterwards.
  void Finish();

 private:
  struct CopyTask {
    void* destination;
    const void* source;
    int64_t size_bytes;
  };
  struct WaitTask {
    std::shared_ptr<CpuEvent> event;
  };
  struct SignalTask {
    std::shared_ptr<CpuEvent> event;
  };
  using CallTask = std::function<void()>;
  using Task = std::variant<CopyTask, CallTask, WaitTask, SignalTask>;

  void Enqueue(Task task);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool finishing_ = false;
  std::thread thread_;  // last, because it starts at once and uses the other members
};

}  // namespace neap
