#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

#include "machines_command.hpp"
#include "ringsched/machine/datasheet.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct NewCommand {
  std::string gpu, gpus = "8", link, nodes = "1", nic, nics, output;
};

std::string names(const std::vector<DatasheetPart>& parts) {
  std::string out;
  for (const DatasheetPart& p : parts) out += (out.empty() ? "" : ", ") + p.name;
  return out;
}

std::string command_line(const NewCommand& c) {
  std::string out = fmt::format("ringsched machines new --gpu {} --gpus {}", c.gpu, c.gpus);
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) out += fmt::format(" {} {}", flag, value);
  };
  add("--link", c.link);
  add("--nodes", c.nodes == "1" ? "" : c.nodes);
  add("--nic", c.nic);
  add("--nics", c.nics);
  return out;
}

void run(const NewCommand& c) {
  if (!c.output.empty() && c.output != "-" && !c.output.ends_with(".toml"))
    fail("--output {}: use a name that ends in .toml", c.output);
  if (std::filesystem::exists(c.output))  // people edit profiles by hand
    fail("{} exists; remove it first, or choose another name", c.output);
  if (!c.nics.empty() && c.nic.empty()) fail("--nics {} needs --nic NAME", c.nics);
  const auto count = [](const std::string& text, const char* flag) {
    return static_cast<std::uint32_t>(number_of(text, flag, 1, 1024));
  };
  const Machine m = machine_of({.gpu = c.gpu,
                                .gpus = count(c.gpus, "--gpus"),
                                .link = c.link,
                                .nodes = count(c.nodes, "--nodes"),
                                .nic = c.nic,
                                .nics = c.nics.empty() ? 0 : count(c.nics, "--nics")});
  const std::string profile = to_toml(
      m,
      {"Made by: " + command_line(c), "",
       "No figure here was measured on this machine. They come from datasheets, and from public",
       "measurements of similar parts; each table names them in `source`. If that says ESTIMATE, "
       "no",
       "measurement is behind it. `spread` is how uncertain a table is, as a share: one standard",
       "deviation. Replace figures with your own measurements, and lower the spread;",
       "`ringsched calibrate --backend cuda` measures the kernels.",
       "`ringsched machines check FILE` lists errors, and what is still missing."});
  if (c.output.empty() || c.output == "-") {
    fmt::print("{}", profile);
    return;
  }
  NewFile file(c.output);
  file.append(profile);
  file.finish();
  fmt::print(
      "profile    {}\n\nNothing was measured on your machine. To see what is missing: ringsched "
      "machines check "
      "{}\nTo use it: ringsched simulate --machine {}\n",
      c.output, c.output, c.output);
}

}  // namespace

void add_new_command(CLI::App& machines) {
  CLI::App* app =
      machines.add_subcommand("new", "Draft a profile of your machine, based on datasheets");
  auto command = std::make_shared<NewCommand>();
  const auto flag = [&](const char* name, std::string& value, const char* type,
                        const std::string& help) {
    return app->add_option(name, value, help)->type_name(type);
  };
  flag("--gpu", command->gpu, "NAME", names(known_gpus()))->required();
  flag("--gpus", command->gpus, "N", "GPUs per node (default 8)");
  flag("--link", command->link, "NAME",
       "link between the GPUs: " + names(known_links()) +
           " (-host: copies pass through the host's memory) (default: the GPU's usual link)");
  flag("--nodes", command->nodes, "N", "nodes (default 1)");
  flag("--nic", command->nic, "NAME", "NIC that connects the nodes: " + names(known_nics()));
  flag("--nics", command->nics, "N", "NICs per node, shared by its GPUs (default: one per GPU)");
  flag("-o,--output", command->output, "FILE", "profile to write: .toml (default: print it)");
  app->callback([command, &machines] {
    if (machines.count("--format") > 0)
      fail(
          "--format is not for machines new, which writes TOML (see ringsched machines new "
          "--help)");
    run(*command);
  });
}

}  // namespace ringsched
