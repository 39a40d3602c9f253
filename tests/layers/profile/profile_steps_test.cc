#include "neap/layers/profile/profile_steps.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/layers/catalog/engine_id.h"

namespace neap {
namespace {

std::vector<std::string> IdsOf(const std::vector<Engine>& engines) {
  std::vector<std::string> ids;
  for (const Engine& engine : engines) ids.push_back(engine.id);
  return ids;
}

using Ids = std::vector<std::string>;

TEST_CASE("the first engines are joined by those that need less workspace than all before them") {
  const std::vector<Engine> engines = {{"a", 100}, {"b", 50}, {"c", 70}, {"d", 50},
                                       {"e", 10},  {"f", 20}, {"g", 0}};
  CHECK(IdsOf(FirstEngines(engines, 1)) == Ids{"a", "b", "e", "g"});
  CHECK(IdsOf(FirstEngines(engines, 3)) == Ids{"a", "b", "c", "e", "g"});
  CHECK(FirstEngines(engines, 7).size() == 7);
  CHECK(FirstEngines({}, 7).empty());
}

TEST_CASE("a library's reference is among the first engines only if there is no other") {
  const std::vector<Engine> engines = {{"a", 100}, {"b", 50}, {.id = "ref", .is_reference = true}};
  CHECK(IdsOf(FirstEngines(engines, 1)) == Ids{"a", "b"});
  CHECK(IdsOf(FirstEngines(engines, 3)) == Ids{"a", "b"});
  CHECK(IdsOf(FirstEngines({engines.back()}, 1)) == Ids{"ref"});
}

TEST_CASE("engines that add in fp16 or compute a ReLU are counted apart from the others") {
  std::vector<Engine> engines;
  for (const char* id : {"half:a", "a", "half:b", "relu:a", "relu:b", "b"})
    engines.push_back(EngineFromText(id, 9));
  CHECK(IdsOf(FirstEngines(engines, 1)) == Ids{"half:a", "a", "relu:a"});
}

}  // namespace
}  // namespace neap
