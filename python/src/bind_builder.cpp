// Builder: a schedule written in Python, with the same calls as in C++.
#include <fmt/format.h>

#include "asked.hpp"
#include "held.hpp"
#include "module.hpp"
#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/error.hpp"
#include "work.hpp"

namespace ringsched::python {

namespace {

WorkerId worker_id(std::int64_t worker) {
  if (worker < 0 || worker > kMaxWorkers) fail("there is no worker {}", worker);
  return {static_cast<std::uint32_t>(worker)};
}

Step step_number(std::int64_t step) {
  if (step < 0 || step > std::numeric_limits<std::int32_t>::max())
    fail("step {}: steps count from 0", step);
  return static_cast<Step>(step);
}

// Queries, keys or a result, and the builder whose calls they name.
template <class T>
struct Handle : T {
  std::shared_ptr<bool> builder;
};

// A view's builder shares the calls with its parent, so both end together.
class HeldBuilder {
 public:
  HeldBuilder(const Problem& problem, const std::string& layout, std::string name)
      : name_(std::move(name)), ended_(std::make_shared<bool>(false)) {
    require_valid(problem);
    builder_.emplace(problem, make_layout(layout, problem));
  }
  HeldBuilder(PlanBuilder view, const HeldBuilder& of)
      : name_(of.name_), ended_(of.ended_), is_view_(true), builder_(std::move(view)) {}

  PlanBuilder& use() {
    if (*ended_) fail("builder {}: the plan is finished; make another builder", name_);
    return *builder_;
  }
  template <class T>
  Handle<T> mine(T x) const {
    return {std::move(x), ended_};
  }
  template <class T>
  std::vector<Handle<T>> mine(std::vector<T> list) const {
    std::vector<Handle<T>> out;
    for (T& x : list) out.push_back(mine(std::move(x)));
    return out;
  }
  template <class T>
  const T& checked(const Handle<T>& x) const {
    if (x.builder != ended_) fail("builder {}: what another builder made is given to it", name_);
    return x;
  }
  template <class T>
  std::vector<T> checked(const std::vector<Handle<T>>& list) const {
    std::vector<T> out;
    for (const Handle<T>& x : list) out.push_back(checked(x));
    return out;
  }
  PlanPointer finish(const Communication& how) {
    if (is_view_) fail("builder {}: finish the builder that the view is of", name_);
    use();
    *ended_ = true;
    return aside([&] { return with_communication(std::move(*builder_).finish(name_), how, true); });
  }

 private:
  std::string name_;
  std::shared_ptr<bool> ended_;
  bool is_view_ = false;
  std::optional<PlanBuilder> builder_;
};

Lane lane_of(HeldBuilder& b, const std::string& name) {
  for (std::size_t i = 0; i < kBasicLanes.size(); ++i)
    if (kBasicLanes[i] == name) return static_cast<Lane>(i);
  return b.use().lane(name);
}

// Queries and keys are moved alike.
template <class T>
Handle<T> moved(HeldBuilder& b, const Handle<T>& what, std::int64_t to, const std::string& lane,
                std::optional<std::int64_t> needed) {
  Timing timing{lane_of(b, lane), {}};
  if (needed) timing.needed = step_number(*needed);
  return b.mine(b.use().move(b.checked(what), worker_id(to), timing));
}

template <class Operand>
void bind_operand(nb::module_& m, const char* name, const char* about) {
  using T = Handle<Operand>;
  nb::class_<T>(m, name, about)
      .def_prop_ro("owner", [](const T& x) { return x.owner.value; })
      .def_prop_ro(
          "worker", [](const T& x) { return x.worker.value; }, "Where it is now.")
      .def_prop_ro("parts", [](const T& x) { return x.parts; })
      .def_prop_ro("first_chunk", [](const T& x) { return x.view.first.value; })
      .def_prop_ro("chunks", [](const T& x) { return x.view.count; })
      .def_prop_ro("first_head", [](const T& x) { return x.heads.first; })
      .def_prop_ro("heads", [](const T& x) { return x.heads.count; })
      .def("__bool__", [](const T& x) { return x.valid(); })
      .def(
          "part",
          [](const T& x, std::uint32_t i) {
            if (i >= x.parts) fail("part {}: there are {}", i, x.parts);
            return T{x.part(i), x.builder};
          },
          "index"_a, "One of the chunks that the layout cuts a share into.");
}

void bind_handles(nb::module_& m) {
  bind_operand<Queries>(m, "Queries", "The queries of one owner, on some worker.");
  bind_operand<Keys>(m, "Keys", "The keys and values of one owner, on some worker.");
  using HeldPartial = Handle<Partial>;
  nb::class_<HeldPartial>(m, "Partial", "What an attend made: a partial result, to be merged once.")
      .def_prop_ro("owner", [](const Partial& x) { return x.owner.value; })
      .def_prop_ro("worker", [](const Partial& x) { return x.worker.value; })
      .def("__bool__", [](const Partial& x) { return x.valid(); });
  using HeldMerged = Handle<Merged>;
  nb::class_<HeldMerged>(m, "Merged", "The result of some queries, once all has been merged.")
      .def_prop_ro("worker", [](const Merged& x) { return x.worker.value; })
      .def_prop_ro("first_chunk", [](const Merged& x) { return x.view.first.value; })
      .def_prop_ro("chunks", [](const Merged& x) { return x.view.count; })
      .def_prop_ro("first_head", [](const Merged& x) { return x.heads.first; })
      .def_prop_ro("heads", [](const Merged& x) { return x.heads.count; })
      .def("__bool__", [](const Merged& x) { return x.valid(); });
  nb::class_<Wanted>(m, "Wanted", "What a worker gets in an exchange: rows by chunks, and heads.")
      .def(
          "__init__",
          [](Wanted* self, std::int64_t worker, std::uint32_t first_chunk, std::uint32_t chunks,
             std::uint32_t first_head, std::uint32_t heads) {
            new (self) Wanted{worker_id(worker), {{first_chunk}, chunks}, {first_head, heads}};
          },
          "worker"_a, "first_chunk"_a, "chunks"_a, "first_head"_a, "heads"_a);
}

void bind_exchanges(nb::class_<HeldBuilder>& c) {
  c.def(
       "exchange",
       [](HeldBuilder& b, const std::vector<Handle<Queries>>& given,
          const std::vector<Wanted>& wanted) {
         return b.mine(b.use().exchange(b.checked(given), wanted));
       },
       "given"_a, "wanted"_a,
       "Each member gives queries, keys or results, and gets what it wants of all that is given.")
      .def(
          "exchange",
          [](HeldBuilder& b, const std::vector<Handle<Keys>>& given,
             const std::vector<Wanted>& wanted, bool again) {
            return b.mine(b.use().exchange(b.checked(given), wanted, {.again = again}));
          },
          "given"_a, "wanted"_a, "again"_a = false)
      .def(
          "exchange",
          [](HeldBuilder& b, const std::vector<Handle<Merged>>& given,
             const std::vector<Wanted>& wanted) {
            return b.mine(b.use().exchange(b.checked(given), wanted));
          },
          "given"_a, "wanted"_a)
      .def(
          "merged", [](HeldBuilder& b) { return b.mine(b.use().merged()); },
          "By worker: the results of the queries it has in this view.")
      .def(
          "view",
          [](HeldBuilder& b, const std::vector<Handle<Keys>>& keys) {
            return HeldBuilder(b.use().view(b.checked(keys)), b);
          },
          "keys"_a, "Some of the workers, to run a schedule on.")
      .def(
          "view",
          [](HeldBuilder& b, const std::vector<Handle<Queries>>& queries,
             const std::vector<Handle<Keys>>& keys) {
            return HeldBuilder(b.use().view(b.checked(queries), b.checked(keys)), b);
          },
          "queries"_a, "keys"_a);
}

}  // namespace

void bind_builder(nb::module_& m) {
  bind_handles(m);
  nb::class_<HeldBuilder> c(
      m, "Builder",
      "A schedule, call by call: in each step, first all that moves, then all "
      "that is computed. finish() makes the plan, with its backward pass.");
  c.def(nb::init<const Problem&, const std::string&, std::string>(), "problem"_a,
        "layout"_a = "contiguous", "name"_a = "python")
      .def_prop_ro("problem", [](HeldBuilder& b) { return b.use().problem(); })
      .def(
          "step", [](HeldBuilder& b, std::int64_t s) { b.use().step(step_number(s)); }, "number"_a,
          "What follows belongs to this step.")
      .def_prop_ro("steps", [](HeldBuilder& b) { return b.use().steps(); })
      .def(
          "queries",
          [](HeldBuilder& b, std::int64_t w) { return b.mine(b.use().queries(worker_id(w))); },
          "worker"_a, "The queries of a worker, at home.")
      .def(
          "keys", [](HeldBuilder& b, std::int64_t w) { return b.mine(b.use().keys(worker_id(w))); },
          "worker"_a, "The keys and values of a worker, at home.")
      .def(
          "only",
          [](HeldBuilder& b, const Handle<Queries>& q, std::uint32_t first, std::uint32_t count) {
            return b.mine(b.use().only(b.checked(q), {first, count}));
          },
          "queries"_a, "first_head"_a, "heads"_a)
      .def(
          "sees",
          [](HeldBuilder& b, const Handle<Queries>& q, const Handle<Keys>& k) {
            return b.use().sees(b.checked(q), b.checked(k));
          },
          "queries"_a, "keys"_a, "Whether any pair is visible.")
      .def("move", &moved<Queries>, "what"_a, "to"_a, "lane"_a = "fetch", "needed"_a = nb::none(),
           "The same queries, keys or partial on another worker.")
      .def("move", &moved<Keys>, "what"_a, "to"_a, "lane"_a = "fetch", "needed"_a = nb::none())
      .def(
          "move",
          [](HeldBuilder& b, const Handle<Partial>& p, std::int64_t to) {
            return b.mine(b.use().move(b.checked(p), worker_id(to)));
          },
          "what"_a, "to"_a)
      .def(
          "attend",
          [](HeldBuilder& b, const Handle<Queries>& q, const Handle<Keys>& k) {
            return b.mine(b.use().attend(b.checked(q), b.checked(k)));
          },
          "queries"_a, "keys"_a, "Both must be on one worker.")
      .def(
          "merge", [](HeldBuilder& b, const Handle<Partial>& p) { b.use().merge(b.checked(p)); },
          "partial"_a, "Folds a partial into the result of its queries, on their owner.");
  bind_exchanges(c);
  c.def(
      "finish",
      [](HeldBuilder& b, const nb::object& overlap, const nb::object& buffers,
         const nb::object& exchanges) {
        return b.finish(communication_of(overlap, buffers, exchanges));
      },
      nb::kw_only(), "overlap"_a = "prefetch", "buffers"_a = 0, "exchanges"_a = "native",
      nb::sig("def finish(self, *, overlap: str = 'prefetch', buffers: int = 0, exchanges: str = "
              "'native') -> Plan"),
      "The plan of what was said, once.");
}

}  // namespace ringsched::python
