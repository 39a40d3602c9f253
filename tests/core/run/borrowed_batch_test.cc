// Images that a session borrows, on the CPU device.
#include "tests/core/run/borrowed_batch.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/core/run/session.h"
#include "tests/adversarial_device.h"
#include "tests/own_memory_device.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// The batch without images of its own.
Batch Borrowing(const Batch& batch, bool on_device) {
  return {
      .labels = batch.labels, .size = batch.size, .borrowed = batch.images, .on_device = on_device};
}

}  // namespace

TEST_CASE("batches whose images are borrowed train to the same bits") {
  const auto cpu = OpenCpu();
  CheckBorrowedBatches(*cpu);
  OwnMemoryDevice ahead(*cpu);
  CheckBorrowedBatches(ahead);
  for (uint32_t seed : {3U, 30U}) {
    AdversarialDevice adversary(*cpu, seed);
    CheckBorrowedBatches(adversary);
  }
}

TEST_CASE("a part of a batch borrows a part of its images") {
  const Batch whole = MakeBatch(1);
  const Batch part = PartOf(Borrowing(whole, true), 2, 3), owned = PartOf(whole, 2, 3);
  CHECK(part.size == 3);
  CHECK(part.on_device);
  CHECK(part.labels == owned.labels);
  CHECK(ImagesOf(part) == absl::MakeConstSpan(owned.images));
  CHECK(ImagesOf(part).data() == whole.images.data() + 2 * 3 * 8 * 8);
}

TEST_CASE("fewer borrowed images than the network's batch are evaluated if they are on the host") {
  const auto cpu = OpenCpu();
  Session session = MakeSession(*cpu, {});
  const Batch part = PartOf(MakeBatch(1), 0, 3);
  CHECK(session.Evaluate(Borrowing(part, false))->loss == session.Evaluate(part)->loss);
  CHECK(session.Evaluate(Borrowing(part, true)).status().message() ==
        "images in the device's memory must be as many as the network's batch, 8");
}

TEST_CASE("a batch with a wrong number of borrowed images is refused") {
  const auto cpu = OpenCpu();
  Session session = MakeSession(*cpu, {});
  const Batch batch = MakeBatch(1);
  for (const bool on_device : {false, true}) {
    Batch short_one = Borrowing(batch, on_device);
    short_one.borrowed.remove_suffix(1);
    CHECK(session.Begin(short_one).code() == absl::StatusCode::kInvalidArgument);
    Batch own = batch;
    own.on_device = on_device;
    CHECK(session.TrainStep(own).ok() == !on_device);
    CHECK(session.TrainStep(Borrowing(batch, on_device)).ok());
  }
}

}  // namespace neap
