#include "neap/layers/cpu/copy_queue.h"

#include <cstring>
#include <utility>

namespace neap {

CopyQueue::~CopyQueue() {
  Finish();
  thread_.join();
}

void CopyQueue::Copy(void* destination, const void* source, int64_t size_bytes) {
  if (size_bytes > 0) Enqueue(CopyTask{destination, source, size_bytes});
}

void CopyQueue::Call(std::function<void()> work) { Enqueue(std::move(work)); }

void CopyQueue::Wait(std::shared_ptr<CpuEvent> event) { Enqueue(WaitTask{std::move(event)}); }

std::shared_ptr<CpuEvent> CopyQueue::Record(Timing timing) {
  auto event = std::make_shared<CpuEvent>(timing);
  Enqueue(SignalTask{event});
  return event;
}

void CopyQueue::Finish() {
  {
    std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  changed_.notify_one();
}

void CopyQueue::Enqueue(Task task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void CopyQueue::Run() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finishing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (const auto* copy = std::get_if<CopyTask>(&task)) {
      std::memmove(copy->destination, copy->source, static_cast<size_t>(copy->size_bytes));
    } else if (const auto* work = std::get_if<CallTask>(&task)) {
      (*work)();
    } else if (const auto* wait = std::get_if<WaitTask>(&task)) {
      wait->event->Wait();
    } else {
      std::get<SignalTask>(task).event->Signal();
    }
  }
}

}  // namespace neap
