// One copy stream of the CPU device: a thread that runs copies, waits and signals in the order they
// were given.
//
// Two queues may wait on each other's events. That cannot deadlock, as an event can be waited on
// only after it was enqueued: the earliest unfinished task of all queues never waits on a later
// one. It does mean that no thread may stop before every queue is empty; CpuDevice asks all of them
// to finish before it joins any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>

namespace neap {

// Happens once. *Threads*: safe to share.
class CpuEvent {
 public:
  explicit CpuEvent(bool happened) : happened_(happened) {}
  void Signal() {
    happened_.store(true, std::memory_order_release);
    happened_.notify_all();
  }
  void Wait() const { happened_.wait(false, std::memory_order_acquire); }

 private:
  std::atomic<bool> happened_;
};

class CopyQueue {
 public:
  // Throws std::system_error when no thread can be had.
  CopyQueue() : thread_([this] { Run(); }) {}
  // Runs what is queued, then joins.
  ~CopyQueue();
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  void Copy(void* destination, const void* source, int64_t size_bytes);
  void Wait(std::shared_ptr<CpuEvent> event);
  std::shared_ptr<CpuEvent> Record();
  // The thread ends once its queue is empty; nothing may be enqueued from here on.
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
  using Task = std::variant<CopyTask, WaitTask, SignalTask>;

  void Enqueue(Task task);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool finishing_ = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace neap
