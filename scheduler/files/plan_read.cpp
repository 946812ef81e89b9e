#include <algorithm>
#include <vector>

#include "plan_defaults.hpp"
#include "plan_json.hpp"
#include "plan_reader.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/plan_file.hpp"

namespace ringsched {

namespace {

using namespace plan_file;

// A string to be shown to people later on, or echoed in a message.
std::string_view plain_string(const Found& found) {
  const std::string_view s = string(found);
  for (const char c : s)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      found.where.fail("\"{}\" holds a control character", found.field);
  return s;
}

constexpr std::array<std::string_view, 8> kProblemFields = {
    "workers", "tokens", "heads", "kv_heads", "head_dim", "dtype", "mask", "pass"};

Problem read_problem(const Found& found) {
  const Where where{found.where.file, "problem"};
  const Fields<kProblemFields> fields(where, object(found));
  fields.require({"workers", "tokens", "heads", "kv_heads", "head_dim", "dtype", "mask", "pass"});
  Problem p;
  p.workers = fields.number<std::uint32_t>("workers", 1, kMaxWorkers);
  p.tokens = Tokens{fields.number("tokens", 1, kMaxTokens)};
  p.heads = fields.number<std::uint32_t>("heads", 1, kMaxHeads);
  p.kv_heads = fields.number<std::uint32_t>("kv_heads", 1, kMaxHeads);
  p.head_dim = fields.number<std::uint32_t>("head_dim", 1, kMaxHeadDim);
  where.of([&] {
    p.dtype = parse_dtype(plain_string(fields["dtype"]));
    p.mask = parse_mask(plain_string(fields["mask"]));
    p.pass = parse_pass(plain_string(fields["pass"]));
    require_valid(p);
  });
  return p;
}

constexpr std::array<std::string_view, 4> kChunkFields = {"worker", "start", "count", "stride"};

Layout read_chunks(std::string_view file, dom::array chunks, const Problem& problem) {
  Layout layout;
  layout.name = "custom";
  const std::int64_t tokens = problem.tokens.value;
  for (const dom::element found : chunks) {
    const Where where{file, "chunk", static_cast<std::int64_t>(layout.chunks.size())};
    dom::object chunk;
    if (found.get(chunk) != simdjson::SUCCESS)
      where.fail("a chunk must be an object, not {}", describe(found));
    const Fields<kChunkFields> fields(where, chunk);
    fields.require({"worker", "start", "count"});
    const std::int64_t worker = fields.number("worker", 0, problem.workers - 1);
    const auto seen = static_cast<std::int64_t>(layout.first.size());
    if (worker > seen)
      where.fail(
          "worker {} comes before worker {}; list the chunks worker by worker, at least one "
          "for each",
          worker, seen);
    if (worker < seen - 1)
      where.fail("worker {} comes after worker {}; list the chunks worker by worker", worker,
                 seen - 1);
    if (worker == seen) layout.first.push_back(static_cast<std::uint32_t>(layout.chunks.size()));
    const TokenRange range{.start = fields.number("start", 0, tokens - 1),
                           .stride = fields.has("stride") ? fields.number("stride", 1, tokens) : 1,
                           .count = fields.number("count", 1, tokens)};
    if (range.position(range.count - 1) >= tokens)
      where.fail("its last token is {}, but the problem has {} tokens",
                 range.position(range.count - 1), tokens);
    layout.chunks.push_back(range);
  }
  if (layout.first.size() < problem.workers)
    Where{file, "layout"}.fail("worker {} has no chunk", layout.first.size());
  layout.first.push_back(static_cast<std::uint32_t>(layout.chunks.size()));
  Where{file, "layout"}.of([&] { require_valid(layout, problem.tokens); });
  return layout;
}

constexpr std::array<std::string_view, 1> kLayoutFields = {"chunks"};

Layout read_layout(const Found& found, const Problem& problem) {
  const Where where{found.where.file, "layout"};
  if (found.element.is_string()) {
    const std::string_view name = plain_string({where, "layout", found.element});
    return where.of([&] { return make_layout(name, problem.workers, problem.tokens); });
  }
  dom::object description;
  if (found.element.get(description) != simdjson::SUCCESS)
    where.fail("must be a layout name or an object with \"chunks\", not {}",
               describe(found.element));
  const Fields<kLayoutFields> fields(where, description);
  fields.require({"chunks"});
  return read_chunks(where.file, array(fields["chunks"]), problem);
}

// A later version may have fields and meanings that are unknown here, so this is looked at first.
int version_of(const Where& where, dom::object root) {
  dom::element version;
  std::string_view format;
  if (root["format"].get(format) != simdjson::SUCCESS || format != kFormat)
    where.fail("this is not a plan file: it lacks \"format\":\"{}\"", kFormat);
  if (root["version"].get(version) != simdjson::SUCCESS) where.fail("\"version\" is missing");
  const std::int64_t n = whole_number({where, "version", version}, 1);
  if (n > kPlanFileVersion)
    where.fail("the file has version {}; this ringsched reads versions 1 to {}", n,
               kPlanFileVersion);
  return static_cast<int>(n);
}

std::vector<std::string> read_lanes(const Found& found) {
  std::vector<std::string> lanes;
  for (const dom::element e : array(found)) lanes.emplace_back(string({found.where, "lanes", e}));
  if (const std::string refusal = refusal_of_lanes(lanes); !refusal.empty())
    found.where.fail("\"lanes\": {}", refusal);
  return lanes;
}

constexpr std::array<std::string_view, 9> kRootFields = {
    "format", "version", "schedule", "problem", "layout", "add_outputs", "tasks", "given", "lanes"};
constexpr std::size_t kRootFieldsOfVersion1 = 7;

Plan plan_of(std::string_view file, dom::object root) {
  const Where where{file};
  const int version = version_of(where, root);
  const Fields<kRootFields> fields(where, root,
                                   version == 1 ? kRootFieldsOfVersion1 : kRootFields.size());
  fields.require({"problem", "tasks"});

  Plan plan;
  if (fields.has("schedule"))
    plan.schedule = short_enough(where, "schedule", plain_string(fields["schedule"]));
  plan.problem = read_problem(fields["problem"]);
  plan.layout = fields.has("layout")
                    ? read_layout(fields["layout"], plan.problem)
                    : Where{file, "layout"}.of([&] {
                        return make_layout("contiguous", plan.problem.workers, plan.problem.tokens);
                      });
  plan.program = program_of(plan.problem);
  if (fields.has("lanes")) plan.lanes = read_lanes(fields["lanes"]);

  PlanReader reader(file, version, plan);
  if (fields.has("given")) {
    reader.read_given(array(fields["given"]));
  } else {
    for (const Given& g : default_given(plan)) reader.add(g);
  }
  reader.read_tasks(array(fields["tasks"]));
  if (!fields.has("add_outputs") || boolean(fields["add_outputs"])) reader.add_outputs();
  reader.mark_complete();
  return plan;
}

Plan read_padded(const std::string& buffer, std::string_view file) {
  dom::parser parser;
  return plan_of(file, parse(parser, buffer, file));
}

}  // namespace

Plan read_plan(std::string_view json, std::string_view name) {
  if (json.size() > kMaxBytes) Where{name}.fail("a plan file may have at most 4 GiB");
  return read_padded(padded(json), name);
}

Plan read_plan_file(const std::string& path) {
  return read_padded(read_json(path, kMaxBytes, simdjson::SIMDJSON_PADDING), shown_path(path));
}

}  // namespace ringsched
