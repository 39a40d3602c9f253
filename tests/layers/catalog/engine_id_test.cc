#include "neap/layers/catalog/engine_id.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/layers/engine_flags.h"

namespace neap {
namespace {

using testing::FlagsOf;

TEST_CASE("a mark is in the id, and the id gives it back") {
  Engine half = {.id = "eng12_k1=2", .notes = "tensor-core"}, relu = {.id = "eng3"};
  MarkHalf(half);
  MarkRelu(relu);
  CHECK(half.id == "half:eng12_k1=2");
  CHECK(half.notes == "half-accumulation tensor-core");
  CHECK(FlagsOf(half) == " in half");
  CHECK(relu.id == "relu:eng3");
  CHECK(relu.notes.empty());
  CHECK(FlagsOf(relu) == " with ReLU");
  for (const Engine& engine : {half, relu})
    CHECK(FlagsOf(EngineFromText(engine.id)) == FlagsOf(engine));
}

TEST_CASE("the mark of an engine without notes is all that its notes say") {
  Engine engine = {.id = "eng1"};
  MarkHalf(engine);
  CHECK(engine.notes == "half-accumulation");
}

TEST_CASE("other ids give no flags, and the other fields are those given") {
  for (const char* id : {"eng12", "cast:eng1", "s2d2x2+eng1", "half", "jit:half:", "neap", ""})
    CHECK(FlagsOf(EngineFromText(id)).empty());
  const Engine engine = EngineFromText("eng12", 4096, /*deterministic=*/false);
  CHECK(engine.id == "eng12");
  CHECK(engine.workspace_bytes == 4096);
  CHECK_FALSE(engine.deterministic);
  CHECK(engine.notes.empty());
}

}  // namespace
}  // namespace neap
