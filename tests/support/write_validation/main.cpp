// Compares with all published results, which takes long, once for several tests: writes what
// `ringsched validate` prints, and prints with --format json and markdown.
//
//   write_validation STEM     STEM.txt, STEM.json, STEM.md
#include <string>

#include "ringsched/scheduler/file.hpp"
#include "validation_text.hpp"

int main(int count, char** arguments) {
  using namespace ringsched;
  if (count != 2) return 2;
  const std::string stem = arguments[1];
  const Validation v = validate(published_measurements());
  const auto write = [&](const std::string& ending, const std::string& text) {
    NewFile file(stem + ending);
    file.append(text);
    file.finish();
  };
  write(".txt", text_of(v, ValidationDetail::Groups));
  write(".json", json_of(v));
  write(".md", markdown_of(v, ""));
}
