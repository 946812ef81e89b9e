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

// A string that messages and pictures will show.
std::string_view plain_string(const Found& found) {
  const std::string_view s = string(found);
  for (const char c : s)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      found.where.fail("\"{}\" holds a control character", found.field);
  return s;
}

constexpr std::array<std::string_view, 9> kProblemFields = {
    "workers", "tokens", "heads", "kv_heads", "head_dim", "dtype", "mask", "pass", "new_tokens"};

Problem read_problem(const Found& found, int version) {
  const Where where{found.where.file, "problem"};
  const Fields<kProblemFields> fields(where, object(found));
  fields.require({"workers", "tokens", "heads", "kv_heads", "head_dim", "dtype", "mask", "pass"});
  Problem p;
  p.workers = fields.number<std::uint32_t>("workers", 1, kMaxWorkers);
  p.tokens = Tokens{fields.number("tokens", 1, kMaxTokens)};
  p.heads = fields.number<std::uint32_t>("heads", 1, kMaxHeads);
  p.kv_heads = fields.number<std::uint32_t>("kv_heads", 1, kMaxHeads);
  p.head_dim = fields.number<std::uint32_t>("head_dim", 1, kMaxHeadDim);
  if (fields.has("new_tokens")) {
    if (version == 1) where.fail("\"new_tokens\" needs \"version\":2; this file says 1");
    p.new_tokens = Tokens{fields.number("new_tokens", 0, kMaxTokens)};
  }
  where.of([&] {
    p.dtype = parse_dtype(plain_string(fields["dtype"]));
    p.mask = parse_mask(plain_string(fields["mask"]));
    p.pass = parse_pass(plain_string(fields["pass"]));
    require_valid(p);
  });
  return p;
}

constexpr std::array<std::string_view, 4> kChunkFields = {"worker", "start", "count", "stride"};

// The chunks of a worker stand together. In version 1, so do the workers, in their order.
Layout read_chunks(const Where& of_layout, dom::array found_chunks, const Problem& problem,
                   int version) {
  std::vector<TokenRange> chunks;
  std::vector<Region> shares(problem.workers);
  const std::int64_t tokens = problem.tokens.value;
  std::int64_t before = -1;  // the worker of the chunk before
  for (const dom::element found : found_chunks) {
    const auto id = static_cast<std::uint32_t>(chunks.size());
    const Where where{of_layout.file, "chunk", id};
    dom::object chunk;
    if (found.get(chunk) != simdjson::SUCCESS)
      where.fail("a chunk must be an object, not {}", describe(found));
    const Fields<kChunkFields> fields(where, chunk);
    fields.require({"worker", "start", "count"});
    const std::int64_t worker = fields.number("worker", 0, problem.workers - 1);
    if (version == 1 && worker != before && worker != before + 1)
      where.fail("worker {} is out of order; in version 1, list the chunks worker by worker",
                 worker);
    Region& share = shares[static_cast<std::size_t>(worker)];
    if (share.count == 0) share.first = {id};
    if (share.end() != id)
      where.fail("worker {} has chunk {}, but not chunk {}; list the chunks of a worker together",
                 worker, share.end() - 1, share.end());
    ++share.count;
    before = worker;
    const TokenRange range{.start = fields.number("start", 0, tokens - 1),
                           .stride = fields.has("stride") ? fields.number("stride", 1, tokens) : 1,
                           .count = fields.number("count", 1, tokens)};
    if (range.position(range.count - 1) >= tokens)
      where.fail("its last token is {}, but the problem has {} tokens",
                 range.position(range.count - 1), tokens);
    chunks.push_back(range);
  }
  return of_layout.of([&] {
    Layout layout = custom_layout(std::move(chunks), std::move(shares));
    require_valid(layout, problem.tokens);
    return layout;
  });
}

constexpr std::array<std::string_view, 1> kLayoutFields = {"chunks"};

Layout read_layout(const Found& found, const Problem& problem, int version) {
  const Where where{found.where.file, "layout"};
  if (found.element.is_string()) {
    const std::string_view name = plain_string({where, "layout", found.element});
    if (version == 1 && name == "decode")
      where.fail("layout decode needs \"version\":2; this file says 1");
    return where.of([&] { return make_layout(name, problem); });
  }
  dom::object description;
  if (found.element.get(description) != simdjson::SUCCESS)
    where.fail("must be a layout name or an object with \"chunks\", not {}",
               describe(found.element));
  const Fields<kLayoutFields> fields(where, description);
  fields.require({"chunks"});
  return read_chunks(where, array(fields["chunks"]), problem, version);
}

// Those of queries, and those of keys and values.
void read_dummy_heads(const Found& found, Plan& plan) {
  const dom::array counts = array(found);
  if (counts.size() != 2)
    found.where.fail("\"dummy_heads\" must be [heads, key/value heads], not {} numbers",
                     counts.size());
  const auto count = [&](std::size_t i, std::uint32_t of) {
    return static_cast<std::uint32_t>(
        whole_number({found.where, found.field, counts.at(i)}, 0, of - 1));
  };
  plan.dummy_heads = count(0, plan.problem.heads);
  plan.dummy_kv_heads = count(1, plan.problem.kv_heads);
  Where{found.where.file, "dummy_heads"}.of([&] { require_valid(plan.without_padding()); });
}

// A later version may have fields and meanings unknown here, so check this first.
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

constexpr std::array<std::string_view, 10> kRootFields = {
    "format",      "version", "schedule", "problem", "layout",
    "add_outputs", "tasks",   "given",    "lanes",   "dummy_heads"};
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
  plan.problem = read_problem(fields["problem"], version);
  plan.layout =
      fields.has("layout")
          ? read_layout(fields["layout"], plan.problem, version)
          : Where{file, "layout"}.of([&] {
              return make_layout(plan.problem.decodes() ? "decode" : "contiguous", plan.problem);
            });
  if (const std::string why = refusal_of(plan.problem, plan.layout); !why.empty())
    Where{file, "layout"}.fail("{}", why);
  if (fields.has("dummy_heads")) read_dummy_heads(fields["dummy_heads"], plan);
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
