#include "ringsched/simulator/gaps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ringsched/scheduler/words.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

namespace {

std::string joined(const std::vector<std::string>& all, std::string_view last) {
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i)
    out += (i == 0 ? "" : i + 1 == all.size() ? fmt::format(" {} ", last) : ", ") + all[i];
  return out;
}

std::string tokens_text(double tokens) {
  return tokens >= 1024 && tokens / 1024 == std::floor(tokens / 1024)
             ? fmt::format("{:g}K", tokens / 1024)
             : fmt::format("{:g}", tokens);
}

// The kernels of one pass, dtypes with the same head dimensions together.
void kernel_gaps(const Machine& m, bool backward, std::vector<Gap>& out) {
  const char* const pass = backward ? "backward" : "forward";
  std::map<Dtype, std::set<std::uint32_t>> dims;
  std::map<std::pair<Dtype, std::uint32_t>, std::set<TileShape>> shapes;
  std::map<std::uint32_t, std::pair<double, double>> given;  // tokens, by head dimension
  bool by_blocks = true;
  for (const KernelTable& t : m.kernels) {
    if (t.library != m.library || t.backward != backward) continue;
    for (const Dtype d : t.dtypes) {
      dims[d].insert(t.head_dim);
      shapes[{d, t.head_dim}].insert(t.shape);
    }
    const auto [at, added] = given.try_emplace(t.head_dim, t.tokens.front(), t.tokens.back());
    auto& [first, last] = at->second;
    first = std::max(first, t.tokens.front());
    last = std::min(last, t.tokens.back());
    by_blocks = by_blocks && t.blocks.overhead_keys > 0;
  }
  for (const KernelTable& t : m.kernels)
    if (t.library == m.library && t.backward == backward && is_above_peak(m, t))
      out.push_back(
          {"kernels",
           fmt::format(
               "{}, {} mask, head dimension {}: {:.0f} TFLOP/s are more than the {:.0f} that "
               "sms x clock_ghz x flops_per_clock allow; is the table of another GPU?",
               pass, t.shape == TileShape::Full ? "full" : "causal", t.head_dim,
               std::ranges::max(t.tflops), peak_tflops(m))});
  if (dims.empty()) {
    out.push_back(
        {"kernels", fmt::format("no {} table, so problems with {} are refused", pass,
                                backward ? "--pass backward or both" : "a forward pass")});
    return;
  }
  std::vector<std::string> missing;
  for (const Dtype d : {Dtype::Bf16, Dtype::Fp16, Dtype::Fp32})
    if (!dims.contains(d)) missing.emplace_back(to_text(d));
  if (!missing.empty())
    out.push_back({"kernels", fmt::format("{0}: no table for {1}, so problems in {1} are refused",
                                          pass, joined(missing, "and"))});
  std::map<std::set<std::uint32_t>, std::vector<std::string>> alike;
  for (const auto& [d, has] : dims) alike[has].emplace_back(to_text(d));
  for (const auto& [has, dtypes] : alike) {
    std::vector<std::string> names;
    for (const std::uint32_t dim : has) names.push_back(std::to_string(dim));
    out.push_back(
        {"kernels",
         fmt::format("{} in {}: only head dimension{} {} {} given; others {}", pass,
                     joined(dtypes, "and"), names.size() == 1 ? "" : "s", joined(names, "and"),
                     names.size() == 1 ? "is" : "are",
                     m.flops_per_clock > 0 ? "are computed from the nearest"
                                           : "use the rates of the nearest one, as the profile has "
                                             "no devices.flops_per_clock")});
  }
  std::map<std::pair<std::uint32_t, TileShape>, std::vector<std::string>> one_mask;
  for (const auto& [of, has] : shapes)
    if (has.size() == 1) one_mask[{of.second, *has.begin()}].emplace_back(to_text(of.first));
  for (const auto& [of, dtypes] : one_mask)
    out.push_back(
        {"kernels", fmt::format("{}, {}, head dimension {}: no {} table; {} the {}-mask table{}",
                                pass, joined(dtypes, "and"), of.first,
                                of.second == TileShape::Full ? "causal" : "full-mask",
                                by_blocks ? "computed from" : "the rates of",
                                of.second == TileShape::Full ? "full" : "causal",
                                by_blocks ? ", scaled by thread blocks" : "")});
  const char* const from =
      by_blocks ? "in proportion to their thread blocks" : "from the end of the table";
  std::map<std::pair<double, double>, std::vector<std::string>> dims_of;  // by range of tokens
  for (const auto& [dim, range] : given) dims_of[range].push_back(std::to_string(dim));
  for (const auto& [range, names] : dims_of) {
    const auto [first, last] = range;
    const std::string what = dims_of.size() == 1
                                 ? pass
                                 : fmt::format("{}, head dimension{} {}", pass,
                                               names.size() == 1 ? "" : "s", joined(names, "and"));
    out.push_back(
        {"kernels",
         first >= last
             ? fmt::format("{}: only attends of {} tokens are given; others are extrapolated "
                           "{}",
                           what, tokens_text(first), from)
             : fmt::format("{}: attends of fewer than {} tokens or more than {} are extrapolated "
                           "{}",
                           what, tokens_text(first), tokens_text(last), from)});
  }
}

void link_gaps(const LinkFigures& link, const char* what, double channel, std::vector<Gap>& out) {
  if (channel > 0)
    out.push_back(
        {"links", fmt::format("{}: the rates of messages are computed from NCCL's channels, "
                              "of {:g} GB/s each",
                              what, channel)});
  else if (link.messages.empty())
    out.push_back({"links", fmt::format("{}: no measured message sizes, so all times are computed "
                                        "from latency_us and gb_per_s",
                                        what)});
  else
    out.push_back(
        {"links",
         fmt::format(
             "{}: measured for messages of {} to {}; for shorter messages, the start-up time falls "
             "to latency_us; for longer ones, it is that of the longest measured",
             what, human(Bytes{std::llround(link.messages.front().bytes)}),
             human(Bytes{std::llround(link.messages.back().bytes)}))});
  if (link.latency_us <= 0)
    out.push_back({"links", fmt::format("{}: no latency_us, so messages start at once", what)});
}

void collective_gaps(const Machine& m, std::vector<Gap>& out) {
  std::vector<std::string> missing;
  for (const ExchangeForm form : {ExchangeForm::AllGather, ExchangeForm::AllToAll,
                                  ExchangeForm::ReduceScatter, ExchangeForm::AllReduce})
    if (std::none_of(m.collectives.begin(), m.collectives.end(), [&](const CollectiveTable& c) {
          return c.kind == form && c.nodes == m.nodes;
        }))
      missing.emplace_back(to_text(form));
  if (!missing.empty())
    out.push_back(
        {"exchanges", fmt::format("no [[collective]] for {}{}; their times are computed "
                                  "from the links",
                                  joined(missing, "and"),
                                  m.nodes > 1 ? fmt::format(" over {} nodes", m.nodes) : "")});
}

void add_usual(std::string& usual, const char* table, bool missing, double spread) {
  if (missing) usual += fmt::format("{}[{}] {:g}%", usual.empty() ? "" : ", ", table, 100 * spread);
}

std::string usual_spreads(const SoftwareFigures& s) {
  std::string usual;
  add_usual(usual, "software", s.spread <= 0, kSoftwareSpread);
  add_usual(usual, "host", !s.host.issues_in_no_time() && s.host.spread <= 0, kHostSpread);
  return usual;
}

void spread_gaps(const Machine& m, std::vector<Gap>& out) {
  std::string usual;
  const auto add = [&](const char* table, bool missing, double spread) {
    add_usual(usual, table, missing, spread);
  };
  add("[kernel]",
      std::none_of(m.kernels.begin(), m.kernels.end(),
                   [&](const KernelTable& t) { return t.library == m.library && t.spread > 0; }),
      kKernelSpread);
  add("fabric", m.devices_per_node > 1 && m.fabric.spread <= 0, kLinkSpread);
  add("network", m.nodes > 1 && m.network.spread <= 0, kNetworkSpread);
  const std::string of_library = usual_spreads(m.software);
  if (!of_library.empty()) usual += (usual.empty() ? "" : ", ") + of_library;
  if (!usual.empty()) out.push_back({"spread", "assumed, as none is given: " + usual});
}

void software_gaps(const SoftwareFigures& s, std::vector<Gap>& out) {
  if (s.source.empty())
    out.push_back({"software", "no [software], so merges are one fused pass over memory"});
  if (s.host.issues_in_no_time())
    out.push_back(
        {"host", fmt::format("{}, so the host is assumed to launch work instantly; short problems "
                             "are predicted too fast",
                             s.host.source.empty() ? "no [host]" : "no times in [host]")});
}

}  // namespace

std::vector<Gap> gaps(const SoftwareFigures& s) {
  std::vector<Gap> out;
  software_gaps(s, out);
  if (const std::string usual = usual_spreads(s); !usual.empty())
    out.push_back({"spread", "assumed, as none is given: " + usual});
  return out;
}

std::vector<Gap> gaps(const Machine& m) {
  std::vector<Gap> out;
  if (m.ideal) return out;
  for (const bool backward : {false, true}) kernel_gaps(m, backward, out);
  if (m.devices_per_node > 1) link_gaps(m.fabric.link, "[fabric]", m.fabric.channel_gb_per_s, out);
  if (m.nodes > 1) link_gaps(m.network.link, "[network]", 0, out);
  if (m.devices() > 1) collective_gaps(m, out);
  if (m.memory_gb <= 0)
    out.push_back({"memory", "no memory.gb, so nothing says whether a plan fits"});
  if (m.launch_source.empty()) out.push_back({"launch", "no [launch], so kernels start at once"});
  if (m.devices() > 1 && m.sms > 0 && m.comm_source.empty())
    out.push_back({"transfers", "no [communication], so transfers take no SMs from kernels"});
  software_gaps(m.software, out);
  spread_gaps(m, out);
  return out;
}

}  // namespace ringsched
