// Every definition of the library by name, parsed when it is first wanted.
#include "program.h"
#include "shapes.h"
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace air_sim {
namespace {
struct Known {
  const char* text;
  void (*kernel)(Call&);
  std::unique_ptr<Definition> parsed;
};
struct Table {
  std::mutex mutex;
  std::map<std::string, Known> known;
};
Table& table() {
  static auto* t = new Table;  // calls may come until the very end of the process
  return *t;
}
void add(const char* text, void (*kernel)(Call&)) {
  std::string name = text;
  name = "aclnn" + name.substr(0, name.find('('));
  if (!table().known.emplace(name, Known{text, kernel, nullptr}).second)
    throw std::logic_error("air-sim: " + name + " is defined twice");
}
}  // namespace

Family::Family(std::initializer_list<Written> written) {
  for (const auto& w : written) add(w.text, w.kernel);
}
Family::Family(const char* const* rows, size_t count) {
  for (size_t i = 0; i < count; ++i) add(rows[i], nullptr);
}

const Definition* find_definition(const std::string& name) {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  auto found = t.known.find(name);
  if (found == t.known.end()) return nullptr;
  Known& known = found->second;
  if (!known.parsed) {
    auto parsed = std::make_unique<Definition>(known.kernel ? parse_signature(known.text) : parse_definition(known.text));
    if (known.kernel) parsed->kernel = known.kernel;
    parsed->check = shape_check(name);
    known.parsed = std::move(parsed);
  }
  return known.parsed.get();
}

std::vector<std::string> defined_names() {
  std::vector<std::string> names;
  for (const auto& item : table().known) names.push_back(item.first);
  return names;
}
}  // namespace air_sim
