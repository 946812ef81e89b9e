#include "answers.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

#include "rendezvous/frame.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kLongestText = 200;  // bytes

}  // namespace

AnswerWriter& AnswerWriter::whole(std::int64_t x) {
  put_number(bytes_, static_cast<std::uint64_t>(x), 8);
  return *this;
}

AnswerWriter& AnswerWriter::number(double x) {
  put_number(bytes_, std::bit_cast<std::uint64_t>(x), 8);
  return *this;
}

AnswerWriter& AnswerWriter::text(std::string_view x) {
  x = x.substr(0, kLongestText);
  put_number(bytes_, x.size(), 8);
  bytes_ += x;
  return *this;
}

AnswerReader::AnswerReader(std::string bytes, std::uint32_t rank, const char* what)
    : bytes_(std::move(bytes)), rank_(rank), what_(what) {}

std::int64_t AnswerReader::whole(std::int64_t least, std::int64_t most) {
  std::string_view bytes = take(8);
  const auto x = static_cast<std::int64_t>(take_number(bytes, 8));
  if (x < least || x > most) refuse();
  return x;
}

double AnswerReader::number() {
  std::string_view bytes = take(8);
  return std::bit_cast<double>(take_number(bytes, 8));
}

double AnswerReader::magnitude() {
  const double x = number();
  if (x < 0) refuse();
  return x;
}

double AnswerReader::finite_magnitude() {
  const double x = magnitude();
  if (!std::isfinite(x)) refuse();
  return x;
}

std::string AnswerReader::text() {
  const std::int64_t size = whole(0, kLongestText);
  return printable(take(static_cast<std::uint64_t>(size)), kLongestText);
}

void AnswerReader::end() const {
  if (at_ != bytes_.size()) refuse();
}

void AnswerReader::refuse() const {
  throw RunFailed(fmt::format("process {} sent {} that cannot be read", rank_, what_));
}

std::string_view AnswerReader::take(std::uint64_t bytes) {
  if (bytes > bytes_.size() - at_) refuse();
  const std::string_view out = std::string_view(bytes_).substr(at_, bytes);
  at_ += bytes;
  return out;
}

std::vector<AnswerReader> gather_answers(World& world, const std::string& own, const char* what) {
  std::vector<AnswerReader> out;
  for (std::string& text : world.gather(own))
    out.emplace_back(std::move(text), static_cast<std::uint32_t>(out.size()), what);
  return out;
}

}  // namespace ringsched
