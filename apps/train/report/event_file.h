// A file of scalars that TensorBoard reads (events.out.tfevents.*).
//
// The format is TensorFlow's: records with a masked CRC-32C of their length and one of their bytes
// (TFRecord, tensorflow/core/lib/io/record_writer.cc), each of which is an Event message in the
// encoding of Protocol Buffers (tensorflow/core/util/event.proto). Only the fields that scalars
// need are written: wall_time (1), step (2), file_version (3), and summary (5), whose values (1)
// have tag (1) and simple_value (2).
//
//   EventRecord(now, EventVersion());  // the first record of a file
//   EventRecord(now, EventScalars(/*step=*/100, {{"train/loss", 0.7F}, {"train/accuracy", 0.8F}}));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace neap::apps {

struct Scalar {
  std::string tag;
  float value = 0;
};

// The fields of an Event after its time.
std::string EventVersion();
std::string EventScalars(int64_t step, const std::vector<Scalar>& scalars);
// The record of an Event with these fields.
std::string EventRecord(double unix_seconds, const std::string& fields);

}  // namespace neap::apps
