#include "content.hpp"

#include <filesystem>
#include <fstream>

#include "ringsched/scheduler/error.hpp"
#include "sweep_rows.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kBeginning = 1 << 16;

struct Known {
  std::string_view what, use;
};

Known known(Content content) {
  switch (content) {
    case Content::Plan:
      return {"a plan", "use it with ringsched verify, simulate, run, render or plot"};
    case Content::Timeline:
      return {"a timeline", "use it with ringsched render, plot or compare"};
    case Content::Sweep:
      return {"the CSV of a sweep",
              "ringsched sweep --output adds rows to it, ringsched plot draws it"};
    case Content::Trace:
      return {"a trace", "open it in Perfetto"};
    case Content::Machine:
      return {"a machine profile", "use it with --machine"};
    case Content::Unknown:
      break;
  }
  return {};
}

}  // namespace

Content content_of(std::string_view text) {
  text = text.substr(0, kBeginning);
  if (text.find("\"ringsched-timeline\"") != text.npos) return Content::Timeline;
  if (text.find("\"ringsched-plan\"") != text.npos) return Content::Plan;
  const std::string columns = sweep_csv_header();
  if (text.starts_with(columns.substr(0, columns.find(',', columns.find(',') + 1))))
    return Content::Sweep;
  if (text.find("\"traceEvents\"") != text.npos) return Content::Trace;
  if (text.find("\n[devices]") != text.npos || text.find("\n[[kernel]]") != text.npos)
    return Content::Machine;
  return Content::Unknown;
}

std::string beginning_of(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return "";
  std::ifstream file(path, std::ios::binary);
  std::string text(kBeginning, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

void refuse_content(const std::string& path, Content held, std::string_view wanted) {
  if (held != Content::Unknown)
    fail("{} is {}, not {}; {}", path, known(held).what, wanted, known(held).use);
}

void expect_content(const std::string& path, Content wanted) {
  const Content held = content_of(beginning_of(path));
  if (held != wanted) refuse_content(path, held, known(wanted).what);
}

}  // namespace ringsched
