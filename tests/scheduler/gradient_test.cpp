// The gradients that with_gradients() adds are derivatives. Each is computed from its statements,
// and compared with the effect of a complex step in one number of one value on a loss.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "reference.hpp"
#include "ringsched/runtime/inputs.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/scheduler/error.hpp"
#include "support/cases.hpp"
#include "support/evaluator.hpp"

namespace ringsched {
namespace {

constexpr double kStep = 1e-40, kOff = 1e-11;

Program attended(std::uint32_t heads, std::uint32_t kv_heads, Pass pass = Pass::Both) {
  Problem p = small_problem(1, 8, pass);
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.head_dim = 3;
  return program_of(p);
}

// Two results over the same keys, and the queries of one attend two sets of keys in one softmax.
Program tied() {
  const Axis heads{"heads", 4, 3, 1}, kv_heads{"kv_heads", 2, 3, 2};
  Program p;
  const ValueId q = add_value(p, {"query", "q", "", TypeId::Rows, heads});
  const ValueId other = add_value(p, {"other_query", "r", "", TypeId::Rows, heads});
  const ValueId keys = add_value(p, {"key_value", "kv", "", TypeId::KeysValues, kv_heads});
  const ValueId cache = add_value(p, {"cache", "c", "", TypeId::KeysValues, kv_heads});
  const ValueId out = add_value(p, {"partial", "o", "", TypeId::Softmax, heads});
  const ValueId second = add_value(p, {"second", "s", "", TypeId::Softmax, heads});
  p.given = {q, other, keys, cache};
  p.asked = {out, second};
  p.statements = {{TaskKind::Attend, {q, keys, {}}, {out, {}}},
                  {TaskKind::Attend, {q, cache, {}}, {out, {}}},
                  {TaskKind::Attend, {other, keys, {}}, {second, {}}}};
  return with_gradients(std::move(p));
}

struct Trial {
  std::string name;
  Program program;
  Mask mask;
  std::int64_t tokens = 5;
};

std::vector<Trial> trials() {
  std::vector<Trial> out;
  for (const char* mask : {"full", "causal", "window:2", "prefix:1,window:1", "documents:2,3",
                           "window:2,documents:2,3"}) {
    out.push_back({std::string("4 heads, ") + mask, attended(4, 2), parse_mask(mask)});
    out.push_back({std::string("tied, ") + mask, tied(), parse_mask(mask)});
  }
  out.push_back({"3 heads of one group", attended(3, 1), Mask::causal()});
  out.push_back({"2 heads", attended(2, 2), Mask::causal()});
  return out;
}

std::vector<Dense> any_numbers(const Trial& t) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> number;
  std::vector<Dense> values(t.program.size());
  for (const ValueId v : t.program.given) {
    values[v.value] = Dense(t.program, v, t.tokens);
    for (std::size_t p = 0; p < values[v.value].parts(); ++p)
      for (Number& x : values[v.value].part(p)) x = number(random);
  }
  return values;
}

// A softmax value that is asked for, the gradient given for it, and its prepared gradient.
struct Result {
  ValueId value, given, prepared;
};
std::vector<Result> results(const Program& p) {
  std::vector<Result> out;
  for (const Statement& s : p.statements)
    if (s.op == TaskKind::Prepare) out.push_back({s.inputs[0], s.inputs[1], s.outputs[0]});
  return out;
}

Number loss(const Trial& t, std::vector<Dense>& values) {
  Number sum;
  for (const Result& r : results(t.program))
    for (std::size_t i = 0; i < values[r.given.value].part(0).size(); ++i)
      sum += values[r.given.value].part(0)[i] * values[r.value.value].part(0)[i];
  return sum;
}

void expect_near(Number found, double expected, const std::string& what) {
  EXPECT_NEAR(found.real(), expected, kOff) << what;
}

TEST(Gradients, OfWhatIsGivenAreDerivativesOfALoss) {
  for (const Trial& t : trials()) {
    const Evaluator evaluator(t.program, t.mask, t.tokens);
    const std::vector<Dense> numbers = any_numbers(t);
    std::vector<Dense> values = numbers;
    evaluator.run(values);
    std::vector<ValueId> of = t.program.given;
    std::erase_if(of, [&](ValueId v) {
      const std::vector<Result> all = results(t.program);
      return std::any_of(all.begin(), all.end(), [&](const Result& r) { return r.given == v; });
    });
    const auto first = static_cast<std::ptrdiff_t>(t.program.asked.size() - of.size());
    const std::vector<ValueId> gradients(t.program.asked.begin() + first, t.program.asked.end());
    for (std::size_t v = 0; v < of.size(); ++v)
      for (std::size_t part = 0; part < numbers[of[v].value].parts(); ++part) {
        Dense& gradient = values[gradients[v].value];
        for (std::size_t i = 0; i < gradient.part(part).size(); ++i) {
          std::vector<Dense> stepped = numbers;
          stepped[of[v].value].part(part)[i] += Number(0, kStep);
          evaluator.run(stepped);
          expect_near(gradient.part(part)[i], loss(t, stepped).imag() / kStep,
                      fmt::format("{}: {} {}[{}]", t.name, t.program[gradients[v]].name, part, i));
        }
      }
  }
}

// A prepared gradient has the derivative by each number of the mean, and delta is that by the size
// of a row: what attends subtract because weights add up to one.
TEST(Gradients, OfResultsArePreparedAsDerivativesByTheResult) {
  for (const Trial& t : trials()) {
    std::vector<Dense> values = any_numbers(t);
    Evaluator(t.program, t.mask, t.tokens).run(values);
    for (const Result& r : results(t.program)) {
      Dense& prepared = values[r.prepared.value];
      const std::size_t width = values[r.value.value].width(0);
      EXPECT_EQ(prepared.part(0), values[r.value.value].part(1)) << "log-sum-exp";
      for (std::size_t i = 0; i < prepared.part(2).size(); ++i) {
        std::vector<Dense> stepped = values;
        stepped[r.value.value].part(0)[i] += Number(0, kStep);
        expect_near(prepared.part(2)[i], loss(t, stepped).imag() / kStep, t.name);
      }
      for (std::size_t row = 0; row < prepared.part(1).size(); ++row) {
        std::vector<Dense> stepped = values;
        for (std::size_t i = 0; i < width; ++i)
          stepped[r.value.value].part(0)[row * width + i] *= Number(1, kStep);
        expect_near(prepared.part(1)[row], loss(t, stepped).imag() / kStep, t.name + ": delta");
      }
    }
  }
}

// What merge and reduce are for: terms of some keys and of the others are all terms.
TEST(Gradients, SumsOfTermsAreTheSameInAnyParts) {
  for (const Trial& t : trials()) {
    const Evaluator evaluator(t.program, t.mask, t.tokens);
    std::vector<Dense> values = any_numbers(t);
    evaluator.run(values);
    for (const Statement& s : t.program.statements) {
      if (!is_attend(s.op)) continue;
      std::vector<Dense> all = evaluator.terms(s, values, 0, t.tokens);
      std::vector<Dense> some = evaluator.terms(s, values, 0, 2);
      std::vector<Dense> rest = evaluator.terms(s, values, 2, t.tokens);
      for (std::size_t n = 0; n < all.size(); ++n) {
        Dense both = evaluator.sum(s.outputs[n], some[n], rest[n]);
        for (std::size_t part = 0; part < both.parts(); ++part)
          for (std::size_t i = 0; i < both.part(part).size(); ++i)
            if (const double x = all[n].part(part)[i].real(); std::isfinite(x))
              expect_near(both.part(part)[i], x, t.name);
            else
              EXPECT_EQ(both.part(part)[i].real(), x) << t.name;
      }
    }
  }
}

TEST(Gradients, EachReadingOfAValueAddsToItsGradient) {
  const Program p = tied();
  const auto adding_to = [&](std::string_view name) {
    int n = 0;
    for (const Statement& s : p.statements)
      for (const ValueId out : s.outputs) n += out == p.find(name);
    return n;
  };
  EXPECT_EQ(adding_to("query_gradient"), 2);
  EXPECT_EQ(adding_to("key_value_gradient"), 2);
  EXPECT_EQ(adding_to("other_query_gradient"), 1);
  EXPECT_EQ(adding_to("cache_gradient"), 1);
  EXPECT_EQ(adding_to("partial_gradient"), 1);
  EXPECT_EQ(p.asked.size(), 6u);
  for (const Statement& s : p.statements) EXPECT_TRUE(s.asked);
}

TEST(Gradients, AStatementIsAskedIfAResultNeedsIt) {
  const auto asked = [](Pass pass) {
    std::vector<std::string_view> out;
    for (const Statement& s : attended(4, 2, pass).statements)
      if (s.asked) out.push_back(to_text(s.op));
    return out;
  };
  EXPECT_THAT(asked(Pass::Forward), testing::ElementsAre("attend", "round"));
  EXPECT_THAT(asked(Pass::Backward),
              testing::ElementsAre("prepare", "attend_backward", "round", "round"));
  EXPECT_THAT(asked(Pass::Both), testing::ElementsAre("attend", "prepare", "attend_backward",
                                                      "round", "round", "round"));
}

TEST(Gradients, SayWhatHasNone) {
  const auto message = [](Program p) -> std::string {
    try {
      with_gradients(std::move(p));
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(message(attended(4, 2)),
            "the gradient of query_gradient cannot be given: it is not the result of an attend");
  Program forward = attended(4, 2, Pass::Forward);
  EXPECT_EQ(message(forward), "round has no gradient");
  Program twice = attended(4, 2);
  twice.asked = {attention::kPartial};
  twice.statements = {
      {TaskKind::Merge, {attention::kPartial, attention::kPartial, {}}, {attention::kPartial, {}}}};
  EXPECT_EQ(message(twice), "merge has no gradient");
}

// The numbers that runs are checked with are these as well.
TEST(Gradients, AgreeWithTheReferenceOfRuns) {
  Problem problem = small_problem(1, 6, Pass::Both, parse_mask("window:3"));
  problem.dtype = Dtype::Fp32;
  const Trial t{"", program_of(problem), problem.mask, problem.tokens.value};
  const Inputs inputs(problem, 5);
  std::vector<Dense> values(t.program.size());
  for (const ValueId v : t.program.given) {
    Dense& dense = values[v.value] = Dense(t.program, v, t.tokens);
    for (std::size_t part = 0; part < dense.parts(); ++part)
      for (std::int64_t token = 0; token < t.tokens; ++token)
        for (std::uint32_t h = 0; h < dense.columns(); ++h)
          for (std::uint32_t i = 0; i < dense.width(part); ++i)
            dense.at(part, token, h, i) =
                static_cast<double>(inputs.value(matrices_of(v)[part], token, h, i));
  }
  Evaluator(t.program, t.mask, t.tokens).run(values);
  Reference reference(problem, inputs);
  const auto same = [&](ValueId v, std::size_t part, std::int64_t token, std::uint32_t head,
                        const std::vector<double>& row) {
    for (std::uint32_t i = 0; i < row.size(); ++i)
      expect_near(values[v.value].at(part, token, head, i), row[i], t.program[v].name);
  };
  for (std::int64_t token = 0; token < t.tokens; ++token) {
    for (std::uint32_t h = 0; h < problem.heads; ++h) {
      same(attention::kPartial, 0, token, h, reference.output(token, h).value);
      same(attention::kQueryGradient, 0, token, h, reference.query_gradient(token, h).value);
    }
    for (std::uint32_t h = 0; h < problem.kv_heads; ++h) {
      ReferenceRow key, value;
      reference.key_value_gradients(token, h, {}, key, value);
      same(attention::kKeyValueGradient, 0, token, h, key.value);
      same(attention::kKeyValueGradient, 1, token, h, value.value);
    }
  }
}

}  // namespace
}  // namespace ringsched
