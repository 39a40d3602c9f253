// The ids of engines that add in fp16 or compute a ReLU, and the flags of an engine of which only
// the id is known.
//
// Plans and databases of times hold an engine's id, but not its notes and flags. Two of the flags
// decide whether a plan may use an engine and with which others it is compared, so ids have them as
// prefixes, which a program's own kernels had better not use for other engines. Only these
// functions know the prefixes: a backend that lists engines calls a Mark function, and whatever has
// an engine's id alone, from a file or a program's own kernel, calls EngineFromText(). All other
// code reads the flags.
//
//   Engine engine = {.id = "eng12"};
//   MarkHalf(engine);
//   engine.id;                                      // "half:eng12"
//   EngineFromText(engine.id).accumulates_in_half;  // true
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/kernel.h"

namespace neap {

// The engine adds in fp16: sets the flag, and says so in its id and notes.
void MarkHalf(Engine& engine);
// The engine also computes a ReLU: sets the flag, and says so in its id.
void MarkRelu(Engine& engine);

// An engine of a row, with the flags that its id has. The others, which come from a library's notes
// (Engine::uses_tensor_cores, Engine::is_reference), are not in rows, so they are false.
Engine EngineFromText(std::string id, int64_t workspace_bytes = 0, bool deterministic = true);

}  // namespace neap
