// Writes the traces of a timeline file, for the tests that read them with other programs.
//   trace_sample TIMELINE TRACE             one Chrome trace
//   trace_sample --kineto TIMELINE FOLDER   FOLDER/rank-N.json for each worker
#include <fmt/format.h>

#include <filesystem>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/viz/trace.hpp"

namespace {

void write(const std::string& path, const std::string& text) {
  ringsched::NewFile file(path);
  file.append(text);
  file.finish();
}

}  // namespace

int main(int count, char** arguments) try {
  const bool kineto = count == 4 && std::string_view(arguments[1]) == "--kineto";
  if (count != 3 && !kineto) ringsched::fail("usage: trace_sample [--kineto] TIMELINE OUT");
  const ringsched::Timeline t = ringsched::read_timeline_file(arguments[count - 2]);
  const std::string out = arguments[count - 1];
  if (!kineto) {
    write(out, ringsched::chrome_trace(t));
    return 0;
  }
  std::filesystem::create_directories(out);
  for (std::uint32_t w = 0; w < t.problem.workers; ++w)
    write(fmt::format("{}/rank-{}.json", out, w), ringsched::kineto_trace(t, w));
} catch (const std::exception& e) {
  fmt::print(stderr, "trace_sample: {}\n", e.what());
  return 2;
}
