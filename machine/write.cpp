// Writes a Machine as a TOML profile: the keys that differ from their defaults.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "keys.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// The shortest text that reads as the same number.
std::string text_of(double x) { return fmt::format("{}", x); }

template <class T, class ToText>
std::string list(const std::vector<T>& all, ToText to_text) {
  std::string out;
  for (const T& x : all) out += (out.empty() ? "" : ", ") + to_text(x);
  return "[" + out + "]";
}

// Walks the lists of keys.hpp. A value that the reader would refuse as too small was never set, and
// is left out.
class Writer {
 public:
  struct Line {
    std::string section, key, value;
    bool operator==(const Line&) const = default;
  };

  void number(const char* k, double value, double least, double) {
    if (value >= least) put(k, text_of(value));
  }
  void count(const char* k, std::uint32_t value, std::uint32_t least, std::uint32_t) {
    if (value >= least) put(k, std::to_string(value));
  }
  void flag(const char* k, bool value) { put(k, value ? "true" : "false"); }
  void text(const char* k, const std::string& value) {
    if (!value.empty()) put(k, in_quotes(value));
  }
  template <class T>
  void choice(const char* k, const T& value, const std::map<std::string, T>& choices) {
    if (const std::string name = name_of(value, choices); !name.empty()) put(k, in_quotes(name));
  }
  template <class T>
  void choices(const char* k, const std::vector<T>& values, const std::map<std::string, T>& among) {
    put_list(k, values, [&](const T& value) { return in_quotes(name_of(value, among)); });
  }
  void numbers(const char* k, const std::vector<double>& values, double, double) {
    put_list(k, values, text_of);
  }
  void one_or_more(const char* k, const std::vector<double>& values, double least, double most) {
    numbers(k, values, least, most);
  }
  void rates(const char* k, const std::vector<MessageRate>& values, bool = false) {
    put_list(k, values, [](const MessageRate& r) {
      return "[" + text_of(r.bytes) + ", " + text_of(r.gb_per_s) + "]";
    });
  }
  template <class Write>
  void section(const char* k, Write write) {
    section_ = k;
    write(*this);
    section_.clear();
  }

  std::vector<Line> take() { return std::move(lines_); }

 private:
  void put(const char* k, std::string value) { lines_.push_back({section_, k, std::move(value)}); }
  template <class T, class ToText>
  void put_list(const char* k, const std::vector<T>& values, ToText to_text) {
    if (!values.empty()) put(k, list(values, to_text));
  }
  template <class T>
  static std::string name_of(const T& value, const std::map<std::string, T>& choices) {
    for (const auto& [name, choice] : choices)
      if (choice == value) return name;
    return "";
  }

  std::string section_;
  std::vector<Line> lines_;
};

std::vector<Writer::Line> lines_of(const Machine& m) {
  Writer writer;
  machine_keys(writer, m);
  return writer.take();
}

void add_line(std::string& out, const Writer::Line& line) {
  out += fmt::format("{} = {}\n", line.key, line.value);
}

}  // namespace

std::string to_toml(const Machine& m, const std::vector<std::string>& comments) {
  std::string out;
  for (const std::string& comment : comments)
    out += (comment.empty() ? "#" : "# " + comment) + "\n";
  const std::vector<Writer::Line> usual = lines_of(Machine{});
  std::string section;
  for (const Writer::Line& line : lines_of(m)) {
    if (std::find(usual.begin(), usual.end(), line) != usual.end()) continue;
    if (line.section != section) out += fmt::format("\n[{}]\n", line.section);
    section = line.section;
    add_line(out, line);
  }
  const auto add_table = [&](const char* name, auto write) {
    out += fmt::format("\n[[{}]]\n", name);
    Writer writer;
    write(writer);
    for (const Writer::Line& line : writer.take()) add_line(out, line);
  };
  for (const KernelTable& k : m.kernels) add_table("kernel", [&](Writer& w) { kernel_keys(w, k); });
  for (const CollectiveTable& c : m.collectives)
    add_table("collective", [&](Writer& w) { collective_keys(w, c); });
  Machine without_bases = m;  // the text needs none
  without_bases.bases.clear();
  if (read_machine(out, m.name) != without_bases)
    fail("{}: this machine cannot be written as a profile", m.name);
  return out;
}

}  // namespace ringsched
