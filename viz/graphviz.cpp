// dot files as pictures, through Graphviz's library.
#include "ringsched/scheduler/error.hpp"
#include "ringsched/viz/libraries.hpp"
#include "ringsched/viz/task_graph.hpp"
#include "too_small.hpp"

#ifdef RINGSCHED_GRAPHVIZ
#include <fmt/format.h>
#include <graphviz/gvc.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "ringsched/scheduler/printable.hpp"
#endif

namespace ringsched {

#ifdef RINGSCHED_GRAPHVIZ

namespace {

std::string complaints;  // of Graphviz, which has one handler for all of a process
int keep(char* text) {
  complaints += text;
  return 0;
}

struct Close {
  void operator()(Agraph_t* g) const { agclose(g); }
};

[[noreturn]] void failed() {
  std::replace(complaints.begin(), complaints.end(), '\n', ' ');
  fail("Graphviz cannot draw this: {}", printable(complaints, 200));
}

// Graphviz numbers what it reads by the addresses of the names, and draws in the order of the
// numbers. Equal graphs must give equal files, so these count instead. They are templates, because
// the types that Graphviz uses here have changed over time.
template <class Result, class Text, class Number>
Result number_unnamed(void* counter, int, Text* name, Number* id, int create) {
  if (name || !create) return 0;  // names then go into a table of Graphviz's own
  *id = *static_cast<Number*>(counter) += 2;
  return 1;
}
template <class Size>
Size read_some(void* text, char* buffer, Size room) {
  auto& rest = *static_cast<std::string_view*>(text);
  const std::size_t n = rest.copy(buffer, static_cast<std::size_t>(room));
  rest.remove_prefix(n);
  return static_cast<Size>(n);
}

Agraph_t* parsed(std::string_view dot) {
  static IDTYPE counter;
  counter = 1;
  static Agiddisc_t ids = AgIdDisc;
  ids.open = [](Agraph_t*, Agdisc_t*) -> void* { return &counter; };
  ids.map = number_unnamed;
  ids.print = [](void*, int, IDTYPE) -> char* { return nullptr; };
  ids.close = [](void*) {};
  static Agiodisc_t io = AgIoDisc;
  io.afread = read_some;
  static Agdisc_t all{};
  all.id = &ids;
  all.io = &io;
  if constexpr (requires(Agdisc_t d) { d.mem; }) all.mem = &AgMemDisc;
  return agread(&dot, &all);
}

using Graph = std::unique_ptr<Agraph_t, Close>;

// The cluster of a node; null if it stands for itself.
Agraph_t* cluster_of(Agraph_t* graph, Agnode_t* node) {
  for (Agraph_t* s = agfstsubg(graph); s; s = agnxtsubg(s))
    if (std::string_view(agnameof(s)).starts_with("cluster") && agcontains(s, node)) return s;
  return nullptr;
}

// `dot` puts clusters where their arrows to each other are short, in any order. So it does not get
// to see those: once all boxes stand, in the order of the file, `nop` routes all arrows.
struct Across {
  std::string from, to;
  std::vector<std::pair<std::string, std::string>> attributes;
};
std::vector<Across> taken_out(Agraph_t* graph) {
  std::vector<Agedge_t*> edges;
  for (Agnode_t* n = agfstnode(graph); n; n = agnxtnode(graph, n))
    for (Agedge_t* e = agfstout(graph, n); e; e = agnxtout(graph, e)) {
      Agraph_t *a = cluster_of(graph, agtail(e)), *b = cluster_of(graph, aghead(e));
      if (a && b && a != b) edges.push_back(e);
    }
  std::vector<Across> out;
  for (Agedge_t* e : edges) {
    out.push_back({agnameof(agtail(e)), agnameof(aghead(e)), {}});
    for (Agsym_t* k = agnxtattr(graph, AGEDGE, nullptr); k; k = agnxtattr(graph, AGEDGE, k))
      out.back().attributes.emplace_back(k->name, agxget(e, k));
    agdeledge(graph, e);
  }
  return out;
}
void put_back(Agraph_t* graph, std::vector<Across>& across) {
  std::string none;
  for (Across& a : across) {
    Agedge_t* const e =
        agedge(graph, agnode(graph, a.from.data(), 0), agnode(graph, a.to.data(), 0), nullptr, 1);
    for (auto& [key, value] : a.attributes) agsafeset(e, key.data(), value.data(), none.data());
  }
}

// Equal graphs give equal files, whenever they are made.
void forget_date(std::string& pdf) {
  static constexpr std::string_view mark = "/CreationDate (D:", date = "20000101000000";
  const std::size_t at = pdf.find(mark);
  if (at != pdf.npos && at + mark.size() + date.size() < pdf.size())
    pdf.replace(at + mark.size(), date.size(), date);
}

}  // namespace

namespace {

constexpr int kMostToGoAround = 150;  // boxes
constexpr double kPad = 8;            // points that Graphviz adds to the width
constexpr double kLeastFont = 9;      // in what task_graph_dot writes

// Makes the drawing as wide as the page and at most as tall, with white at both sides if it is
// narrower then.
void fit(GVC_t* context, Agraph_t* graph, const Page& page) {
  const double width = GD_bb(graph).UR.x - GD_bb(graph).LL.x + kPad;
  const double height = GD_bb(graph).UR.y - GD_bb(graph).LL.y + kPad;
  double scale = page.width / width;
  const bool tall = page.height > 0 && height * scale > page.height;
  if (tall) scale = page.height / height;
  if (kLeastFont * scale < page.least_text)
    throw TooSmall(fmt::format(
        "the task graph needs {:.0f} points of {}; on {:.0f} nobody could read its words: draw one "
        "worker (--worker 0) or some steps (--steps 0-1){}",
        (tall ? height : width) * page.least_text / kLeastFont, tall ? "height" : "width",
        tall ? page.height : page.width, tall ? "" : ", or choose a wider page"));
  const auto put = [&](std::string name, std::string value) {
    std::string none;
    agsafeset(graph, name.data(), value.data(), none.data());
  };
  if (tall)
    put("pad",
        fmt::format("{:.6f},{:.6f}", (page.width / scale - width + kPad) / 2 / 72, kPad / 2 / 72));
  put("size", fmt::format("{:.6f},{:.6f}!", page.width / 72, tall ? page.height / 72 : 1000));
  gvFreeLayout(context, graph);
  if (gvLayout(context, graph, "nop2") != 0) failed();
}

std::string rendered(GVC_t* context, Agraph_t* graph, const char* format) {
  char* data = nullptr;
  unsigned length = 0;
  const int status = gvRenderData(context, graph, format, &data, &length);
  std::string out;
  if (data) out.assign(data, length);
  gvFreeRenderData(data);
  if (status != 0 || out.empty()) failed();
  return out;
}

// The boxes where `dot` puts them, as a dot file.
std::string placed(GVC_t* context, Agraph_t* graph) {
  if (gvLayout(context, graph, "dot") != 0) failed();
  std::string out = rendered(context, graph, "dot");
  gvFreeLayout(context, graph);
  return out;
}

}  // namespace

std::string laid_out(const std::string& dot, GraphFormat format, const Page& page) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  complaints.clear();
  agseterrf(keep);
  agseterr(AGERR);  // no warnings
  // Never freed: the next context reuses the fonts that one has looked up.
  static GVC_t* const context = gvContext();
  const Graph boxes(parsed(dot));
  if (!context || !boxes) failed();
  std::vector<Across> across = taken_out(boxes.get());
  const Graph graph(parsed(placed(context, boxes.get())));
  if (!graph) failed();
  put_back(graph.get(), across);
  const auto set = [](void* of, std::string key, std::string value) {
    std::string none;
    agsafeset(of, key.data(), value.data(), none.data());
  };
  // Arrows go around all boxes; of many boxes behind them, as the way around takes long to find.
  const bool many = agnnodes(graph.get()) > kMostToGoAround;
  set(graph.get(), "splines", many ? "line" : "true");
  set(graph.get(), "outputorder", many ? "edgesfirst" : "breadthfirst");
  std::string size = "fixedsize", yes = "true";
  agattr(graph.get(), AGNODE, size.data(), yes.data());
  if (format == GraphFormat::Png) set(graph.get(), "dpi", fmt::format("{}", 72 * page.pixels));
  if (format == GraphFormat::Pdf) set(graph.get(), "margin", "0");
  srand48(1);  // which Graphviz finds its ways by
  if (gvLayout(context, graph.get(), "nop2") != 0) failed();
  if (page.fixed()) fit(context, graph.get(), page);
  const char* name = format == GraphFormat::Svg   ? "svg"
                     : format == GraphFormat::Pdf ? "pdf"
                                                  : "png";
  std::string out = rendered(context, graph.get(), name);
  gvFreeLayout(context, graph.get());
  if (format == GraphFormat::Pdf) forget_date(out);
  if (format == GraphFormat::Png) out = with_density(out, page.pixels);
  return out;
}

std::string graphviz_version() {
  GVC_t* const context = gvContext();
  std::string out = gvcVersion(context);
  gvFreeContext(context);
  return out;
}

#else

std::string laid_out(const std::string&, GraphFormat, const Page&) {
  fail(
      "this ringsched was built without Graphviz, which lays out graphs; write "
      ".dot, "
      "or install libgraphviz-dev and build again");
}

std::string graphviz_version() { return {}; }

#endif

}  // namespace ringsched
