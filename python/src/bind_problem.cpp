// Problem: the sizes of one attention.
#include <fmt/format.h>

#include "asked.hpp"
#include "module.hpp"

namespace ringsched::python {

namespace {

struct Sizes {
  nb::object workers, tokens, heads, kv_heads, head_dim, dtype, mask, passes, new_tokens;
};

Problem problem_of(const Sizes& s) {
  ProblemFlags flags;
  Asked asked;
  flags.add_to(asked.app());
  asked.add("--workers", s.workers);
  asked.add("--tokens", s.tokens);
  asked.add("--heads", s.heads);
  asked.add("--kv-heads", s.kv_heads);
  asked.add("--head-dim", s.head_dim);
  asked.add("--dtype", s.dtype);
  asked.add("--mask", s.mask);
  asked.add("--pass", s.passes);
  asked.add("--new-tokens", s.new_tokens);
  asked.parse();
  return flags.problem();
}

// What each keyword argument would have to be.
nb::dict arguments(const Problem& p) {
  nb::dict out;
  out["workers"] = p.workers;
  out["tokens"] = p.tokens.value;
  out["heads"] = p.heads;
  out["kv_heads"] = p.kv_heads;
  out["head_dim"] = p.head_dim;
  out["dtype"] = to_text(p.dtype);
  out["mask"] = to_text(p.mask);
  out["passes"] = to_text(p.pass);
  if (p.decodes()) out["new_tokens"] = p.new_tokens.value;
  return out;
}

std::string repr(const Problem& p) {
  return fmt::format(
      "Problem(workers={}, tokens={}, heads={}, kv_heads={}, head_dim={}, dtype='{}', mask='{}', "
      "passes='{}'{})",
      p.workers, p.tokens.value, p.heads, p.kv_heads, p.head_dim, to_text(p.dtype), to_text(p.mask),
      to_text(p.pass), p.decodes() ? fmt::format(", new_tokens={}", p.new_tokens.value) : "");
}

}  // namespace

void bind_problem(nb::module_& m) {
  const nb::object none = nb::none();
  nb::class_<Problem>(
      m, "Problem",
      "One attention and the number of workers that share it. Counts are numbers or "
      "text like '64K'; what is left out is as in the command: 8 workers, 8K tokens "
      "each, 32 heads, 8 key/value heads, head dimension 128, bf16, causal, forward.")
      .def(
          "__init__",
          [](Problem* self, const nb::object& workers, const nb::object& tokens,
             const nb::object& heads, const nb::object& kv_heads, const nb::object& head_dim,
             const nb::object& dtype, const nb::object& mask, const nb::object& passes,
             const nb::object& new_tokens) {
            new (self) Problem(problem_of(
                {workers, tokens, heads, kv_heads, head_dim, dtype, mask, passes, new_tokens}));
          },
          nb::kw_only(), "workers"_a.none() = none, "tokens"_a.none() = none,
          "heads"_a.none() = none, "kv_heads"_a.none() = none, "head_dim"_a.none() = none,
          "dtype"_a.none() = none, "mask"_a.none() = none, "passes"_a.none() = none,
          "new_tokens"_a.none() = none,
          nb::sig(
              "def __init__(self, *, workers: int | str | None = None, tokens: int | str | None "
              "= None, heads: int | str | None = None, kv_heads: int | str | None = None, "
              "head_dim: int | str | None = None, dtype: str | None = None, mask: str | None = "
              "None, passes: str | None = None, new_tokens: int | str | None = None) -> None"))
      .def_prop_ro("workers", [](const Problem& p) { return p.workers; })
      .def_prop_ro("tokens", [](const Problem& p) { return p.tokens.value; })
      .def_prop_ro("heads", [](const Problem& p) { return p.heads; })
      .def_prop_ro("kv_heads", [](const Problem& p) { return p.kv_heads; })
      .def_prop_ro("head_dim", [](const Problem& p) { return p.head_dim; })
      .def_prop_ro("dtype", [](const Problem& p) { return std::string(to_text(p.dtype)); })
      .def_prop_ro("mask", [](const Problem& p) { return to_text(p.mask); })
      .def_prop_ro(
          "new_tokens", [](const Problem& p) { return p.new_tokens.value; },
          "Decoding: the tokens at the end that have queries; 0: all tokens have.")
      .def_prop_ro("passes", [](const Problem& p) { return std::string(to_text(p.pass)); })
      .def("to_dict", &arguments, "The keyword arguments that make this problem.")
      .def("__eq__", [](const Problem& a, const Problem& b) { return a == b; })
      .def("__eq__", [](const Problem&, nb::handle) { return false; })
      .def("__hash__", [](const Problem& p) { return std::hash<std::string>()(repr(p)); })
      .def("__getstate__", &arguments)
      .def("__setstate__",
           [](Problem& self, const nb::dict& d) {
             new (&self) Problem(
                 problem_of({d["workers"], d["tokens"], d["heads"], d["kv_heads"], d["head_dim"],
                             d["dtype"], d["mask"], d["passes"],
                             d.contains("new_tokens") ? nb::object(d["new_tokens"]) : nb::none()}));
           })
      .def("__repr__", &repr);
}

}  // namespace ringsched::python
