// One screen to put into an issue: what this machine has, what is missing, and what that costs.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "commands.hpp"
#include "doctor.hpp"
#include "format_flag.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/timeline/trace_import.hpp"
#include "ringsched/viz/libraries.hpp"
#include "ringsched/viz/picture.hpp"
#include "ringsched/viz/task_graph.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kScreenWidth = 80;

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

// The value behind `key` and one of `marks` in a file of such lines; empty: there is none.
std::string value_in(const char* path, const std::string& key, const char* marks) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t mark = line.find_first_of(marks);
    if (mark == line.npos || !line.starts_with(key) ||
        line.find_last_not_of(" \t", mark - 1) + 1 != key.size())
      continue;
    const std::size_t first = line.find_first_not_of(" \t\"", mark + 1);
    const std::size_t last = line.find_last_not_of(" \t\"");
    if (first != line.npos && first <= last)
      return printable(line.substr(first, last - first + 1), 2000);
  }
  return {};
}

std::string system_name() {
  utsname kernel{};
  ::uname(&kernel);
  std::string distribution = value_in("/etc/os-release", "PRETTY_NAME", "=");
  if (!distribution.empty()) distribution += ", ";
  return fmt::format("{}{} {} {}, glibc {}", distribution, kernel.sysname, kernel.release,
                     kernel.machine, ::gnu_get_libc_version());
}

std::string processor() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const unsigned all = static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN));
  const unsigned usable = ::sched_getaffinity(0, sizeof mine, &mine) == 0
                              ? static_cast<unsigned>(CPU_COUNT(&mine))
                              : std::thread::hardware_concurrency();
  const std::string model = value_in("/proc/cpuinfo", "model name", ":");
  const std::string flags = " " + value_in("/proc/cpuinfo", "flags", ":") + " ";
  return fmt::format("{}, {} of {} cores usable{}", model.empty() ? "unknown" : model, usable, all,
                     flags.find(" hypervisor ") == flags.npos ? "" : ", virtual machine");
}

std::string memory() {
  const auto gib = [](const char* key) {  // of "24614392 kB"
    return std::strtod(value_in("/proc/meminfo", key, ":").c_str(), nullptr) / (1 << 20);
  };
  return fmt::format("{:.1f} GiB, {:.1f} GiB available", gib("MemTotal"), gib("MemAvailable"));
}

// Drawing something is the only sure way to know: Graphviz loads its drivers at run time.
template <class Draw>
DoctorPart drawing(const char* name, std::string version, const char* cost, Draw draw) {
  if (version.empty())
    return {name, "", fmt::format("this ringsched was built without it; {}", cost)};
  try {
    draw();
    return {name, std::move(version), ""};
  } catch (const Error& wrong) {
    return {name, std::move(version), fmt::format("{}; {}", wrong.what(), cost)};
  }
}

DoctorPart cairo() {
  DoctorPart out =
      drawing("Cairo", cairo_version(), "no PDF or PNG pictures, only SVG and HTML", [] {
        png({10, 10, "", false, {}});
      });
  if (out.missing.empty() && !cairo_has_font())
    out.missing =
        "no font Liberation Sans (Debian: fonts-liberation); text in PDF and PNG looks different";
  return out;
}

DoctorPart sqlite() {
  if (std::string version = sqlite_version(); !version.empty())
    return {"SQLite", std::move(version), ""};
  return {"SQLite", "", "this ringsched was built without it; import reads no traces of nsys"};
}

DoctorPart python() {
  // Asks for versions without importing PyTorch, which takes seconds.
  std::string found = answer_of(R"(timeout 10 python3 -c '
import importlib.metadata as m, importlib.util as u, sys
def version(name):
    try:
        return m.version(name) if u.find_spec(name) else ""
    except m.PackageNotFoundError:
        return __import__(name).__version__
print(sys.version.split()[0], "at", sys.executable, end="")
for name in "ringsched", "numpy", "torch":
    print(",", name, version(name) or "absent", end="")
' 2>/dev/null)");
  if (found.empty()) return {"Python", "", "no python3 in PATH; only the Python package needs one"};
  if (found.find("ringsched absent") == found.npos) return {"Python", std::move(found), ""};
  return {"Python", std::move(found),
          "this Python cannot import ringsched; docs/python.md says how to install it"};
}

std::vector<DoctorPart> parts() {
  std::vector<DoctorPart> out = {
      {"system", system_name(), ""}, {"CPU", processor(), ""}, {"memory", memory(), ""}};
  for (DoctorPart& p : runtime_parts()) out.push_back(std::move(p));
  out.push_back(cairo());
  out.push_back(drawing("Graphviz", graphviz_version(), "task graphs as dot files only",
                        [] { laid_out("digraph { a -> b }", GraphFormat::Png); }));
  out.push_back(sqlite());
  out.push_back(python());
  return out;
}

// `text` after `indent` columns, broken between words; the first line continues what is there.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > indent && column + 1 + end - at > kScreenWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out;
}

std::string text_of(const std::vector<DoctorPart>& all) {
  constexpr std::size_t indent = 11;
  std::string out = fmt::format("ringsched {}, built with {}\n\n", RINGSCHED_VERSION, kCompiler);
  std::vector<std::string> absent, lacking;
  for (const DoctorPart& p : all) {
    out += fmt::format("{:<{}}", p.name, indent);
    if (!p.found.empty()) out += wrapped(p.found, indent);
    if (!p.missing.empty()) {
      if (!p.found.empty()) out += "\n" + std::string(indent, ' ');
      out += wrapped((p.found.empty() ? "absent: " : "problem: ") + p.missing, indent);
      (p.found.empty() ? absent : lacking).emplace_back(p.name);
    }
    out += '\n';
  }
  if (absent.empty() && lacking.empty()) return out + "\nNothing is missing.\n";
  std::string last;
  if (!absent.empty()) last += fmt::format("Missing: {}. ", fmt::join(absent, ", "));
  if (!lacking.empty()) last += fmt::format("Incomplete: {}. ", fmt::join(lacking, ", "));
  last += fmt::format("Plans, proofs, predictions and SVG work without {}.",
                      absent.size() + lacking.size() == 1 ? "it" : "them");
  return out + "\n" + wrapped(last, 0) + "\n";
}

std::string json_of(const std::vector<DoctorPart>& all) {
  const auto text = [](const std::string& s) {
    return s.empty() ? "null" : fmt::format("\"{}\"", escaped(s));
  };
  std::string list;
  for (const DoctorPart& p : all)
    list += fmt::format("{}\n    {{\"name\": \"{}\", \"found\": {}, \"missing\": {}}}",
                        list.empty() ? "" : ",", p.name, text(p.found), text(p.missing));
  return fmt::format(
      "{{\n  \"version\": \"{}\",\n  \"compiler\": \"{}\",\n  \"parts\": [{}\n  ]\n}}\n",
      RINGSCHED_VERSION, escaped(kCompiler), list);
}

}  // namespace

std::string answer_of(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "r"), ::pclose);
  std::array<char, 400> line{};
  if (!pipe || !std::fgets(line.data(), static_cast<int>(line.size()), pipe.get())) return {};
  std::string out = line.data();
  return printable(out.substr(0, out.find('\n')), 300);
}

void add_doctor_command(CLI::App& program, ExitCode&) {
  CLI::App* app = program.add_subcommand("doctor", "Report what is installed and what is missing");
  auto format = std::make_shared<Format>(Format::Text);
  add_format_flag(*app, *format);
  app->callback([format] {
    const std::vector<DoctorPart> all = parts();
    fmt::print("{}", *format == Format::Json ? json_of(all) : text_of(all));
  });
}

}  // namespace ringsched
