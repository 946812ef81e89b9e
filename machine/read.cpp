// Reads machine profiles: TOML in, a Machine out. Errors have line and key, for everything that
// breaks the rules of docs/machines.md.
#include <algorithm>
#include <filesystem>

#include "keys.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "tables.hpp"
#include "toml_section.hpp"
#include "valid.hpp"

namespace ringsched {

namespace {

// The line of the table (or key) that an error of invalid() begins with; otherwise the first line.
std::uint32_t line_of(const toml::table& file, std::string_view complaint) {
  const toml::node* const at = file.get(complaint.substr(0, complaint.find_first_of(".: ")));
  return at == nullptr ? 1 : at->source().begin.line;
}

// Whether one error, of a file and line, is about the key that another begins with.
bool is_about(std::string_view complaint, std::string_view other) {
  const std::string_view key = other.substr(0, other.find_first_of(": "));
  const std::size_t at = complaint.find(key);
  return at != complaint.npos && complaint.substr(0, at).ends_with(": ");
}

constexpr std::uint64_t kMostBytes = (1 << 20) - 1;  // of a profile
constexpr std::size_t kMostBases = 16;

// A file's own wait or graph replaces those of its base, which would contradict it.
void drop_host(const toml::table& file, HostFigures& h) {
  const toml::table* const own = file["host"].as_table();
  if (own == nullptr) return;
  const bool graph = own->contains("graph_us");
  if (graph) h.synchronises = Synchronises::Never;
  if (graph || own->contains("synchronises")) h.synchronise_us = 0;
  const bool waits =
      own->contains("synchronises") && (*own)["synchronises"].value_or("") != std::string("never");
  if (graph || waits) h.graph_us = h.graph_node_us = 0;
}

// The profiles being read; each names the next as its `base`.
using Chain = std::vector<std::string>;

// A path relative to the folder of the file that names it.
std::string beside(std::string_view file, const std::string& path) {
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
}

// One name for a file, however it is written.
std::string one_name(const std::string& file) {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::weakly_canonical(file, failed);
  return failed ? file : path.string();
}

// The text under a name, which is a path or a built-in profile.
struct Source {
  std::string name, toml;
};

// Throws Error if there is none.
Source base_of(std::string_view file, const std::string& base, std::string_view what,
               const std::vector<MachineProfile>& profiles) {
  if (is_machine_file(base)) {
    const std::string path = beside(file, base);
    return {path, read_whole(path, kMostBytes)};
  }
  std::vector<std::string_view> names;
  for (const MachineProfile& p : profiles) {
    if (p.name == base) return {std::string(p.name), std::string(p.toml)};
    names.push_back(p.name);
  }
  throw Error(unknown_name(what, base, names));
}

toml::table parsed(std::string_view text, std::string_view name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    fail("{}:{}: not a TOML file: {}", name, e.source().begin.line,
         printable(e.description(), 200));
  }
}

// Reads what `base` names, if it exists. Returns false if it does not read.
template <class Read>
bool read_base(Section& s, std::string_view file, std::string_view what,
               const std::vector<MachineProfile>& profiles, Chain chain, Read read) {
  std::string base;
  s.text("base", base);
  if (base.empty()) return !s.table().contains("base");
  bool there = false;
  s.attempt([&] {
    Source source;
    try {
      source = base_of(file, base, what, profiles);
      chain.push_back(one_name(std::string(file)));
      const std::string name = one_name(source.name);
      if (std::find(chain.begin(), chain.end(), name) != chain.end())
        fail("{} is based on itself", base);
      if (chain.size() > kMostBases)
        fail("more than {} profiles are based on one another", kMostBases);
    } catch (const Error& e) {
      s.wrong(*s.table().get("base"), fmt::format("base: {}", e.what()));
    }
    read(source, chain);
    there = true;
  });
  return there;
}

void read(std::string_view text, std::string_view name, const Chain& chain, Complaints& complaints,
          Machine& m) {
  const toml::table table = parsed(text, name);
  Section s(table, std::string(name), "", &complaints);
  const bool has_base = table.contains("base");
  const bool whole = read_base(s, name, "machine", machine_profiles(), chain,
                               [&](const Source& base, const Chain& longer) {
                                 read(base.toml, base.name, longer, complaints, m);
                               });
  if (has_base && whole) m.bases.push_back(m.name);
  // A profile's own table of messages, or its own rate of a channel, replaces both of its base.
  if (const toml::table* fabric = table["fabric"].as_table()) {
    if (fabric->contains("messages")) m.fabric.channel_gb_per_s = 0;
    if (fabric->contains("channel_gb_per_s")) m.fabric.link.messages.clear();
  }
  drop_host(table, m.software.host);
  machine_keys(s, m);
  read_kernels(s, m, has_base);
  drop_collectives(s.table(), m);
  read_collectives(s, m);
  s.finish(false);
  s.required("name");
  s.required("summary");
  if (!whole) return;  // what is missing may be in its base
  for (const std::string& what : invalid(m))
    if (std::none_of(complaints.begin(), complaints.end(),
                     [&](const std::string& c) { return is_about(c, what); }))
      complaints.push_back(fmt::format("{}:{}: {}{}", name, line_of(table, what), what,
                                       has_base && what.find(".messages:") != what.npos
                                           ? "; messages = [] takes away those of the base"
                                           : ""));
}

Complaints read(std::string_view text, std::string_view name, Machine& m) {
  Complaints complaints;
  try {
    read(text, name, {}, complaints, m);
  } catch (const Error& e) {  // not TOML
    complaints.emplace_back(e.what());
  }
  return complaints;
}

}  // namespace

Machine read_machine(std::string_view text, std::string_view name) {
  Machine m;
  if (const Complaints all = read(text, name, m); !all.empty()) throw Error(all.front());
  return m;
}

CheckedProfile check_machine(std::string_view text, std::string_view name) {
  CheckedProfile out;
  Machine m;
  out.errors = read(text, name, m);
  if (out.errors.empty()) out.machine = std::move(m);
  return out;
}

bool is_machine_file(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".toml");
}

Machine find_machine(const std::string& name) {
  if (is_machine_file(name)) {
    Machine m = read_machine(read_whole(name, kMostBytes), name);
    // What reads a machine's name later must not take it for the built-in one.
    if (std::ranges::any_of(machine_profiles(), [&](const auto& p) { return p.name == m.name; }))
      m.name = fmt::format("{} ({})", m.name, std::filesystem::path(name).filename().string());
    return m;
  }
  std::vector<std::string_view> names;
  for (const MachineProfile& p : machine_profiles()) {
    if (p.name == name) return read_machine(p.toml, p.name);
    names.push_back(p.name);
  }
  const bool other_file = name.find('.') != name.npos;
  throw Error(unknown_name("machine", name, names) +
              (other_file ? "; a profile's file name ends in .toml" : ""));
}

namespace {

void read_software(const Source& file, const Chain& chain, Complaints& complaints,
                   SoftwareFigures& figures) {
  const toml::table table = parsed(file.toml, file.name);
  Section s(table, file.name, "", &complaints);
  std::string about;
  const bool whole = read_base(s, file.name, "software", software_profiles(), chain,
                               [&](const Source& base, const Chain& longer) {
                                 read_software(base, longer, complaints, figures);
                               });
  s.text("name", about);
  s.text("summary", about);
  drop_host(table, figures.host);
  s.section("software", [&](Section& d) { software_keys(d, figures); });
  s.section("host", [&](Section& d) { host_keys(d, figures.host); });
  s.finish(false);
  if (complaints.empty() && !s.has("software") && !s.has("host") && !s.has("base"))
    complaints.push_back(fmt::format(
        "{}: has neither [software] nor [host], so it says nothing of a library", file.name));
  if (whole && complaints.empty())
    for (const std::string& what : invalid(figures.host))
      complaints.push_back(fmt::format("{}:{}: {}", file.name, line_of(table, what), what));
}

Complaints read_software(const Source& file, SoftwareFigures& figures) {
  Complaints complaints;
  try {
    read_software(file, {}, complaints, figures);
  } catch (const Error& e) {  // not TOML
    complaints.emplace_back(e.what());
  }
  return complaints;
}

SoftwareFigures read_software(const Source& file) {
  SoftwareFigures figures;
  if (const Complaints all = read_software(file, figures); !all.empty()) throw Error(all.front());
  return figures;
}

}  // namespace

SoftwareFigures read_software(std::string_view text, std::string_view name) {
  return read_software({std::string(name), std::string(text)});
}

CheckedLibrary check_software(std::string_view text, std::string_view name) {
  CheckedLibrary out;
  SoftwareFigures figures;
  out.errors = read_software({std::string(name), std::string(text)}, figures);
  if (out.errors.empty()) out.software = std::move(figures);
  return out;
}

namespace {

bool is_software(std::string_view text, std::string_view name, std::size_t most_bases) {
  try {
    const toml::table file = parsed(text, name);
    const auto any = [&](std::initializer_list<const char*> keys) {
      return std::ranges::any_of(keys, [&](const char* k) { return file.contains(k); });
    };
    if (any({"model", "devices", "memory", "fabric", "kernel"})) return false;
    const auto base = file["base"].value<std::string>();
    if (!base) return any({"software", "host"});
    const Source below = base_of(name, *base, "software", software_profiles());
    return most_bases > 0 && is_software(below.toml, below.name, most_bases - 1);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_software(std::string_view text, std::string_view name) {
  return is_software(text, name, kMostBases);
}

std::string summary_of(const MachineProfile& profile) {
  return parsed(profile.toml, profile.name)["summary"].value_or(std::string{});
}

SoftwareFigures find_software(const std::string& name) {
  return read_software(base_of("", name, "library", software_profiles()));
}

}  // namespace ringsched
