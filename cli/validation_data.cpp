// `ringsched validate` for programs: JSON and CSV.
#include <fmt/format.h>

#include "ringsched/scheduler/mask.hpp"
#include "text.hpp"
#include "validation_text.hpp"

namespace ringsched {

namespace {

std::string json_of(const Errors& e) {
  return fmt::format(
      "\"results\": {}, \"impossible\": {}, \"median_error\": {}, \"mean_error\": {}, "
      "\"worst_error\": {}, \"worst_factor\": {}, \"worst_group\": \"{}\", \"worst_schedule\": "
      "\"{}\", \"too_fast\": {}, \"intervals\": {}, \"inside_80\": {}, \"median_half_width\": {}, "
      "\"narrow\": {}, \"pairs\": {}, \"pairs_in_order\": {}, \"sure\": {}, "
      "\"sure_in_order\": {}",
      e.results, e.impossible, e.median, e.mean, e.worst, e.worst_factor(), escaped(e.worst_group),
      escaped(e.worst_schedule), e.too_fast, e.intervals, e.held, e.half_width, e.narrow,
      e.ranking.pairs, e.ranking.in_order, e.ranking.sure, e.ranking.sure_in_order);
}

std::string json_of(const ValidatedResult& r) {
  const Problem& p = r.problem;
  const std::string interval =
      r.interval ? fmt::format("[{}, {}]", r.interval->low, r.interval->high) : "null";
  return fmt::format(
      "{{\"schedule\": \"{}\", \"overlap\": \"{}\", \"workers\": {}, \"tokens\": {}, \"heads\": "
      "{}, \"kv_heads\": {}, \"head_dim\": {}, \"dtype\": \"{}\", \"mask\": \"{}\", \"pass\": "
      "\"{}\", \"new_tokens\": {}, \"published\": {}, \"predicted\": {}, \"interval_80\": {}, "
      "\"half_width\": {}, \"difference\": {}, \"error\": {}, \"time_ratio\": {}, \"impossible\": "
      "{}}}",
      escaped(r.schedule), to_text(r.overlap), p.workers, p.tokens.value, p.heads, p.kv_heads,
      p.head_dim, to_text(p.dtype), escaped(to_text(p.mask)), to_text(p.pass), p.new_tokens.value,
      r.published, r.predicted, interval, r.half_width, r.predicted - r.published, r.error,
      r.time_ratio, r.impossible);
}

}  // namespace

std::string json_of(const Validation& v) {
  std::string sources, links, sizes, groups;
  for (const std::string& source : v.sources())
    sources += fmt::format("{}\n    {{\"source\": \"{}\", {}}}", sources.empty() ? "" : ",",
                           escaped(source), json_of(v.errors_of(source)));
  for (const SizeClass& c : kSizeClasses)
    sizes += fmt::format("{}\n    {{\"tokens_per_worker\": \"{}\", {}}}", sizes.empty() ? "" : ",",
                         c.name, json_of(v.errors_of(c)));
  for (const LinkClass c : kLinkClasses)
    links += fmt::format("{}\n    {{\"links\": \"{}\", {}}}", links.empty() ? "" : ",", to_text(c),
                         json_of(v.errors_of(c)));
  for (const ValidatedGroup& g : v.groups) {
    std::string results;
    for (const ValidatedResult& r : g.results)
      results += fmt::format("{}\n      {}", results.empty() ? "" : ",", json_of(r));
    groups += fmt::format(
        "{}\n    {{\"name\": \"{}\", \"by\": \"{}\", \"source\": \"{}\", \"machine\": \"{}\", "
        "\"quantity\": \"{}\", \"unit\": \"{}\", \"order_only\": {}, \"summary\": {{{}}}, "
        "\"results\": [{}\n    ]}}",
        groups.empty() ? "" : ",", escaped(g.name), escaped(g.by), escaped(g.source),
        escaped(g.machine), to_text(g.measure), unit_of(g.measure), g.order_only,
        json_of(errors_of(g)), results);
  }
  return fmt::format(
      "{{\n  \"summary\": {{{}}},\n  \"sources\": [{}\n  ],\n  \"links\": [{}\n  ],\n  \"sizes\": "
      "[{}\n  ],\n"
      "  \"groups\": [{}\n  ]\n}}\n",
      json_of(v.errors()), sources, links, sizes, groups);
}

std::string csv_of(const Validation& v) {
  std::string out =
      "source,group,machine,schedule,overlap,workers,tokens,heads,kv_heads,head_dim,dtype,mask,"
      "pass,"
      "new_tokens,quantity,unit,published,predicted,interval_low,interval_high,inside,difference,"
      "error,counts\n";
  for (const ValidatedGroup& g : v.groups)
    for (const ValidatedResult& r : g.results) {
      const Problem& p = r.problem;
      out += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
          csv_cell(g.by), csv_cell(g.name), csv_cell(g.machine), csv_cell(r.schedule),
          to_text(r.overlap), p.workers, p.tokens.value, p.heads, p.kv_heads, p.head_dim,
          to_text(p.dtype), csv_cell(to_text(p.mask)), to_text(p.pass), p.new_tokens.value,
          to_text(g.measure), csv_cell(unit_of(g.measure)), r.published, r.predicted,
          r.interval ? fmt::format("{}", r.interval->low) : "",
          r.interval ? fmt::format("{}", r.interval->high) : "",
          !r.interval ? ""
          : holds(r)  ? "yes"
                      : "no",
          r.predicted - r.published, r.error,
          r.impossible   ? "impossible"
          : g.order_only ? "order only"
                         : "yes");
    }
  return out;
}

}  // namespace ringsched
