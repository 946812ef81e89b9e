// What a problem computes, as values and statements.
#include "ringsched/scheduler/program.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/cases.hpp"

namespace ringsched {
namespace {

TEST(PlanProgram, OfAnAttentionHasTheBytesThatThePlanFormatStates) {
  for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16}) {
    Problem p = small_problem(2, 100, Pass::Both);
    p.heads = 6;
    p.kv_heads = 2;
    p.head_dim = 24;
    p.dtype = dtype;
    const Program program = program_of(p);
    const std::int64_t rows = 7, e = size_of(dtype), h = 6, k = 2, d = 24;
    const auto bytes = [&](const char* name) {
      return program.bytes(program.find(name), {rows}).value;
    };
    EXPECT_EQ(bytes("query"), rows * h * d * e);
    EXPECT_EQ(bytes("output_gradient"), rows * h * d * e);
    EXPECT_EQ(bytes("key_value"), 2 * rows * k * d * e);
    EXPECT_EQ(bytes("partial"), 4 * rows * h * (d + 1));
    EXPECT_EQ(bytes("prepared_gradient"), rows * h * (d * e + 8));
    EXPECT_EQ(bytes("query_gradient"), 4 * rows * h * d);
    EXPECT_EQ(bytes("key_value_gradient"), 8 * rows * k * d);
    EXPECT_EQ(program.bytes(program.find("partial"), {rows}, 2).value, 4 * rows * 2 * (d + 1));
    EXPECT_FALSE(program.find("weights").valid());
  }
}

std::vector<std::string> names(const Program& program, const std::vector<ValueId>& values) {
  std::vector<std::string> out;
  for (const ValueId v : values) out.push_back(program[v].name);
  return out;
}

TEST(PlanProgram, SaysWhatIsGivenAndAskedInEachPass) {
  using Names = std::vector<std::string>;
  const auto of = [](Pass pass) { return program_of(small_problem(1, 8, pass)); };
  const Program forward = of(Pass::Forward), backward = of(Pass::Backward), both = of(Pass::Both);
  EXPECT_EQ(names(forward, forward.given), (Names{"query", "key_value"}));
  EXPECT_EQ(names(forward, forward.asked), (Names{"partial"}));
  EXPECT_EQ(names(backward, backward.given),
            (Names{"query", "key_value", "output_gradient", "partial"}));
  EXPECT_EQ(names(backward, backward.asked), (Names{"query_gradient", "key_value_gradient"}));
  EXPECT_EQ(names(both, both.given), (Names{"query", "key_value", "output_gradient"}));
  EXPECT_EQ(names(both, both.asked), (Names{"partial", "query_gradient", "key_value_gradient"}));
}

TEST(PlanProgram, AStatementReadsAndMakesAsMuchAsItsOperationDoes) {
  const Program program = program_of(small_problem(1, 8, Pass::Both));
  for (const Statement& s : program.statements) {
    const Operation& op = operation(s.op);
    for (std::size_t i = 0; i < s.inputs.size(); ++i)
      EXPECT_EQ(s.inputs[i].valid(), i < op.inputs) << op.name;
    for (std::size_t i = 0; i < s.outputs.size(); ++i)
      EXPECT_EQ(s.outputs[i].valid(), i < op.outputs) << op.name;
    EXPECT_EQ(program.statement(s.op, s.outputs[0]), &s);
  }
  EXPECT_EQ(program.statement(TaskKind::Attend, attention::kQuery), nullptr);
}

TEST(PlanProgram, QueryHeadsReadTheKeyHeadsOfTheirGroup) {
  for (const std::uint32_t group : {1u, 2u, 3u, 5u})
    for (std::uint32_t first = 0; first < 15; ++first)
      for (std::uint32_t count = 1; first + count <= 15; ++count) {
        const ColumnRange read = ColumnRange{first, count}.grouped(group);
        for (std::uint32_t key_head = 0; key_head < 15; ++key_head) {
          bool any = false;
          for (std::uint32_t h = first; h < first + count; ++h) any |= h / group == key_head;
          EXPECT_EQ(read.contains({key_head, 1}), any);
        }
      }
}

}  // namespace
}  // namespace ringsched
